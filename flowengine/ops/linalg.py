"""Factorisations and solvers of (batches of) matrices."""

from __future__ import annotations

from flowengine.ops.registry import define

define("BatchCholesky", inputs=["input: T"], outputs=["output: T"], attrs=["T: {double, float}"])
define("BatchCholeskyGrad", inputs=["l: T", "grad: T"], outputs=["output: T"], attrs=["T: {float, double}"])
define(
    "BatchMatrixDeterminant",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: {float, double, complex64, complex128}"],
)
define(
    "BatchMatrixInverse",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["adjoint: bool = false", "T: {double, float}"],
)
define(
    "BatchMatrixSolve",
    inputs=["matrix: T", "rhs: T"],
    outputs=["output: T"],
    attrs=["adjoint: bool = false", "T: {double, float}"],
)
define(
    "BatchMatrixSolveLs",
    inputs=["matrix: T", "rhs: T", "l2_regularizer: double"],
    outputs=["output: T"],
    attrs=["T: {double, float}", "fast: bool = true"],
)
define(
    "BatchMatrixTriangularSolve",
    inputs=["matrix: T", "rhs: T"],
    outputs=["output: T"],
    attrs=["lower: bool = true", "adjoint: bool = false", "T: {double, float}"],
)
define("BatchSelfAdjointEig", inputs=["input: T"], outputs=["output: T"], attrs=["T: {double, float}"])
define(
    "BatchSelfAdjointEigV2",
    inputs=["input: T"],
    outputs=["e: T", "v: T"],
    attrs=["compute_v: bool = true", "T: {double, float}"],
)
define(
    "BatchSvd",
    inputs=["input: T"],
    outputs=["s: T", "u: T", "v: T"],
    attrs=[
        "compute_uv: bool = true",
        "full_matrices: bool = false",
        "T: {double, float, complex64, complex128}",
    ],
)
define(
    "Cholesky",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: {double, float, half, complex64, complex128}"],
)
define("CholeskyGrad", inputs=["l: T", "grad: T"], outputs=["output: T"], attrs=["T: {half, float, double}"])
define(
    "Einsum",
    inputs=["inputs: N * T"],
    outputs=["output: T"],
    attrs=["equation: string", "N: int >= 1", "T: type"],
)
define(
    "LogMatrixDeterminant",
    inputs=["input: T"],
    outputs=["sign: T", "log_abs_determinant: T"],
    attrs=["T: {half, float, double, complex64, complex128}"],
)
define(
    "Lu",
    inputs=["input: T"],
    outputs=["lu: T", "p: output_idx_type"],
    attrs=["T: {double, float, half, complex64, complex128}", "output_idx_type: {int32, int64} = int32"],
)
define(
    "MatrixDeterminant",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: {half, float, double, complex64, complex128}"],
)
define(
    "MatrixExponential",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: {double, float, half, complex64, complex128}"],
)
define(
    "MatrixInverse",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["adjoint: bool = false", "T: {double, float, half, complex64, complex128}"],
)
define("MatrixLogarithm", inputs=["input: T"], outputs=["output: T"], attrs=["T: {complex64, complex128}"])
define(
    "MatrixSolve",
    inputs=["matrix: T", "rhs: T"],
    outputs=["output: T"],
    attrs=["adjoint: bool = false", "T: {double, float, half, complex64, complex128}"],
)
define(
    "MatrixSolveLs",
    inputs=["matrix: T", "rhs: T", "l2_regularizer: double"],
    outputs=["output: T"],
    attrs=["T: {double, float, half, complex64, complex128}", "fast: bool = true"],
)
define(
    "MatrixSquareRoot",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: {double, float, half, complex64, complex128}"],
)
define(
    "MatrixTriangularSolve",
    inputs=["matrix: T", "rhs: T"],
    outputs=["output: T"],
    attrs=["lower: bool = true", "adjoint: bool = false", "T: {double, float, half, complex64, complex128}"],
)
define(
    "Qr",
    inputs=["input: T"],
    outputs=["q: T", "r: T"],
    attrs=["full_matrices: bool = false", "T: {double, float, half, complex64, complex128}"],
)
define("SelfAdjointEig", inputs=["input: T"], outputs=["output: T"], attrs=["T: {double, float, half}"])
define(
    "SelfAdjointEigV2",
    inputs=["input: T"],
    outputs=["e: T", "v: T"],
    attrs=["compute_v: bool = true", "T: {double, float, half, complex64, complex128}"],
)
define(
    "Svd",
    inputs=["input: T"],
    outputs=["s: T", "u: T", "v: T"],
    attrs=[
        "compute_uv: bool = true",
        "full_matrices: bool = false",
        "T: {double, float, half, complex64, complex128}",
    ],
)
define(
    "TridiagonalMatMul",
    inputs=["superdiag: T", "maindiag: T", "subdiag: T", "rhs: T"],
    outputs=["output: T"],
    attrs=["T: {double, float, complex64, complex128}"],
)
define(
    "TridiagonalSolve",
    inputs=["diagonals: T", "rhs: T"],
    outputs=["output: T"],
    attrs=["partial_pivoting: bool = true", "T: {double, float, complex64, complex128}"],
)
