"""Inverses, determinants and other functions of square matrices."""

from __future__ import annotations

from flowengine.core.shapes import UNKNOWN_SHAPE
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import prefix, square, square_at

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
