"""Products and sums of sparse matrices, by entries or by rows."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, Value
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, UnimplementedError
from flowengine.ir.graph import Node
from flowengine.kernels.common.array_args import brackets, integers
from flowengine.kernels.common.checks import refuse
from flowengine.kernels.common.indices import check_indices, pick
from flowengine.kernels.common.segment_sums import add_rows
from flowengine.kernels.registry import kernel
from flowengine.kernels.sparse.csr_matrices import turned
from flowengine.kernels.sparse.csr_value import SparseMatrix, added, made, matrix_in, rows_of

# Products and sums of a sparse matrix and a dense one.

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


# Sparse matrices by rows as nodes: products, sums, orders that keep factors sparse, and Cholesky factors.

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
