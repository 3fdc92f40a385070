"""Factorisations and functions of matrices and their batches."""

from __future__ import annotations

from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    add_dims,
    prefix,
    ranked_at_least,
    replace_dim,
    smaller,
    square,
    square_at,
    vector,
)

# Factorisations of matrices and their batches.

define("Cholesky(input: T) -> output: T", "T: linalgtype", shape=square)
define("CholeskyGrad(l, grad: T) -> output: T", "T: {half, float, double}", shape=square)
define("BatchCholesky(input: T) -> output: T", "T: {double, float}", shape=square)
define("BatchCholeskyGrad(l, grad: T) -> output: T", "T: {float, double}", shape=square)


@define("SelfAdjointEigV2(input: T) -> e, v: T", "compute_v: bool = true; T: linalgtype")
@define("BatchSelfAdjointEigV2(input: T) -> e, v: T", "compute_v: bool = true; T: {double, float}")
def eigen(c: ShapeContext) -> Shapes:
    """(..., M, M) -> eigenvalues (..., M), eigenvectors (..., M, M)

    What is not wanted is no empty tensor but has a shape that nobody should rely on.
    """
    shape = square_at(c, 0)
    if shape.dims is None:
        return [UNKNOWN_SHAPE, UNKNOWN_SHAPE]
    return [prefix(shape, -1), shape if c.attrs["compute_v"] else UNKNOWN_SHAPE]


@define(
    "Eig(input: T) -> e, v: Tout",
    "compute_v: bool = true; T: {float, double, complex64, complex128}; Tout: complextype",
)
def eigen_general(c: ShapeContext) -> Shapes:
    """(..., M, M) -> eigenvalues (..., M), eigenvectors (..., M, M)"""
    return eigen(c)


@define("SelfAdjointEig(input: T) -> output: T", "T: {double, float, half}")
@define("BatchSelfAdjointEig(input: T) -> output: T", "T: {double, float}")
def eigen_packed(c: ShapeContext) -> Shapes:
    """(..., M, M) -> (..., M + 1, M): values in the first row, then vectors"""
    shape = square_at(c, 0)
    return [shape if shape.dims is None else replace_dim(shape, -2, add_dims(shape.dims[-1], 1))]


@define("Svd(input: T) -> s, u, v: T", "compute_uv: bool = true; full_matrices: bool = false; T: linalgtype")
@define(
    "BatchSvd(input: T) -> s, u, v: T",
    "compute_uv: bool = true; full_matrices: bool = false; T: {double, float, complex64, complex128}",
)
def svd(c: ShapeContext) -> Shapes:
    """(..., M, N) -> singular values (..., P), u (..., M, P or M), v (..., N, P or N); P = min(M, N)"""
    shape = ranked_at_least(c, 0, 2)
    if shape.dims is None:
        return [UNKNOWN_SHAPE] * 3
    batch, rows, columns = prefix(shape, -2), shape.dims[-2], shape.dims[-1]
    least = smaller(rows, columns)
    values = batch.concatenate(vector(least))
    if not c.attrs["compute_uv"]:
        return [values, UNKNOWN_SHAPE, UNKNOWN_SHAPE]
    full = c.attrs["full_matrices"]
    return [
        values,
        batch.concatenate(TensorShape([rows, rows if full else least])),
        batch.concatenate(TensorShape([columns, columns if full else least])),
    ]


@define("Qr(input: T) -> q, r: T", "full_matrices: bool = false; T: linalgtype")
def qr(c: ShapeContext) -> Shapes:
    """(..., M, N) -> q (..., M, P or M), r (..., P or M, N); P = min(M, N)"""
    shape = ranked_at_least(c, 0, 2)
    if shape.dims is None:
        return [UNKNOWN_SHAPE] * 2
    batch, rows, columns = prefix(shape, -2), shape.dims[-2], shape.dims[-1]
    inner = rows if c.attrs["full_matrices"] else smaller(rows, columns)
    return [batch.concatenate(TensorShape([rows, inner])), batch.concatenate(TensorShape([inner, columns]))]


@define("Lu(input: T) -> lu: T, p: output_idx_type", "T: linalgtype; output_idx_type: indextype = int32")
def lu(c: ShapeContext) -> Shapes:
    """(..., M, M) -> the factors in one matrix, and the permutation (..., M)"""
    shape = square_at(c, 0)
    return [shape, UNKNOWN_SHAPE if shape.dims is None else prefix(shape, -1)]


# Inverses, determinants and other functions of square matrices.

define("MatrixInverse(input: T) -> output: T", "adjoint: bool = false; T: linalgtype", shape=square)
define("MatrixExponential(input: T) -> output: T", "T: linalgtype", shape=square)
define("MatrixLogarithm(input: T) -> output: T", "T: complextype", shape=square)
define("MatrixSquareRoot(input: T) -> output: T", "T: linalgtype", shape=square)
define("BatchMatrixInverse(input: T) -> output: T", "adjoint: bool = false; T: {double, float}", shape=square)


@define("MatrixDeterminant(input: T) -> output: T", "T: {half, float, double, complex64, complex128}")
@define("BatchMatrixDeterminant(input: T) -> output: T", "T: {float, double, complex64, complex128}")
@define(
    "LogMatrixDeterminant(input: T) -> sign, log_abs_determinant: T",
    "T: {half, float, double, complex64, complex128}",
)
def determinant(c: ShapeContext) -> Shapes:
    """(..., M, M) -> (...)"""
    shape = square_at(c, 0)
    return [UNKNOWN_SHAPE if shape.dims is None else prefix(shape, -2)] * c.num_outputs
