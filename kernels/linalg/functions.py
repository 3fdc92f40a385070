"""Inverses, determinants and other functions of square matrices.

Square root and logarithm go through the triangle T of A = Z T Z^H (Schur), with the eigenvalues on its
diagonal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.kernels.common import lapack
from flowengine.kernels.common.matrices import adjoint as adjoint_of
from flowengine.kernels.common.matrices import cubic, one_of_empty, square_matrices, unless_singular
from flowengine.kernels.common.ufuncs import float_kernel
from flowengine.kernels.registry import kernel

_SINGULAR: Final = "Input is not invertible."
_TYPES: Final = {"T": ("float32", "float64", "complex64", "complex128")}
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
    return xp.linalg.det(square_matrices(x)).astype(x.dtype)


@kernel("LogMatrixDeterminant", types=_TYPES, fresh=True, heavy=cubic(0.7))
@one_of_empty
def log_matrix_determinant(xp: Any, x: Array) -> Any:
    """The determinants' signs (of absolute value 1, or 0) and the logarithms of their absolute values."""
    sign, logarithm = xp.linalg.slogdet(square_matrices(x))
    # LAPACK tells a sign of what is no number as well.
    sign = xp.where(xp.isnan(logarithm), logarithm, sign)
    return sign.astype(x.dtype), logarithm.astype(x.dtype)


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
