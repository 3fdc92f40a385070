"""Sparse tensors as strings or variants, and maps that keep them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from flowengine.core.arrays import Array, Value, describe, to_array
from flowengine.core.dtypes import DType, as_dtype, string
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.ir.graph import Node
from flowengine.ir.proto import TensorProto
from flowengine.ir.tensorproto import decode_tensor, encode_tensor, set_type, shape_to_proto
from flowengine.ir.wire import encode_varints
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.context import KernelContext
from flowengine.kernels.numpy.order.row_keys import order_of
from flowengine.kernels.registry import kernel
from flowengine.kernels.sparse.entries import check_columns, check_rank, checked_parts, vector_of
from flowengine.resources.elements import HeldTensor
from flowengine.resources.names import resource_name

# Sparse tensors as strings or variants.
#
# A serialised sparse tensor is three elements: its indices, values and dense shape, each a TensorProto's
# bytes or a variant that holds the tensor.

_NAMES = ("indices", "values", "shape")


def _stored(array: Array, dtype: DType, out_type: DType) -> Any:
    if out_type is not string:
        return HeldTensor(array)
    if dtype is string:
        strings = array.tolist()
        proto = TensorProto(tensor_shape=shape_to_proto(TensorShape(array.shape)))
        set_type(proto, dtype)
        proto.tensor_content = encode_varints(np.array([len(s) for s in strings], np.uint64)) + b"".join(
            strings
        )
        return proto.SerializeToString(deterministic=True)
    return encode_tensor(array, dtype).SerializeToString(deterministic=True)


def _row(parts: Sequence[Array], types: Sequence[DType], out_type: DType) -> list[Any]:
    return [_stored(array, dtype, out_type) for array, dtype in zip(parts, types, strict=True)]


def _objects(values: Sequence[Any], shape: Sequence[int]) -> Array:
    out = np.empty(len(values), object)
    out[:] = values
    return out.reshape(shape)


@kernel("SerializeSparse", fresh=True)
def serialize_sparse(indices: Value, values: Value, shape: Value, *, T: DType, out_type: DType) -> Any:
    """(3,): the sparse tensor's parts as strings or variants."""
    places, elements = to_array(indices), to_array(values)
    check_rank(places, 2, "Input indices", "a matrix")
    check_rank(elements, 1, "Input values", "a vector")
    dims = to_array(shape)
    check_rank(dims, 1, "Input shape", "a vector")
    types = (as_dtype("int64"), T, as_dtype("int64"))
    return _objects(_row((places, elements, dims), types, out_type), (3,))


def minibatch(indices: Value, values: Value, shape: Value) -> list[tuple[Array, Array, Array]]:
    """A sparse tensor taken apart along its first dimension."""
    places, elements, dims = checked_parts(indices, values, shape, "sparse_")
    if len(dims) < 2:
        raise InvalidArgumentError(f"Rank of input SparseTensor should be > 1, but saw rank: {len(dims)}")
    rows = dims[0]
    column = places[:, 0]
    if len(column) and not 0 <= int(column.min()) <= int(column.max()) < rows:
        raise InvalidArgumentError(
            f"sparse_indices[:,0] is not in [0, {rows}): {int(column.min())} to {int(column.max())}"
        )
    order = order_of(column)
    if order is not None:
        places, elements, column = places.take(order, 0), elements.take(order), column.take(order)
    ends = np.searchsorted(column, np.arange(rows + 1)).tolist()
    rest, own = places[:, 1:], vector_of(dims[1:])
    return [(rest[a:b], elements[a:b], own) for a, b in itertools.pairwise(ends)]


@kernel("SerializeManySparse", fresh=True)
def serialize_many_sparse(indices: Value, values: Value, shape: Value, *, T: DType, out_type: DType) -> Any:
    """(N, 3): the parts of each of the N sparse tensors along the first dimension."""
    types = (as_dtype("int64"), T, as_dtype("int64"))
    rows = [part for parts in minibatch(indices, values, shape) for part in _row(parts, types, out_type)]
    return _objects(rows, (-1, 3))


def _part(stored: Any, number: int, which: int, dtype: DType) -> Array:
    """One part of a serialised sparse tensor, checked for type and rank."""
    name = f"serialized_sparse[{number}, {which}]"
    if isinstance(stored, HeldTensor):
        array = stored.value
        found = as_dtype(array.dtype) if not array.dtype.hasobject else string
    elif isinstance(stored, bytes):
        proto = TensorProto()
        try:
            proto.ParseFromString(stored)
            array = to_array(decode_tensor(proto))
        except Exception as error:
            raise InvalidArgumentError(f"Could not parse {name}: {error}") from error
        found = as_dtype(array.dtype) if not array.dtype.hasobject else string
    else:
        raise InvalidArgumentError(f"{name} is no tensor but {describe(stored)}")
    if found != dtype:
        raise InvalidArgumentError(
            f"Requested SparseTensor of type {dtype} but {name} ({_NAMES[which]}) is {found}"
        )
    check_rank(
        array, 2 if which == 0 else 1, f"{name} ({_NAMES[which]})", "a matrix" if which == 0 else "a vector"
    )
    return array


def _parts(row: Sequence[Any], number: int, dtype: DType) -> tuple[Array, Array, Array]:
    indices, values, shape = (
        _part(stored, number, which, dtype if which == 1 else as_dtype("int64"))
        for which, stored in enumerate(row)
    )
    if len(indices) != len(values):
        raise InvalidArgumentError(
            f"Expected row counts of indices and values to match, but they do not: {len(indices)} vs. "
            f"{len(values)}"
        )
    check_columns(indices, len(shape), f"indices of SparseTensor {number}", "its shape")
    return indices, values, shape


