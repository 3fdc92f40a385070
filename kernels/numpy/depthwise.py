"""Depthwise convolution and its gradients: rows of pixels times rows of weights, summed over the window.

There is no matrix product in it. The weights of each element of the window are repeated along a row of the
output, so that one multiply-add runs over a whole row of pixels and channels; `einsum` does that for all
elements of the window while a row of sums stays in the first cache. A stride along the rows is undone first:
what one column of the window reads is copied together. Blocks of rows are spread over the cores.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from flowengine.core.arrays import Array
from flowengine.kernels.common.parallel import slices, spread
from flowengine.kernels.common.windows import Windows
from flowengine.kernels.numpy.strided import wide

#: Output elements of a block: its input and its output stay in a core's second cache.
_BLOCK: Final = 1 << 16
#: Products from which the work is worth spreading over cores: some 50 us of them.
_SPREAD_MIN: Final = 1 << 19


def _run(work: Callable[[int], None], count: int, products: int) -> None:
    if products >= _SPREAD_MIN:
        spread(work, count)
    else:
        for number in range(count):
            work(number)


def _row_blocks(rows: int, row: int) -> list[slice]:
    """Output rows to take at a time, `row` elements each."""
    return slices(rows, max(1, _BLOCK // max(row, 1)))


def _patches(image: Array, geometry: Windows, rows: slice) -> Array:
    """Return the window's input for some output rows of an image (H, W, C), as a view.

    Its shape is (H_f, W_f, rows, W_out C).
    """
    down, across = geometry.strides
    spread_down, spread_across = geometry.dilations
    height, width = geometry.window
    columns, channels = geometry.out[1], image.shape[-1]
    count = rows.stop - rows.start
    first = rows.start * down - geometry.before[0]
    reach = (count - 1) * down + (height - 1) * spread_down + 1
    low, high = max(first, 0), min(first + reach, geometry.sizes[0])
    left = geometry.before[1]
    frame = np.empty((reach, geometry.padded[1], channels), image.dtype)
    frame[: low - first] = 0
    frame[max(high - first, 0) :] = 0
    if high > low:
        inside = frame[low - first : high - first]
        inside[:, :left] = 0
        inside[:, left + geometry.sizes[1] :] = 0
        inside[:, left : left + geometry.sizes[1]] = image[low:high]
    row_step, step = frame.strides[:2]
    if across == 1:
        strides = (row_step * spread_down, step * spread_across, row_step * down, frame.itemsize)
        return as_strided(frame, (height, width, count, columns * channels), strides, writeable=False)
    gathered = np.empty((width, reach, columns, channels), image.dtype)
    source = wide(frame)
    for column in range(width):
        start = column * spread_across
        np.copyto(wide(gathered[column]), source[:, start : start + (columns - 1) * across + 1 : across])
    apart, row_step = gathered.strides[:2]
    strides = (row_step * spread_down, apart, row_step * down, frame.itemsize)
    return as_strided(gathered, (height, width, count, columns * channels), strides, writeable=False)


def _long_weights(filters: Array, columns: int) -> Array:
    """(H_f, W_f, C, M) as (H_f, W_f, columns C M): a whole row's weights for each element."""
    return np.tile(filters.reshape(*filters.shape[:2], -1), (1, 1, columns))


def _repeated(x: Array, multiplier: int) -> Array:
    """Each channel as often as it has filters."""
    return np.repeat(x, multiplier, axis=-1) if multiplier > 1 else x


def forward(x: Array, filters: Array, geometry: Windows) -> Array:
    """(N, H, W, C) with (H_f, W_f, C, M) to (N, H_out, W_out, C M)."""
    channels, multiplier = filters.shape[2:]
    width = channels * multiplier
    out = np.empty((x.shape[0], *geometry.out, width), x.dtype)
    if not out.size or not filters.size:
        out.fill(0)
        return out
    weights = _long_weights(filters, geometry.out[1])
    row = geometry.out[1] * width
    blocks = [(image, rows) for image in range(x.shape[0]) for rows in _row_blocks(geometry.out[0], row)]

    def work(number: int) -> None:
        image, rows = blocks[number]
        patches = _patches(_repeated(x[image], multiplier), geometry, rows)
        np.einsum("ijrx,ijx->rx", patches, weights, out=out[image, rows].reshape(-1, row))

    _run(work, len(blocks), out.size * weights.shape[0] * weights.shape[1])
    return out


