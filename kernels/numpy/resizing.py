"""Bilinear resizing on the CPU: two gathers and three passes for each axis, on every core for large images.

Rows are whole runs of memory. Pixels of a few channels are not: to copy them one by one is most of the work,
so columns are gathered by elements, and of fewer rows: before rows are made more, or after they were made
fewer.
"""

from __future__ import annotations

import functools
from typing import Any, Final, TypeAlias

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.buffers import in_one_piece, recycled
from flowengine.kernels.common.interpolation import linear
from flowengine.kernels.common.parallel import cores, slices, spread
from flowengine.kernels.image.resizing import check_modes, output_size, resize_cost
from flowengine.kernels.registry import kernel

#: Elements of a result that are mixed by every core, and how many each takes at least. Fewer take less than a
#: millisecond, and maps of datasets have images for the other cores.
_LARGE: Final = 1 << 20
_PART: Final = 1 << 16
#: Elements that are mixed at once.
_AT_ONCE: Final = 1 << 15
#: Elements from which a pixel is gathered as a whole.
_WIDE: Final = 16

#: Lower neighbours, upper neighbours, and the weights of the upper.
_Tables: TypeAlias = tuple[Array, Array, Array]


@kernel("ResizeBilinear", device="CPU", fresh=True, heavy=resize_cost, host=("size",))
def resize_bilinear(images: Array, size: Array, *, align_corners: bool, half_pixel_centers: bool) -> Any:
    """Mix the four neighbours of each place; returns float32 (N, height, width, C)."""
    check_modes(align_corners, half_pixel_centers)
    height, width = output_size(images, size)
    count, rows, columns, channels = images.shape
    if (height, width) == (rows, columns):
        return images.astype(np.float32)
    if not images.size:
        return np.empty((count, height, width, channels), np.float32)
    modes = align_corners, half_pixel_centers
    if height <= rows:
        return _made_wide(_made_high(images, height, modes), width, modes)
    return _made_high(_made_wide(images, width, modes), height, modes)


def _made_high(x: Array, height: int, modes: tuple[bool, bool]) -> Array:
    """The images with rows mixed to so many, float32."""
    count, rows, columns, channels = x.shape
    mixed = _mixed(x.reshape(count, rows, columns * channels), linear(rows, height, *modes))
    return mixed.reshape(count, height, columns, channels)


def _made_wide(x: Array, width: int, modes: tuple[bool, bool]) -> Array:
    """The images with columns mixed to so many, float32."""
    count, rows, columns, channels = x.shape
    if channels < _WIDE:
        x = x.reshape(count * rows, columns * channels, 1)
        mixed = _mixed(x, _of_elements(columns, width, channels, *modes))
    else:
        mixed = _mixed(x.reshape(count * rows, columns, channels), linear(columns, width, *modes))
    return mixed.reshape(count, rows, width, channels)


@functools.lru_cache(maxsize=256)
def _of_elements(columns: int, width: int, channels: int, *modes: bool) -> _Tables:
    """The tables of columns, for each element of a row."""
    lower, upper, weight = linear(columns, width, *modes)
    each = np.arange(channels)
    low, high = ((many[:, None] * channels + each).reshape(-1) for many in (lower, upper))
    return low, high, weight.repeat(channels)


def _mixed(x: Array, tables: _Tables) -> Array:
    """Neighbours along the second of three axes mixed by the weight of the upper, float32."""
    lower, upper, weight = tables
    outer, _, inner = x.shape
    result = recycled((outer, len(lower), inner), np.float32)
    if result.size < _LARGE or cores() == 1:
        _mix(x, lower, upper, weight, result)
        return result
    count = min(2 * cores(), result.size // _PART)
    if outer >= count:
        parts = slices(outer, -(-outer // count))
        spread(lambda number: _mix(x[parts[number]], lower, upper, weight, result[parts[number]]), len(parts))
        return result
    parts = slices(len(lower), -(-len(lower) // count))

    def mix(number: int) -> None:
        part = parts[number]
        _mix(x, lower[part], upper[part], weight[part], result[:, part])

    spread(mix, len(parts))
    return result


def _mix(x: Array, lower: Array, upper: Array, weight: Array, result: Array) -> None:
    """Some at a time, so that what is mixed stays in the caches."""
    # NumPy gathers from such memory only, and would copy all of it for each part.
    x = in_one_piece(x)
    outer, size, inner = result.shape
    weight = weight[:, None]
    if size * inner > _AT_ONCE:
        several = min(size, max(1, _AT_ONCE // inner))
        room = _Neighbours((several, inner), x.dtype)
        for each in range(outer):
            for part in slices(size, several):
                room.mix(x[each], lower[part], upper[part], weight[part], 0, result[each, part])
        return
    several = min(outer, _AT_ONCE // (size * inner))
    room = _Neighbours((several, size, inner), x.dtype)
    for part in slices(outer, several):
        room.mix(x[part], lower, upper, weight, 1, result[part])


class _Neighbours:
    """Memory for the neighbours that are mixed at once, used for one part after the other."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self._low, self._high = recycled(shape, dtype), recycled(shape, dtype)

    def mix(self, x: Array, lower: Array, upper: Array, weight: Array, axis: int, result: Array) -> None:
        """Mix a part that has as many rows as there is room for, or fewer."""
        low, high = self._low[: len(result)], self._high[: len(result)]
        # The places are inside, so "clip" lets NumPy skip the check and write directly into the output.
        x.take(lower, axis, low, "clip")
        x.take(upper, axis, high, "clip")
        np.subtract(high, low, out=result, dtype=np.float32, casting="unsafe")
        result *= weight
        np.add(result, low, out=result, dtype=np.float32, casting="unsafe")