def joined(parts: Sequence[tuple[Array, Array, Array]], batch: Sequence[int]) -> Any:
    """Sparse tensors of one rank along new first dimensions, of which `batch` tells the sizes."""
    rank = len(parts[0][2])
    for number, (_, _, shape) in enumerate(parts):
        if len(shape) != rank:
            raise InvalidArgumentError(
                f"Inconsistent rank across SparseTensors: rank prior to SparseTensor[{number}] was: {rank} "
                f"but rank of SparseTensor[{number}] is: {len(shape)}"
            )
    counts = np.array([len(values) for _, values, _ in parts])
    owners = np.repeat(np.arange(len(parts)), counts)
    prefix = (
        np.stack(np.unravel_index(owners, tuple(batch)), 1) if batch else np.zeros((len(owners), 0), np.int64)
    )
    indices = np.concatenate([prefix.astype(np.int64), np.concatenate([part[0] for part in parts])], 1)
    largest = np.maximum.reduce([part[2] for part in parts])
    return indices, np.concatenate([part[1] for part in parts]), np.concatenate([vector_of(batch), largest])


@kernel("DeserializeSparse", fresh=True)
def deserialize_sparse(serialized: Value, *, dtype: DType) -> Any:
    """A sparse tensor from (3,); from (..., 3) one with those dimensions in front, entries in order."""
    array = to_array(serialized)
    if not array.ndim or array.shape[-1] != 3:
        raise InvalidArgumentError(
            f"Serialized sparse should have 3 as the last dimension, but has shape {brackets(array.shape)}"
        )
    if not array.size:
        raise InvalidArgumentError("Serialized sparse should have non-zero number of elements")
    rows = array.reshape(-1, 3).tolist()
    parts = [_parts(row, number, dtype) for number, row in enumerate(rows)]
    if array.ndim == 1:
        return parts[0]
    return joined(parts, array.shape[:-1])


@kernel("DeserializeManySparse", fresh=True)
def deserialize_many_sparse(serialized: Value, *, dtype: DType) -> Any:
    """A sparse tensor with one more dimension in front, from the (N, 3) parts of N sparse tensors."""
    array = to_array(serialized)
    if array.ndim != 2 or array.shape[1] != 3:
        raise InvalidArgumentError(
            f"Serialized sparse should be a matrix with 3 columns, but has shape {brackets(array.shape)}"
        )
    if not len(array):
        raise InvalidArgumentError(
            "Must have at least 1 serialized SparseTensor, but input matrix has 0 rows"
        )
    parts = [_parts(row, number, dtype) for number, row in enumerate(array.tolist())]
    return joined(parts, array.shape[:1])


# Maps of sparse tensors: kept under numbers by one node, taken by another.


class SparseTensorsMap:
    """Sparse tensors under numbers that count from zero; each is taken once.

    name    of the map
    """

    __slots__ = ("_held", "_next", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._held: dict[int, tuple[Array, Array, Array]] = {}
        self._next = 0

    def __repr__(self) -> str:
        return f"<SparseTensorsMap '{self.name}' of {len(self._held)}>"

    def add(self, parts: tuple[Array, Array, Array]) -> int:
        """Keep copies of indices, values and dense shape: they may be feeds, or rows of a large batch.

        Returns their number.
        """
        indices, values, shape = parts
        number = self._next
        self._next += 1
        self._held[number] = indices.copy(), values.copy(), shape.copy()
        return number

    def take(self, number: int) -> tuple[Array, Array, Array]:
        """Remove and return the tensor under the number; InvalidArgumentError if there is none."""
        found = self._held.pop(number, None)
        if found is None:
            raise InvalidArgumentError(f"Unable to find SparseTensor: {number} in map: {self.name}")
        return found


def _map(ctx: KernelContext, node: Node) -> SparseTensorsMap:
    where, name = resource_name(node.attrs["container"], node.attrs["shared_name"], node.name)
    return ctx.resources.lookup_or_create(where, name, SparseTensorsMap, lambda: SparseTensorsMap(name))


@kernel("AddSparseToTensorsMap", heavy=False)
def add_sparse_to_tensors_map(
    indices: Value, values: Value, shape: Value, *, ctx: KernelContext, node: Node
) -> Any:
    """Keep a sparse tensor; returns its number (int64, rank 0)."""
    places, elements, dims = checked_parts(indices, values, shape, "sparse_")
    return np.int64(_map(ctx, node).add((places, elements, vector_of(dims))))


@kernel("AddManySparseToTensorsMap", heavy=False)
def add_many_sparse_to_tensors_map(
    indices: Value, values: Value, shape: Value, *, ctx: KernelContext, node: Node
) -> Any:
    """Keep each of the N sparse tensors along the first dimension; returns their numbers (int64, (N,))."""
    held = _map(ctx, node)
    return np.array([held.add(parts) for parts in minibatch(indices, values, shape)], np.int64)


@kernel("TakeManySparseFromTensorsMap", heavy=False)
def take_many_sparse_from_tensors_map(handles: Value, *, dtype: DType, ctx: KernelContext, node: Node) -> Any:
    """The sparse tensors under these numbers as one, with a dimension in front; the map keeps them no "
    "longer."""
    numbers = to_array(handles)
    check_rank(numbers, 1, "sparse_handles", "a vector")
    if not len(numbers):
        raise InvalidArgumentError("Must have at least 1 handle, but there are none")
    held = _map(ctx, node)
    parts = [held.take(number) for number in numbers.tolist()]
    for number, (_, values, _) in zip(numbers.tolist(), parts, strict=True):
        found = string if values.dtype.hasobject else as_dtype(values.dtype)
        if found != dtype:
            raise InvalidArgumentError(
                f"Requested SparseTensor of type {dtype} but SparseTensor {number} is of {found}"
            )
    return joined(parts, numbers.shape)
