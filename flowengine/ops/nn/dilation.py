"""Grayscale dilation and its gradients."""

from __future__ import annotations

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import dims_of, like_input, merge_dims, ranked, windowed


@define(
    "Dilation2D(input, filter: T) -> output: T",
    "T: realnumbertype; strides, rates: list(int) >= 4; padding: {'SAME', 'VALID'}",
)
def dilation(c: ShapeContext) -> Shapes:
    """(N, H, W, C), (h, w, C) -> (N, H', W', C)"""
    n, h, w, depth = dims_of(ranked(c, 0, 4), 4)
    rows, columns, channels = dims_of(ranked(c, 1, 3), 3)
    strides, rates, padding = c.attrs["strides"], c.attrs["rates"], c.attrs["padding"]
    return [
        TensorShape(
            [
                n,
                windowed(h, rows, strides[1], padding, rates[1]),
                windowed(w, columns, strides[2], padding, rates[2]),
                merge_dims(depth, channels, "The channels of input and filter"),
            ]
        )
    ]


define(
    "Dilation2DBackpropInput(input, filter, out_backprop: T) -> in_backprop: T",
    "T: realnumbertype; strides, rates: list(int) >= 4; padding: {'SAME', 'VALID'}",
    shape=like_input(0),
)
define(
    "Dilation2DBackpropFilter(input, filter, out_backprop: T) -> filter_backprop: T",
    "T: realnumbertype; strides, rates: list(int) >= 4; padding: {'SAME', 'VALID'}",
    shape=like_input(1),
)
