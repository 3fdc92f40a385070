"""Sparse matrices by rows as nodes: products, sums, orders that keep factors sparse, and Cholesky factors."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, Value
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, UnimplementedError
from flowengine.ir.graph import Node
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.registry import kernel
from flowengine.kernels.sparse.csr_matrices import turned
from flowengine.kernels.sparse.csr_value import SparseMatrix, added, made, matrix_in, rows_of

HOST: Final = "SciPy's matrices of a variant, which has no form in a device's memory"

_TYPES: Final = {"T": ("float32", "float64", "complex64", "complex128")}


def _inner(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    if left[-1] != right[-2]:
        raise InvalidArgumentError(
            f"Inner dimensions of a and b must match: {left[-1]} != {right[-2]} (shapes {brackets(left)} and "
            f"{brackets(right)})"
        )


def _given(matrix: SparseMatrix, transpose: bool, adjoint: bool) -> SparseMatrix:
    if not (transpose or adjoint):
        return matrix
    shape = (*matrix.shape[:-2], matrix.shape[-1], matrix.shape[-2])
    return SparseMatrix(shape, [turned(part, adjoint) for part in matrix.parts], matrix.dtype)


@kernel("SparseMatrixMatMul", types=_TYPES, fresh=True)
def sparse_matrix_mat_mul(
    a: Value,
    b: Array,
    *,
    T: DType,
    transpose_a: bool,
    transpose_b: bool,
    adjoint_a: bool,
    adjoint_b: bool,
    transpose_output: bool,
    conjugate_output: bool,
) -> Array:
    """The product of sparse matrices (..., M, K) and dense ones (..., K, N)."""
    left = _given(matrix_in(a, T, "a"), transpose_a, adjoint_a)
    if b.ndim != len(left.shape):
        raise InvalidArgumentError(
            f"a and b must have one rank, not {brackets(left.shape)} and {brackets(b.shape)}"
        )
    right = np.swapaxes(b, -1, -2) if transpose_b or adjoint_b else b
    right = np.conj(right) if adjoint_b else right
    _inner(left.shape, right.shape)
    if left.is_batch and len(left.parts) != len(right):
        raise InvalidArgumentError(
            f"a and b must be batches of one size, not {len(left.parts)} and {len(right)}"
        )
    stacked = right if left.is_batch else right[None]
    out = np.zeros((len(left.parts), left.shape[-2], right.shape[-1]), b.dtype)
    for place, part, dense in zip(out, left.parts, stacked, strict=True):
        if place.size and part.indices.size:
            place[...] = part @ dense
    result = out if left.is_batch else out[0]
    result = np.swapaxes(result, -1, -2) if transpose_output else result
    return np.ascontiguousarray(np.conj(result) if conjugate_output else result)


@kernel("SparseMatrixMul", types=_TYPES)
def sparse_matrix_mul(a: Value, b: Array, *, T: DType) -> SparseMatrix:
    """Every entry times a number, or times the number of its matrix in a batch."""
    matrix = matrix_in(a, T, "a")
    factors = np.asarray(b)
    if not factors.ndim:
        return matrix.each(lambda part: made(part.data * factors, part.indices, part.indptr, part.shape))
    if not matrix.is_batch or factors.ndim != 3 or factors.shape[1:] != (1, 1):
        raise UnimplementedError(
            f"b must be a scalar or shaped [batch_size, 1, 1], not {brackets(factors.shape)} for a of "
            f"{brackets(matrix.shape)}"
        )
    if len(factors) != len(matrix.parts):
        raise InvalidArgumentError(f"b has {len(factors)} numbers for a batch of {len(matrix.parts)}")
    pairs = zip(matrix.parts, factors.reshape(-1), strict=True)
    return matrix.of([made(part.data * by, part.indices, part.indptr, part.shape) for part, by in pairs])


@kernel("SparseMatrixAdd")
def sparse_matrix_add(a: Value, b: Value, alpha: Any, beta: Any, *, T: DType) -> SparseMatrix:
    """alpha a + beta b, with an entry wherever one of them has one."""
    left, right = matrix_in(a, T, "a"), matrix_in(b, T, "b")
    if left.shape != right.shape:
        raise InvalidArgumentError(
            f"a and b must have one shape, not {brackets(left.shape)} and {brackets(right.shape)}"
        )

    def scaled(part: Any, factor: Any) -> Any:
        return made(part.data * factor, part.indices, part.indptr, part.shape)

    pairs = zip(left.parts, right.parts, strict=True)
    return left.of([added(scaled(one, alpha), scaled(other, beta)) for one, other in pairs])


@kernel("SparseMatrixSparseMatMul")
def sparse_matrix_sparse_mat_mul(
    a: Value,
    b: Value,
    *,
    node: Node,
    transpose_a: bool,
    transpose_b: bool,
    adjoint_a: bool,
    adjoint_b: bool,
) -> SparseMatrix:
    """The sparse product of sparse matrices; a batch of one goes with all of another batch."""
    left = _given(matrix_in(a, node.attrs["type"], "a"), transpose_a, adjoint_a)
    right = _given(matrix_in(b, node.attrs["type"], "b"), transpose_b, adjoint_b)
    if len(left.shape) != len(right.shape):
        raise InvalidArgumentError(
            f"a and b must have one rank, not {brackets(left.shape)} and {brackets(right.shape)}"
        )
    _inner(left.shape, right.shape)
    count = max(len(left.parts), len(right.parts)) if left.parts and right.parts else 0
    if {len(left.parts), len(right.parts)} - {1, count}:
        raise InvalidArgumentError(
            f"batches of {len(left.parts)} and {len(right.parts)} matrices do not go together"
        )
    parts = []
    for which in range(count):
        product = left.parts[which % len(left.parts)] @ right.parts[which % len(right.parts)]
        product.sort_indices()
        parts.append(product)
    shape = (*([count] if left.is_batch else []), left.shape[-2], right.shape[-1])
    return SparseMatrix(shape, parts, left.dtype)


# --------------------------------------------------------------------------- orders and factors


def _square(value: Value, wanted: DType | None = None) -> SparseMatrix:
    matrix = matrix_in(value, wanted)
    if matrix.shape[-1] != matrix.shape[-2]:
        raise InvalidArgumentError(f"sparse matrix must be square; got: {brackets(matrix.shape)}")
    return matrix


def _order(part: Any) -> Array:
    """Rows in the order of a multiple minimum degree of the pattern and its transpose."""
    from scipy.sparse import coo_array
    from scipy.sparse.linalg import splu

    size = part.shape[0]
    rows, diagonal = rows_of(part), np.arange(size)
    # Of the pattern alone: a diagonal that outweighs its row has a factor whatever the matrix is.
    counts = np.bincount(np.concatenate([rows, part.indices]), minlength=size) + 1.0
    values = np.concatenate([np.full(2 * rows.size, 0.5), counts])
    places = (
        np.concatenate([rows, part.indices, diagonal]),
        np.concatenate([part.indices, rows, diagonal]),
    )
    pattern = coo_array((values, places), shape=(size, size)).tocsc()
    order: Array = np.argsort(splu(pattern, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0).perm_c)
    return order


@kernel("SparseMatrixOrderingAMD", fresh=True)
def sparse_matrix_ordering_amd(given: Value) -> Array:
    """An order of rows and columns whose Cholesky factor has few entries, int32 (..., rows).

    A minimum degree order as SuperLU finds it; another one than TensorFlow's, and as good.
    """
    matrix = _square(given)
    size = matrix.shape[-1]
    orders = [_order(part) if size else np.zeros(0) for part in matrix.parts]
    return np.array(orders).astype(np.int32).reshape(matrix.shape[:-1])


def _lower(part: Any, order: Array, which: int) -> Any:
    """The factor of P A P^H, of which the lower part of A is read."""
    from scipy.sparse import coo_array
    from scipy.sparse.linalg import splu

    size = part.shape[0]
    if not np.array_equal(np.sort(order), np.arange(size)):
        raise InvalidArgumentError(f"the permutation of batch index {which} does not hold each row once")
    failed = InvalidArgumentError(
        f"Sparse Cholesky factorization failed for batch index {which}. The input might not be valid."
    )
    place = np.argsort(order)
    rows, columns = place[rows_of(part)], place[part.indices]
    below, above = rows_of(part) >= part.indices, rows_of(part) > part.indices
    values = np.concatenate([part.data[below], np.conj(part.data[above])])
    places = (
        np.concatenate([rows[below], columns[above]]),
        np.concatenate([columns[below], rows[above]]),
    )
    whole = coo_array((values, places), shape=(size, size)).tocsc()
    try:
        found = splu(whole, permc_spec="NATURAL", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except RuntimeError:
        raise failed from None
    diagonal = found.U.diagonal()
    if not np.array_equal(found.perm_r, found.perm_c) or not (diagonal.real > 0).all():
        raise failed
    # SuperLU takes columns that do not depend on each other in another order: back to the one asked for.
    lower = found.L.tocoo()
    back = np.argsort(found.perm_c)
    entries = lower.data * np.sqrt(diagonal.real)[lower.col]
    factor = coo_array((entries, (back[lower.row], back[lower.col])), shape=(size, size)).tocsr()
    factor.eliminate_zeros()
    factor.sort_indices()
    return factor.astype(part.dtype)


@kernel("SparseMatrixSparseCholesky")
def sparse_matrix_sparse_cholesky(given: Value, permutation: Array, *, node: Node) -> SparseMatrix:
    """L with L L^H = A[p][:, p], of symmetric positive definite matrices, whose lower parts are read."""
    matrix = _square(given, node.attrs["type"])
    if permutation.shape != matrix.shape[:-1]:
        raise InvalidArgumentError(
            f"permutation must have shape {brackets(matrix.shape[:-1])} for matrices of "
            f"{brackets(matrix.shape)}, not {brackets(permutation.shape)}"
        )
    if not matrix.shape[-1]:
        return matrix
    orders = permutation.reshape(len(matrix.parts), -1)
    return matrix.of(
        [
            _lower(part, order, which)
            for which, (part, order) in enumerate(zip(matrix.parts, orders, strict=True))
        ]
    )
