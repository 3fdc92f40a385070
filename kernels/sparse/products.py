"""Products and sums of a sparse matrix and a dense one."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets, integers
from flowengine.kernels.common.checks import refuse
from flowengine.kernels.common.indices import check_indices, pick
from flowengine.kernels.common.segment_sums import add_rows
from flowengine.kernels.registry import kernel

#: Rows of a gathered block of this many elements are multiplied at once; more, a block at a time.
_BLOCK_ELEMENTS = 1 << 20


def checked_operands(
    indices: Array, values: Array, shape: Array, b: Array, adjoint_a: bool, adjoint_b: bool
) -> tuple[Array, Array, tuple[int, int]]:
    """(targets, sources, result's shape) of the product: result[target] += value * b[source].

    indices     (E, 2) places in the sparse (M, K) matrix, or its adjoint's
    b           (K, N), or (N, K) where its adjoint is meant
    """
    if b.ndim != 2:
        raise InvalidArgumentError(f"Tensor 'b' is not a matrix: {brackets(b.shape)}")
    dims = integers(shape, "a_shape")
    if len(dims) != 2:
        raise InvalidArgumentError(f"Tensor 'a_shape' must have 2 elements, but has {len(dims)}")
    if min(dims) < 0:
        raise InvalidArgumentError(f"Tensor 'a_shape' must not be negative, but is {brackets(dims)}")
    if values.ndim != 1:
        raise InvalidArgumentError(f"Tensor 'a_values' is not a vector: {brackets(values.shape)}")
    if indices.ndim != 2 or indices.shape[1] != 2:
        raise InvalidArgumentError(f"Tensor 'a_indices' should be (E, 2), but is {brackets(indices.shape)}")
    if len(indices) != len(values):
        raise InvalidArgumentError(
            f"Number of rows of a_indices does not match number of entries in a_values: {len(indices)} and "
            f"{len(values)}"
        )
    rows, inner = dims[::-1] if adjoint_a else dims
    have, columns = b.shape[::-1] if adjoint_b else b.shape
    if inner != have:
        raise InvalidArgumentError(
            "Cannot multiply A and B because inner dimension does not match: "
            f"{inner} vs. {have}. Did you forget a transpose? Dimensions of A: {brackets(dims)}. "
            f"Dimensions of B: {brackets(b.shape)}"
        )
    target, source = (indices[:, 1], indices[:, 0]) if adjoint_a else (indices[:, 0], indices[:, 1])
    if len(values) and rows * columns and b.size:
        check_indices(source, inner, f"a_indices[:,{int(not adjoint_a)}]")
        check_indices(target, rows, f"a_indices[:,{int(adjoint_a)}]")
    return target, source, (rows, columns)


@kernel("SparseTensorDenseMatMul", host=["a_shape"], fresh=True)
def sparse_tensor_dense_mat_mul(
    xp: Any, indices: Array, values: Array, shape: Array, b: Array, *, adjoint_a: bool, adjoint_b: bool
) -> Any:
    """A sparse (M, K) matrix times a dense (K, N) one, entries added in their order."""
    target, source, size = checked_operands(indices, values, shape, b, adjoint_a, adjoint_b)
    narrow = b.dtype.itemsize == 2 and b.dtype.kind in "fV"
    wide = np.float32 if narrow else b.dtype
    out = xp.zeros(size, wide)
    if not len(values) or not out.size:
        return out.astype(b.dtype)
    dense = b.swapaxes(0, 1) if adjoint_b else b
    dense = (xp.conjugate(dense) if adjoint_b and b.dtype.kind == "c" else dense).astype(wide)
    factors = (xp.conjugate(values) if adjoint_a and b.dtype.kind == "c" else values).astype(wide)
    step = max(1, _BLOCK_ELEMENTS // size[1])
    for start in range(0, len(values), step):
        part = slice(start, start + step)
        add_rows(xp, out, target[part], factors[part].reshape(-1, 1) * pick(dense, source[part]))
    return out.astype(b.dtype)


@kernel("SparseTensorDenseAdd", host=["a_shape"], fresh=True)
def sparse_tensor_dense_add(xp: Any, indices: Array, values: Array, shape: Array, b: Array) -> Any:
    """The dense tensor with the entries added, one after another."""
    if indices.ndim != 2:
        raise InvalidArgumentError(
            f"Input a_indices should be a matrix but received shape: {brackets(indices.shape)}"
        )
    if values.ndim != 1:
        raise InvalidArgumentError(
            f"Input a_values should be a vector but received shape: {brackets(values.shape)}"
        )
    dims = integers(shape, "a_shape")
    if len(dims) != b.ndim or indices.shape[1] != b.ndim:
        raise InvalidArgumentError(
            f"Two operands have different ranks; received a_shape {brackets(dims)}, a_indices of "
            f"{indices.shape[1]} columns, and b {brackets(b.shape)}"
        )
    if len(indices) != len(values):
        raise InvalidArgumentError(f"Dimensions {len(indices)} and {len(values)} are not compatible")
    if tuple(dims) != b.shape:
        raise InvalidArgumentError(
            "Dimensions do not equal (no broadcasting is supported): sparse side "
            f"{brackets(dims)} vs dense side {brackets(b.shape)}"
        )
    if not b.ndim:
        raise InvalidArgumentError("a_shape and b must be at least of rank 1")
    out = b.copy()
    if not len(values):
        return out
    bounds = xp.asarray(dims, indices.dtype)
    refuse(
        ((indices < 0) | (indices >= bounds)).any(),
        lambda: InvalidArgumentError(f"Sparse tensor has an invalid index: a_indices leave {brackets(dims)}"),
    )
    flat = xp.zeros(len(values), np.int64)
    for column, extent in enumerate(dims):
        flat = flat * extent + indices[:, column]
    add_rows(xp, out.reshape(-1), flat, values)
    return out
