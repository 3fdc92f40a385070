"""Maps of sparse tensors: kept under numbers by one node, taken by another."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.dtypes import DType, as_dtype, string
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel
from flowengine.kernels.sparse.entries import check_rank, checked_parts, vector_of
from flowengine.kernels.sparse.serialized import joined, minibatch
from flowengine.resources.names import resource_name


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
        """What is kept under the number, which is free of it then; InvalidArgumentError if there is "
        "nothing."""
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
