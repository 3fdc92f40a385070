"""`Conv`: convolution of images or volumes, whichever comes, with any number of batch dimensions."""

from __future__ import annotations

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, Dimension, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import Product
from flowengine.ops.nn.convolution import windows
from flowengine.ops.registry import define


@define(
    "Conv(input, filter: T) -> output: T",
    "T: {half, bfloat16, float, double, int32}; strides: list(int); padding: {'SAME', 'VALID', 'EXPLICIT'}",
    "explicit_paddings: list(int) = []; data_format: {'CHANNELS_FIRST', 'CHANNELS_LAST'} = 'CHANNELS_LAST'",
    "dilations: list(int) = []; batch_dims, groups: int = 1",
    Product("input", "filter"),
)
def conv(c: ShapeContext) -> Shapes:
    """(batch..., H, W, C), (h, w, C, F) -> (batch..., H', W', F), or with three spatial dimensions"""
    x, window, batch_dims = c.input(0).dims, c.input(1).dims, c.attrs["batch_dims"]
    if batch_dims < 0:
        raise InvalidArgumentError(f"batch_dims must be at least 0, but is {batch_dims}")
    if x is None or window is None:
        return [UNKNOWN_SHAPE]
    count = len(window) - 2
    if count not in (2, 3) or len(x) != batch_dims + count + 1:
        raise InvalidArgumentError(
            "The input must have 2 or 3 spatial dimensions, and the filter two more: ranks are "
            f"{len(x)} with {batch_dims} of the batch, and {len(window)}"
        )
    is_first = c.attrs["data_format"] == b"CHANNELS_FIRST"
    batch, rest = x[:batch_dims], x[batch_dims:]
    spatial, depth = (rest[1:], rest[0]) if is_first else (rest[:-1], rest[-1])
    if c.attrs["groups"] == 1 and None not in (depth, window[-2]) and depth != window[-2]:
        raise InvalidArgumentError(f"Input depth must be equal to filter depth: {depth} vs {window[-2]}")
    sizes: list[Dimension] = windows(c, spatial, window[:count], b"NCHW" if is_first else b"NHWC")
    return [TensorShape([*batch, window[-1], *sizes] if is_first else [*batch, *sizes, window[-1]])]
