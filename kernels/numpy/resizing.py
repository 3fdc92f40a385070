"""Bilinear resizing of large images: row by row, on every core."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.buffers import empty
from flowengine.kernels.common.parallel import cores, slices, spread
from flowengine.kernels.image.resizing import mixed, resize_cost, resized
from flowengine.kernels.registry import kernel

#: Elements of a result that are mixed by every core, and how many each takes at least.
_LARGE: Final = 1 << 17
_PART: Final = 1 << 15


@kernel("ResizeBilinear", device="CPU", fresh=True, heavy=resize_cost, host=("size",))
def resize_bilinear(images: Array, size: Array, *, align_corners: bool, half_pixel_centers: bool) -> Any:
    """Mix the four neighbours of each place; returns float32 (N, height, width, C)."""
    return resized(np, _mixed_in_parts, images, size, align_corners, half_pixel_centers)


def _mixed_in_parts(x: Array, axis: int, lower: Array, upper: Array, weight: Array) -> Any:
    """Neighbours along an axis mixed by the weight of the upper: large results row by row on all cores."""
    shape = (*x.shape[:axis], len(lower), *x.shape[axis + 1 :])
    rows = shape[1]
    row = math.prod(shape) // max(rows, 1)
    if math.prod(shape) < _LARGE or cores() == 1:
        return mixed(np, x, axis, lower, upper, weight)
    result = empty(shape, np.float32)
    parts = slices(rows, max(1, _PART // row, -(-rows // (2 * cores()))))

    def mix(number: int) -> None:
        part = parts[number]
        if axis == 1:
            result[:, part] = mixed(np, x, axis, lower[part], upper[part], weight[part])
        else:
            result[:, part] = mixed(np, x[:, part], axis, lower, upper, weight)

    spread(mix, len(parts))
    return result
