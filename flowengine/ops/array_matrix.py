"""Diagonals and bands of (batches of) matrices."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.arrays import to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.array_layout import transpose
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    check_scalars,
    prefix,
    ranked_at_least,
    scalar_value,
    smaller,
    suffix,
)


def band_part(c: ShapeContext) -> Sequence[TensorShape]:
    check_scalars(c, 1, 2)
    return [ranked_at_least(c, 0, 2)]


define(
    "BatchMatrixBandPart",
    inputs=["input: T", "num_lower: int64", "num_upper: int64"],
    outputs=["band: T"],
    attrs=["T: type"],
    shape=band_part,
)
define(
    "MatrixBandPart",
    inputs=["input: T", "num_lower: Tindex", "num_upper: Tindex"],
    outputs=["band: T"],
    attrs=["T: type", "Tindex: {int32, int64} = int64"],
    shape=band_part,
)


def matrix_diag(c: ShapeContext) -> Sequence[TensorShape]:
    """(..., K) -> (..., K, K)"""
    shape = ranked_at_least(c, 0, 1)
    return [UNKNOWN_SHAPE if shape.dims is None else TensorShape((*shape.dims, shape.dims[-1]))]


define("BatchMatrixDiag", inputs=["diagonal: T"], outputs=["output: T"], attrs=["T: type"], shape=matrix_diag)
define("MatrixDiag", inputs=["diagonal: T"], outputs=["output: T"], attrs=["T: type"], shape=matrix_diag)


def matrix_diag_part(c: ShapeContext) -> Sequence[TensorShape]:
    """(..., M, N) -> (..., min(M, N))"""
    shape = ranked_at_least(c, 0, 2)
    if shape.dims is None:
        return [UNKNOWN_SHAPE]
    return [TensorShape((*shape.dims[:-2], smaller(*shape.dims[-2:])))]


define(
    "BatchMatrixDiagPart",
    inputs=["input: T"],
    outputs=["diagonal: T"],
    attrs=["T: type"],
    shape=matrix_diag_part,
)
define(
    "MatrixDiagPart", inputs=["input: T"], outputs=["diagonal: T"], attrs=["T: type"], shape=matrix_diag_part
)


def set_diag(c: ShapeContext) -> Sequence[TensorShape]:
    """(..., M, N), (..., min(M, N)) -> (..., M, N)"""
    shape, diagonal = ranked_at_least(c, 0, 2), ranked_at_least(c, 1, 1)
    if shape.dims is None or diagonal.dims is None:
        return [shape]
    smallest = smaller(*shape.dims[-2:])
    if not diagonal.is_compatible_with(TensorShape((*shape.dims[:-2], smallest))):
        raise InvalidArgumentError(f"a diagonal of shape {diagonal} does not fit matrices of shape {shape}")
    return [prefix(shape, -2).merge_with(prefix(diagonal, -1)).concatenate(suffix(shape, -2))]


define(
    "BatchMatrixSetDiag",
    inputs=["input: T", "diagonal: T"],
    outputs=["output: T"],
    attrs=["T: type"],
    shape=set_diag,
)
define(
    "MatrixSetDiag",
    inputs=["input: T", "diagonal: T"],
    outputs=["output: T"],
    attrs=["T: type"],
    shape=set_diag,
)


def diagonals_part(c: ShapeContext) -> Sequence[TensorShape]:
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


define(
    "MatrixDiagPartV2",
    inputs=["input: T", "k: int32", "padding_value: T"],
    outputs=["diagonal: T"],
    attrs=["T: type"],
    shape=diagonals_part,
)


def diagonals(c: ShapeContext) -> Sequence[TensorShape]:
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


define(
    "MatrixDiagV2",
    inputs=["diagonal: T", "k: int32", "num_rows: int32", "num_cols: int32", "padding_value: T"],
    outputs=["output: T"],
    attrs=["T: type"],
    shape=diagonals,
)


def set_diagonals(c: ShapeContext) -> Sequence[TensorShape]:
    ranked_at_least(c, 1, 1)
    return [ranked_at_least(c, 0, 2)]


define(
    "MatrixSetDiagV2",
    inputs=["input: T", "diagonal: T", "k: int32"],
    outputs=["output: T"],
    attrs=["T: type"],
    shape=set_diagonals,
)
define(
    "ConjugateTranspose",
    inputs=["x: T", "perm: Tperm"],
    outputs=["y: T"],
    attrs=["T: type", "Tperm: {int32, int64} = int32"],
    shape=transpose,
)


def diag(c: ShapeContext) -> Sequence[TensorShape]:
    """(a, b) -> (a, b, a, b)"""
    shape = ranked_at_least(c, 0, 1)
    return [shape.concatenate(shape)]


define(
    "Diag",
    inputs=["diagonal: T"],
    outputs=["output: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"],
    shape=diag,
)


def diag_part(c: ShapeContext) -> Sequence[TensorShape]:
    """(a, b, a, b) -> (a, b)"""
    shape = c.input(0)
    if shape.dims is None:
        return [UNKNOWN_SHAPE]
    half, odd = divmod(len(shape.dims), 2)
    if odd or not half:
        raise InvalidArgumentError(f"Input must have even and non-zero rank, but has shape {shape}")
    return [prefix(shape, half).merge_with(suffix(shape, half))]


define(
    "DiagPart",
    inputs=["input: T"],
    outputs=["diagonal: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"],
    shape=diag_part,
)
