"""Convolutions of codes, with dimensions in any order, dilated inputs and groups."""

from __future__ import annotations

from typing import Final, cast

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, Dimension, TensorShape
from flowengine.ir.dimension_numbers import DimensionNumbers
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.quantized.dilated_windows import check_groups, windows_of
from flowengine.ops.quantized.uniform import quantization
from flowengine.ops.registry import define

_WINDOWS: Final = (
    "window_strides: list(int) = []; padding: string; explicit_padding: list(int) = []; "
    "lhs_dilation, rhs_dilation: list(int) = []; batch_group_count, feature_group_count: int = 1; "
    "dimension_numbers: string = ''"
)


def _convolved(c: ShapeContext) -> Shapes:
    """(N, C, sizes...), (F, C / groups, window...) -> (N / batch groups, F, out...), as laid out"""
    padding = c.attrs["padding"]
    if padding not in (b"EXPLICIT", b"SAME", b"VALID"):
        raise InvalidArgumentError(
            f"padding must be EXPLICIT, SAME or VALID, but is {padding.decode(errors='replace')!r}"
        )
    lhs, rhs = c.input(0).dims, c.input(1).dims
    for dims in (lhs, rhs):
        if dims is not None and len(dims) < 3:
            raise InvalidArgumentError(f"lhs and rhs must be at least of rank 3, but one is of {len(dims)}")
    if lhs is None or rhs is None:
        return [UNKNOWN_SHAPE]
    if len(lhs) != len(rhs):
        raise InvalidArgumentError(f"lhs and rhs must be of one rank, but are of {len(lhs)} and {len(rhs)}")
    numbers = DimensionNumbers.of(c.attrs["dimension_numbers"], len(lhs))
    batch, features, *sizes = numbers.input.picked(lhs)
    kernel = numbers.kernel.picked(rhs)
    check_groups(c.attrs, batch, features, kernel)
    out: tuple[Dimension, ...] = (None,) * len(sizes)
    if None not in (*sizes, *kernel[2:]):
        out = windows_of(c.attrs, cast("list[int]", sizes), cast("tuple[int, ...]", kernel[2:])).sizes
    count = None if batch is None else batch // c.attrs["batch_group_count"]
    return [TensorShape(numbers.output.laid_out((count, kernel[0], *out)))]


define(
    "UniformQuantizedConvolution(lhs, rhs: Tin, lhs_scales: float, lhs_zero_points: int32, "
    "rhs_scales: float, rhs_zero_points: int32, output_scales: float, output_zero_points: int32) "
    "-> output: Tout",
    f"Tin: {{qint8}}; Tout: {{qint32}}; {_WINDOWS}; {quantization('lhs', 'rhs', 'output')}",
    NotDifferentiable(),
    shape=_convolved,
)
define(
    "UniformQuantizedConvolutionHybrid(lhs: Tlhs, rhs: Trhs, rhs_scales: float, rhs_zero_points: int32) "
    "-> output: Tout",
    f"Tlhs: {{float}}; Trhs: {{qint8}}; Tout: {{float}}; {_WINDOWS}; {quantization('rhs')}",
    NotDifferentiable(),
    shape=_convolved,
)
