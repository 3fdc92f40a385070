"""`Conv`: its batch dimensions made one, it is a convolution of images or of volumes."""

from __future__ import annotations

import math
from typing import Any, Final

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError, UnimplementedError
from flowengine.kernels.common.ufuncs import float_kernel, shape_text
from flowengine.kernels.nn.conv_products import Products
from flowengine.kernels.nn.convolution import conv_cost, convolve_as

#: {(spatial dimensions, layout): what Conv2D and Conv3D call it}
_LAYOUTS: Final = {
    (2, b"CHANNELS_LAST"): b"NHWC",
    (2, b"CHANNELS_FIRST"): b"NCHW",
    (3, b"CHANNELS_LAST"): b"NDHWC",
    (3, b"CHANNELS_FIRST"): b"NCDHW",
}


@float_kernel("Conv", fresh=True, heavy=conv_cost)
def conv(
    xp: Any,
    x: Array,
    filters: Array,
    *,
    strides: tuple[int, ...],
    padding: bytes,
    explicit_paddings: tuple[int, ...],
    data_format: bytes,
    dilations: tuple[int, ...],
    batch_dims: int,
    groups: int,
) -> Any:
    """Convolve (batch..., sizes..., C) with filters (window..., C, F), two or three sizes.

    Returns (batch..., out..., F), or both with the channels before the sizes.
    InvalidArgumentError where ranks, depths or sizes do not fit; UnimplementedError for groups, as
    TensorFlow has it.
    """
    count = x.ndim - batch_dims - 1
    if count not in (2, 3):
        raise InvalidArgumentError(f"The input must have 2 or 3 spatial dimensions but got {count}")
    if groups != 1:
        raise UnimplementedError(f"Grouped convolutions are not supported: groups is {groups}")
    if filters.ndim != count + 2:
        raise InvalidArgumentError(f"filter must be {count + 2}-dimensional: {shape_text(filters)}")
    depth = x.shape[-1] if data_format == b"CHANNELS_LAST" else x.shape[batch_dims]
    if depth != filters.shape[-2]:
        raise InvalidArgumentError(
            f"Input depth must be equal to filter depth: {depth} vs {filters.shape[-2]}"
        )
    attrs = {
        "strides": strides,
        "padding": padding,
        "explicit_paddings": explicit_paddings,
        "data_format": _LAYOUTS[count, data_format],
        "dilations": dilations or (1,) * (count + 2),
    }
    batch = x.shape[:batch_dims]
    images = x.reshape(math.prod(batch), *x.shape[batch_dims:])
    out = convolve_as(xp, Products(xp), images, filters, attrs, count + 2)
    return out.reshape(*batch, *out.shape[1:])