def _phase(geometry: Windows, axis: int, place: int) -> tuple[slice, int, int, int, slice] | None:
    """How the input's elements at `place` modulo the stride of one axis, padding counted, get their gradient.

    It is a convolution of the output's gradient with every stride-th element of the window, mirrored.
    Returns those elements, how much of the gradient is passed over, the zeros before and after what is left,
    and the input's elements; None where there are none.
    """
    step, spacing = geometry.strides[axis], geometry.dilations[axis]
    size, before, out = geometry.sizes[axis], geometry.before[axis], geometry.out[axis]
    first = max(0, -((place - before) // step))
    elements = range(place + first * step - before, size, step)
    count = len(range(place, geometry.window[axis], step))
    if not elements or not count:
        return None
    reach = (count - 1) * spacing
    passed = min(max(first - reach, 0), out)
    zeros = max(reach - first, 0)
    after = max(len(elements) + reach - zeros - (out - passed), 0)
    return slice(place, None, step), passed, zeros, after, slice(elements.start, size, step)


def input_gradient(filters: Array, gradient: Array, geometry: Windows) -> Array:
    """(N, H_out, W_out, C M) back to (N, H, W, C)."""
    channels, multiplier = filters.shape[2:]
    result = np.zeros((gradient.shape[0], *geometry.sizes, channels), gradient.dtype)
    if not gradient.size or not filters.size:
        return result
    down, across = ([_phase(geometry, axis, i) for i in range(geometry.strides[axis])] for axis in (0, 1))
    for vertical, horizontal in itertools.product(down, across):
        if vertical is None or horizontal is None:
            continue
        part = filters[vertical[0], horizontal[0]][::-1, ::-1]
        upstream = gradient[:, vertical[1] :, horizontal[1] :]
        target = result[:, vertical[4], horizontal[4]]
        mirrored = Windows(
            upstream.shape[1:3],
            part.shape[:2],
            (1, 1),
            geometry.dilations,
            (vertical[2], horizontal[2]),
            (vertical[3], horizontal[3]),
            target.shape[1:3],
        )
        back = forward(upstream, part.reshape(*part.shape[:2], -1, 1), mirrored)
        if multiplier > 1:
            back = np.add.reduce(back.reshape(*back.shape[:3], channels, multiplier), axis=-1)
        target[...] = back
    return result


def filter_gradient(x: Array, gradient: Array, geometry: Windows, multiplier: int) -> Array:
    """The gradient (H_f, W_f, C, M)."""
    channels = x.shape[-1]
    width = channels * multiplier
    if not gradient.size or not x.size:
        return np.zeros((*geometry.window, channels, multiplier), x.dtype)
    gradient = np.ascontiguousarray(gradient)
    row = geometry.out[1] * width
    blocks = [(image, rows) for image in range(x.shape[0]) for rows in _row_blocks(geometry.out[0], row)]
    # Sum each block separately and add the sums in order, so that values do not depend on threads.
    parts = np.empty((len(blocks), *geometry.window, width), x.dtype)

    def work(number: int) -> None:
        image, rows = blocks[number]
        patches = _patches(_repeated(x[image], multiplier), geometry, rows)
        sums = np.einsum("ijrx,rx->ijx", patches, gradient[image, rows].reshape(-1, row))
        np.add.reduce(sums.reshape(*geometry.window, -1, width), axis=2, out=parts[number])

    _run(work, len(blocks), gradient.size * parts[0].size // width)
    total: Array = np.add.reduce(parts, axis=0)
    return total.reshape(*geometry.window, channels, multiplier)
