"""Quantised convolutions."""

from __future__ import annotations

from typing import Final

from flowengine.core.shapes import SCALAR, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.nn.convolution import windows
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import check_scalars, dims_of, ranked

#: How windows lie.
WINDOWS: Final = "strides: list(int); padding: {'SAME', 'VALID'}; dilations: list(int) = [1, 1, 1, 1]"


@define(
    "QuantizedConv2D(input: Tinput, filter: Tfilter, min_input, max_input, min_filter, "
    "max_filter: float) -> output: out_type, min_output, max_output: float",
    "Tinput, Tfilter: quantizedtype; out_type: quantizedtype = qint32",
    WINDOWS,
    NotDifferentiable(),
)
def quantized_conv(c: ShapeContext) -> Shapes:
    """A convolution and the two bounds of its result."""
    check_scalars(c, 2, 3, 4, 5)
    n, h, w, _ = dims_of(ranked(c, 0, 4), 4)
    window = dims_of(ranked(c, 1, 4), 4)
    sizes = windows(c, [h, w], window[:2], b"NHWC")
    return [TensorShape([n, *sizes, window[3]]), SCALAR, SCALAR]
