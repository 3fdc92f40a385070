"""Diagonals and bands of matrices."""

from __future__ import annotations

from typing import Final

from flowengine.core.arrays import to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    check_scalars,
    prefix,
    ranked_at_least,
    scalar_value,
    smaller,
    suffix,
)

#: On which side shorter diagonals stand, those above the main one first.
ALIGN: Final = "align: {'LEFT_RIGHT', 'RIGHT_LEFT', 'LEFT_LEFT', 'RIGHT_RIGHT'} = 'RIGHT_LEFT'"


@define("BatchMatrixBandPart(input: T, num_lower, num_upper: int64) -> band: T", "T: type")
@define(
    "MatrixBandPart(input: T, num_lower, num_upper: Tindex) -> band: T", "T: type; Tindex: indextype = int64"
)
def band_part(c: ShapeContext) -> Shapes:
    check_scalars(c, 1, 2)
    return [ranked_at_least(c, 0, 2)]


@define("BatchMatrixDiag(diagonal: T) -> output: T", "T: type")
@define("MatrixDiag(diagonal: T) -> output: T", "T: type")
def matrix_diag(c: ShapeContext) -> Shapes:
    """(..., K) -> (..., K, K)"""
    shape = ranked_at_least(c, 0, 1)
    return [UNKNOWN_SHAPE if shape.dims is None else TensorShape((*shape.dims, shape.dims[-1]))]


@define("BatchMatrixDiagPart(input: T) -> diagonal: T", "T: type")
@define("MatrixDiagPart(input: T) -> diagonal: T", "T: type")
def matrix_diag_part(c: ShapeContext) -> Shapes:
    """(..., M, N) -> (..., min(M, N))"""
    shape = ranked_at_least(c, 0, 2)
    if shape.dims is None:
        return [UNKNOWN_SHAPE]
    return [TensorShape((*shape.dims[:-2], smaller(*shape.dims[-2:])))]


@define("BatchMatrixSetDiag(input, diagonal: T) -> output: T", "T: type")
@define("MatrixSetDiag(input, diagonal: T) -> output: T", "T: type")
def set_diag(c: ShapeContext) -> Shapes:
    """(..., M, N), (..., min(M, N)) -> (..., M, N)"""
    shape, diagonal = ranked_at_least(c, 0, 2), ranked_at_least(c, 1, 1)
    if shape.dims is None or diagonal.dims is None:
        return [shape]
    smallest = smaller(*shape.dims[-2:])
    if not diagonal.is_compatible_with(TensorShape((*shape.dims[:-2], smallest))):
        raise InvalidArgumentError(f"a diagonal of shape {diagonal} does not fit matrices of shape {shape}")
    return [prefix(shape, -2).merge_with(prefix(diagonal, -1)).concatenate(suffix(shape, -2))]


@define("MatrixDiagPartV3(input: T, k: int32, padding_value: T) -> diagonal: T", "T: type", ALIGN)
@define("MatrixDiagPartV2(input: T, k: int32, padding_value: T) -> diagonal: T", "T: type")
def diagonals_part(c: ShapeContext) -> Shapes:
    """(..., M, N), k -> (..., length), or (..., diagonals, length) for a band."""
    shape = ranked_at_least(c, 0, 2)
    bounds = _diagonal_bounds(c, 1)
    if shape.dims is None or bounds is None:
        return [UNKNOWN_SHAPE]
    lower, upper = bounds
    rows, columns = shape.dims[-2:]
    length = None
    if rows is not None and columns is not None:
        length = min(rows + min(upper, 0), columns - max(lower, 0))
    band = (upper - lower + 1,) if upper > lower else ()
    return [TensorShape((*shape.dims[:-2], *band, length))]


def _diagonal_bounds(c: ShapeContext, index: int) -> tuple[int, int] | None:
    """The lowest and the highest diagonal, if constant."""
    value = c.input_value(index)
    if value is None:
        return None
    bounds = [int(k) for k in to_array(value).reshape(-1)]
    if len(bounds) not in (1, 2) or bounds[0] > bounds[-1]:
        raise InvalidArgumentError(f"k must be one diagonal or a lower and an upper one, but is {bounds}")
    return bounds[0], bounds[-1]


@define(
    "MatrixDiagV3(diagonal: T, k, num_rows, num_cols: int32, padding_value: T) -> output: T", "T: type", ALIGN
)
@define("MatrixDiagV2(diagonal: T, k, num_rows, num_cols: int32, padding_value: T) -> output: T", "T: type")
def diagonals(c: ShapeContext) -> Shapes:
    shape = ranked_at_least(c, 0, 1)
    bounds = _diagonal_bounds(c, 1)
    rows, columns = scalar_value(c, 2), scalar_value(c, 3)
    if shape.dims is None or bounds is None:
        return [UNKNOWN_SHAPE]
    lower, upper = bounds
    batch = shape.dims[:-1] if lower == upper else shape.dims[:-2]
    length = shape.dims[-1]
    if length is None or rows is None or columns is None:
        return [TensorShape((*batch, None, None))]
    rows_min = length - min(upper, 0)
    columns_min = length + max(lower, 0)
    if rows == -1 and columns == -1:
        rows = columns = max(rows_min, columns_min)
    elif rows == -1:
        rows = rows_min
    elif columns == -1:
        columns = columns_min
    return [TensorShape((*batch, rows, columns))]


@define("MatrixSetDiagV3(input, diagonal: T, k: int32) -> output: T", "T: type", ALIGN)
@define("MatrixSetDiagV2(input, diagonal: T, k: int32) -> output: T", "T: type")
def set_diagonals(c: ShapeContext) -> Shapes:
    ranked_at_least(c, 1, 1)
    return [ranked_at_least(c, 0, 2)]


@define("Diag(diagonal: T) -> output: T", "T: signedtype")
def diag(c: ShapeContext) -> Shapes:
    """(a, b) -> (a, b, a, b)"""
    shape = ranked_at_least(c, 0, 1)
    return [shape.concatenate(shape)]


@define("DiagPart(input: T) -> diagonal: T", "T: signedtype")
def diag_part(c: ShapeContext) -> Shapes:
    """(a, b, a, b) -> (a, b)"""
    shape = c.input(0)
    if shape.dims is None:
        return [UNKNOWN_SHAPE]
    half, odd = divmod(len(shape.dims), 2)
    if odd or not half:
        raise InvalidArgumentError(f"Input must have even and non-zero rank, but has shape {shape}")
    return [prefix(shape, half).merge_with(suffix(shape, half))]
