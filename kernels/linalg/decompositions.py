"""Factorisations and functions of matrices and their batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, in_host_memory, is_numpy
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common import lapack
from flowengine.kernels.common.checks import refuse
from flowengine.kernels.common.matrices import (
    adjoint,
    around_what_is_not_finite,
    ask_for_squares,
    cubic,
    matrices,
    one_of_empty,
    square_matrices,
    unless_singular,
)
from flowengine.kernels.common.matrices import adjoint as adjoint_of
from flowengine.kernels.common.ufuncs import float_kernel
from flowengine.kernels.registry import kernel

# Factorisations of matrices and their batches.
#
# LAPACK computes them through the array library's `linalg`, which goes through a batch without Python.

_NOT_POSITIVE: Final = "Cholesky decomposition was not successful. The input might not be valid."
_NO_EIGENVALUES: Final = "eigen decomposition was not successful. The input might not be valid."
_SINGULAR: Final = "Input is not invertible."
_TYPES: Final = {"T": ("float32", "float64", "complex64", "complex128")}


@kernel("Cholesky", "BatchCholesky", types=_TYPES, fresh=True, heavy=cubic(0.4))
@one_of_empty
def cholesky(xp: Any, x: Array) -> Any:
    """The lower triangles L with L L^H = x, of which the lower triangles alone are read.

    InvalidArgumentError where a matrix is not positive definite; one with a NaN has NaNs for L.
    """
    square_matrices(x)
    try:
        (result,) = around_what_is_not_finite(xp, lambda m: (xp.linalg.cholesky(m),), x)
    except ValueError as error:
        raise InvalidArgumentError(_NOT_POSITIVE) from error
    is_nan = xp.isnan(result).any()
    if is_numpy(xp) and not is_nan:
        return result  # whose upper triangle is 0
    # Libraries for GPUs return NaNs instead.
    refuse(
        xp.logical_and(is_nan, xp.isfinite(x).all()),
        lambda: InvalidArgumentError(_NOT_POSITIVE),
    )
    return xp.tril(result)


@kernel("CholeskyGrad", "BatchCholeskyGrad", fresh=True, heavy=cubic(3.0))
def cholesky_grad(xp: Any, factor: Array, grad: Array) -> Any:
    """The gradient of the symmetric matrix from that of its factor: L^-T P(L^T grad) L^-1, made symmetric.

    P keeps the lower triangle and half of the diagonal (Murray, 2016, "Differentiation of the Cholesky
    decomposition").
    """
    if square_matrices(factor).shape != grad.shape:
        raise InvalidArgumentError(f"l and grad have different shapes: {factor.shape} and {grad.shape}")
    if not factor.size:
        return xp.zeros(factor.shape, factor.dtype)
    lower = xp.tril(factor)
    inner = xp.tril(xp.matmul(lower.swapaxes(-1, -2), xp.tril(grad)))
    diagonal = xp.einsum("...ii->...i", inner)
    diagonal *= inner.dtype.type(0.5)
    upper = lower.swapaxes(-1, -2)
    half = xp.linalg.solve(upper, xp.linalg.solve(upper, inner).swapaxes(-1, -2))
    return (half + half.swapaxes(-1, -2)) * inner.dtype.type(0.5)


@kernel("SelfAdjointEigV2", "BatchSelfAdjointEigV2", types=_TYPES, fresh=True, heavy=cubic(9.0))
@one_of_empty
def self_adjoint_eig_v2(xp: Any, x: Array, *, compute_v: bool) -> Any:
    """The eigenvalues (..., M), from the smallest up, and the vectors as columns (..., M, M).

    The vectors are not specified if `compute_v` is False. Raises InvalidArgumentError if LAPACK finds no
    eigenvalues, as in a matrix with a NaN.
    """
    square_matrices(x)
    try:
        if compute_v:
            values, vectors = xp.linalg.eigh(x)
        else:
            values, vectors = xp.linalg.eigvalsh(x), xp.zeros((), x.dtype)
    except ValueError as error:
        raise InvalidArgumentError(f"Self-adjoint {_NO_EIGENVALUES}") from error
    # LAPACK goes on with a NaN, and may leave it out.
    refuse(
        xp.logical_or(xp.isnan(values).any(), xp.isnan(xp.tril(x)).any()),
        lambda: InvalidArgumentError(f"Self-adjoint {_NO_EIGENVALUES}"),
    )
    return values.astype(x.dtype), vectors


@float_kernel("SelfAdjointEig", "BatchSelfAdjointEig", fresh=True, heavy=cubic(9.0))
@one_of_empty
def self_adjoint_eig(xp: Any, x: Array) -> Any:
    """(..., M, M) -> (..., M + 1, M): the eigenvalues in the first row, the vectors below."""
    values, vectors = self_adjoint_eig_v2(xp, x, compute_v=True)
    return xp.concatenate([values[..., None, :], vectors], axis=-2)


@kernel("Eig", device="CPU", fresh=True, heavy=cubic(25.0))
@one_of_empty
def eig(xp: Any, x: Array, *, compute_v: bool, Tout: DType) -> Any:
    """The eigenvalues (..., M) and vectors (..., M, M) of any square matrices, which are complex.

    For a CPU: no library for GPUs has it.
    """
    square_matrices(x)
    wanted = Tout.as_numpy_dtype
    try:
        if compute_v:
            values, vectors = xp.linalg.eig(x)
        else:
            values, vectors = xp.linalg.eigvals(x), xp.zeros((), wanted)
    except ValueError as error:
        raise InvalidArgumentError(f"The {_NO_EIGENVALUES}") from error
    return values.astype(wanted), vectors.astype(wanted)


@kernel("Svd", "BatchSvd", types=_TYPES, fresh=True, heavy=cubic(15.0))
@one_of_empty
def svd(xp: Any, x: Array, *, compute_uv: bool, full_matrices: bool) -> Any:
    """Singular values s, from the greatest down, and u, v with x = u diag(s) v^H.

    x         (..., M, N), P = min(M, N)
    returns   s (..., P), u (..., M, P), v (..., N, P); with `full_matrices` both are square
    """
    matrices(x)
    if not compute_uv:

        def values(m: Array) -> Any:
            return (xp.linalg.svd(m, compute_uv=False),)

        (s,) = around_what_is_not_finite(xp, values, x)
        return s.astype(x.dtype), xp.zeros((), x.dtype), xp.zeros((), x.dtype)

    if full_matrices:
        ask_for_squares(x, *x.shape[-2:])

    def factors(m: Array) -> Any:
        return xp.linalg.svd(m, full_matrices=full_matrices)

    u, s, vh = around_what_is_not_finite(xp, factors, x)
    return s.astype(x.dtype), u, adjoint(xp, vh)


@float_kernel("Qr", fresh=True, heavy=cubic(4.0))
@one_of_empty
def qr(xp: Any, x: Array, *, full_matrices: bool) -> Any:
    """x (..., M, N) = q r: q unitary (..., M, P), r an upper triangle (..., P, N).

    P is min(M, N), or M with `full_matrices`.
    """
    matrices(x)
    if full_matrices:
        ask_for_squares(x, x.shape[-2])
    q, r = xp.linalg.qr(x, mode="complete" if full_matrices else "reduced")
    return q, r


#: Columns that are eliminated one by one before the rest of the matrix is updated by a product.
_PANEL: Final = 32


def _lu_cost(x: Array) -> float:
    return cubic(0.8)(x) if x.dtype.kind == "f" else cubic(2.0)(x)


@kernel("Lu", types=_TYPES, fresh=True, heavy=_lu_cost)
def lu(xp: Any, x: Array, *, output_idx_type: DType) -> Any:
    """L (ones on its diagonal) and U in one matrix, and the rows of the input in the order of L U.

    The pivot is the greatest absolute value of its column. InvalidArgumentError for a pivot of zero or NaN.
    """
    rows = square_matrices(x).shape[-1]
    flat = x.reshape(-1, rows, rows) if x.size else xp.empty((0, rows, rows), x.dtype)
    # LAPACK compares sums of real and imaginary part, not absolute values: complex pivots would be others.
    if is_numpy(xp) and x.dtype.kind == "f" and lapack.is_worth_a_loop(len(flat), rows):
        factors, order = lapack.lu(flat)
    else:
        factors, order = _lu(xp, flat.copy())
    pivots = xp.absolute(xp.einsum("...ii->...i", factors))
    refuse(xp.logical_not(xp.greater(pivots, 0).all()), lambda: InvalidArgumentError(_SINGULAR))
    return factors.reshape(x.shape), order.astype(output_idx_type.as_numpy_dtype).reshape(x.shape[:-1])


def _lu(xp: Any, a: Array) -> tuple[Array, Array]:
    """The factors of (B, M, M), which they take the place of, and the rows' order (B, M)."""
    count, rows = a.shape[:2]
    place = xp.arange(count)
    order: Array = xp.zeros((count, rows), np.int64) + xp.arange(rows)
    for start in range(0, rows, _PANEL):
        end = min(start + _PANEL, rows)
        for j in range(start, end):
            pivot = j + xp.absolute(a[:, j:, j]).argmax(axis=1)
            for each in (a, order):
                chosen, here = each[place, pivot], each[:, j].copy()
                each[:, j], each[place, pivot] = chosen, here
            a[:, j + 1 :, j] /= a[:, j, j, None]
            a[:, j + 1 :, j + 1 : end] -= a[:, j + 1 :, j, None] * a[:, j, None, j + 1 : end]
        if end < rows:
            for j in range(start + 1, end):
                a[:, j, end:] -= xp.matmul(a[:, j, None, start:j], a[:, start:j, end:])[:, 0]
            a[:, end:, end:] -= xp.matmul(a[:, end:, start:end], a[:, start:end, end:])
    return a, order


# Inverses, determinants and other functions of square matrices.
#
# Square root and logarithm go through the triangle T of A = Z T Z^H (Schur), with the eigenvalues on its
# diagonal.

_COMPLEX: Final = {"float32": np.complex64, "float64": np.complex128}


@float_kernel("MatrixInverse", "BatchMatrixInverse", fresh=True, heavy=cubic(2.0))
@one_of_empty
def matrix_inverse(xp: Any, x: Array, *, adjoint: bool) -> Any:
    """The inverses, or those of the adjoint matrices; InvalidArgumentError for a singular matrix."""
    square_matrices(x)
    return unless_singular(xp, xp.linalg.inv, adjoint_of(xp, x) if adjoint else x, message=_SINGULAR)


@kernel("MatrixDeterminant", "BatchMatrixDeterminant", types=_TYPES, fresh=True, heavy=cubic(0.7))
@one_of_empty
def matrix_determinant(xp: Any, x: Array) -> Any:
    """(..., M, M) -> (...); 1 for matrices without rows."""
    found = xp.linalg.det(square_matrices(x)).astype(x.dtype)
    if not in_host_memory(x):
        return found  # to look for what is not finite would wait for the device
    finite = xp.isfinite(x).all(axis=(-2, -1))
    if finite.all():
        return found
    sign, logarithm = _signs_and_logarithms(xp, x)
    return xp.where(finite, found, sign * xp.exp(logarithm)).astype(x.dtype)


@kernel("LogMatrixDeterminant", types=_TYPES, fresh=True, heavy=cubic(0.7))
@one_of_empty
def log_matrix_determinant(xp: Any, x: Array) -> Any:
    """The determinants' signs (of absolute value 1, or 0) and the logarithms of their absolute values."""
    sign, logarithm = _signs_and_logarithms(xp, square_matrices(x))
    return sign.astype(x.dtype), logarithm.astype(x.dtype)


def _signs_and_logarithms(xp: Any, x: Array) -> tuple[Array, Array]:
    """The sign 0 where the logarithm is not finite, and -inf for NaN, as TensorFlow returns them."""
    sign, logarithm = xp.linalg.slogdet(x)
    sign = xp.where(xp.isfinite(logarithm), sign, 0)
    return sign, xp.where(xp.isnan(logarithm), -np.inf, logarithm)


def _of_finite(function: Callable[[Array], Array], x: Array, lost: Array | None = None) -> Array:
    """A function of (B, M, M) of those matrices that are finite and not `lost`, NaN for the others."""
    flat = x.reshape(-1, *x.shape[-2:])
    keep = np.isfinite(flat).all(axis=(1, 2))
    if lost is not None:
        keep &= ~lost.reshape(-1)
    if keep.all():
        return function(flat).reshape(x.shape)
    result = np.full(flat.shape, np.nan, x.dtype)
    if keep.any():
        result[keep] = function(flat[keep])
    return result.reshape(x.shape)


@kernel("MatrixExponential", device="CPU", types=_TYPES, fresh=True, heavy=cubic(20.0))
def matrix_exponential(x: Array) -> Array:
    """exp(A) of each matrix. For a CPU: TensorFlow has no kernel for GPUs."""
    return _of_finite(lapack.exponential, x) if square_matrices(x).size else x.copy()


@kernel("MatrixSquareRoot", device="CPU", types=_TYPES, fresh=True, heavy=cubic(60.0))
def matrix_square_root(x: Array) -> Array:
    """The principal square roots: their eigenvalues have no negative real part.

    NaN where there is none: for a real matrix with a negative eigenvalue, for one that has the eigenvalue 0
    several times. For a CPU: TensorFlow has no kernel for GPUs.
    """
    if not square_matrices(x).size:
        return x.copy()
    if x.dtype.kind == "c":
        return _of_finite(_square_root, x)
    finite = np.isfinite(x).all(axis=(-1, -2), keepdims=True)
    values = np.linalg.eigvals(np.where(finite, x, 0))
    negative = ((values.imag == 0) & (values.real < 0)).any(axis=-1)
    wide = _COMPLEX[x.dtype.name]
    return _of_finite(lambda m: _square_root(m.astype(wide)).real.astype(x.dtype), x, negative)


def _square_root(matrices: Array) -> Array:
    triangles, unitary = lapack.schur(matrices)
    root: Array = unitary @ _triangle_root(triangles) @ unitary.swapaxes(-1, -2).conj()
    return root


def _triangle_root(triangle: Array) -> Array:
    """R (B, M, M) with R R = T, both upper triangles: one diagonal after another.

    On the diagonal r_ii = sqrt(t_ii), above it (r_ii + r_jj) r_ij = t_ij - sum_k r_ik r_kj, i < k < j.
    """
    count, size = triangle.shape[:2]
    # Of a row from its diagonal to the right, and of a column from its diagonal upwards.
    rows, columns = np.zeros((2, count, size, size), triangle.dtype)
    main = np.sqrt(np.einsum("bii->bi", triangle))
    rows[:, :, 0] = columns[:, :, 0] = main
    for far in range(1, size):
        left, right = rows[:, : size - far, 1:far], columns[:, far:, 1:far]
        between = np.einsum("bik,bik->bi", left, right[..., ::-1])
        wanted = np.diagonal(triangle, far, 1, 2) - between
        rows[:, : size - far, far] = columns[:, far:, far] = wanted / (main[:, :-far] + main[:, far:])
    root = np.zeros_like(triangle)
    for far in range(size):
        np.einsum("bii->bi", root[:, : size - far, far:])[...] = rows[:, : size - far, far]
    return root


def _on_unit_interval(count: int) -> tuple[list[float], list[float]]:
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return ((nodes + 1) / 2).tolist(), (weights / 2).tolist()


#: log(1 + x) = sum of w x / (1 + n x), nodes and weights of Gauss on [0, 1]: for |x| <= 1/4 to 1e-17.
_NODES, _WEIGHTS = _on_unit_interval(8)
_NEAR: Final = 0.25
#: So many square roots bring any number of float64 near 1.
_ROOTS_MAX: Final = 64


@kernel("MatrixLogarithm", device="CPU", fresh=True, heavy=cubic(200.0))
def matrix_logarithm(x: Array) -> Array:
    """The principal logarithms; NaN for a singular matrix. For a CPU: TensorFlow has no kernel for GPUs."""
    if not square_matrices(x).size:
        return x.copy()
    return _of_finite(lambda m: _logarithm(m.astype(np.complex128)).astype(x.dtype), x)


def _logarithm(matrices: Array) -> Array:
    """Square roots until the triangle is near 1, and a sum of fractions there, doubled for each root."""
    triangles, unitary = lapack.schur(matrices)
    values = np.einsum("bii->bi", triangles)
    singular = (values == 0).any(axis=1)
    triangles[singular] = np.eye(triangles.shape[-1])
    logarithms = np.log(np.einsum("bii->bi", triangles))
    eye = np.eye(triangles.shape[-1])
    doubled = np.zeros(len(triangles))
    for _ in range(_ROOTS_MAX):
        far = np.flatnonzero(np.abs(triangles - eye).sum(axis=1).max(axis=1) > _NEAR)
        if not far.size:
            break
        triangles[far] = _triangle_root(triangles[far])
        doubled[far] += 1
    near = triangles - eye
    result = np.zeros_like(near)
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        result += weight * np.linalg.solve(eye + node * near, near)
    result *= np.exp2(doubled)[:, None, None]
    np.einsum("bii->bi", result)[...] = logarithms
    full: Array = unitary @ result @ unitary.swapaxes(-1, -2).conj()
    full[singular] = np.nan
    return full
