"""Maxima and means over sliding windows in any number of spatial dimensions, and their gradients.

Channels come last. A maximum or sum over a window is taken axis by axis (k + k passes instead of k k), a
block of output rows at a time so that it stays in cache, and the blocks are spread over the cores. A
gradient goes back the same way, one axis after the other.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import as_dtype
from flowengine.kernels.common.parallel import spread
from flowengine.kernels.common.windows import Windows
from flowengine.kernels.nn import window_extremes as plain
from flowengine.kernels.nn.window_extremes import lowest
from flowengine.kernels.numpy.strided import joined, split

#: Elements of the input that a block of output rows should read. Smaller blocks would fit a nearer cache, but
#: entering twenty ufuncs a block costs more than that gains.
_BLOCK: Final = 1 << 19
#: The same for a gradient, which touches every element some ten times.
_GRADIENT_BLOCK: Final = 1 << 17
#: Elements from which the work is worth spreading over cores.
_SPREAD_MIN: Final = 1 << 16


def _lowest_finite(dtype: Any) -> Any:
    return as_dtype(dtype).min


class _WindowAxis:
    """The windows along one axis of arrays (lead, size, tail): which elements each offset reads.

    rows    the outputs asked for, `count` of them
    parts   for each offset that reads anything: first output, end, and where the first one's element lies
    """

    __slots__ = ("count", "parts", "rows", "step")

    def __init__(self, geometry: Windows, axis: int, rows: slice | None = None) -> None:
        size, self.step = geometry.sizes[axis], geometry.strides[axis]
        self.rows = slice(0, geometry.out[axis]) if rows is None else rows
        self.count = self.rows.stop - self.rows.start
        self.parts: list[tuple[int, int, int]] = []
        for offset in range(geometry.window[axis]):
            shift = offset * geometry.dilations[axis] - geometry.before[axis]
            low = max(self.rows.start, -(shift // self.step))
            high = min(self.rows.stop, (size - 1 - shift) // self.step + 1)
            if high > low:
                self.parts.append((low - self.rows.start, high - self.rows.start, low * self.step + shift))

    def extent(self) -> tuple[int, int]:
        """The elements that are read by any window: first and end."""
        first = min(part[2] for part in self.parts)
        return first, max(part[2] + (part[1] - part[0] - 1) * self.step + 1 for part in self.parts)

    def moved(self, origin: int) -> _WindowAxis:
        """The same for arrays that begin at the element `origin`."""
        other = copy.copy(self)
        other.parts = [(low, high, first - origin) for low, high, first in self.parts]
        return other

    def reader(self, x: Array) -> Callable[[tuple[int, int, int]], Array]:
        """A function that gives, for a part, the elements of x (lead, size, tail) that it reads.

        Elements far apart are first gathered by their place modulo the stride, where that pays.
        """
        step = self.step
        phases = split(x, step) if len(self.parts) > 1 else None
        if phases is None:
            return lambda part: x[:, part[2] : part[2] + (part[1] - part[0] - 1) * step + 1 : step]

        def read(part: tuple[int, int, int]) -> Array:
            place, phase = divmod(part[2], step)
            return phases[phase][:, place : place + part[1] - part[0]]

        return read


def _three(x: Array, axis: int) -> Array:
    """x as (lead, size of the axis, tail)."""
    lead = 1
    for n in x.shape[:axis]:
        lead *= n
    return x.reshape(lead, x.shape[axis], -1)


def _along(
    x: Array, along: _WindowAxis, axis: int, combine: Callable[..., Any], fill: Any, out: Array | None = None
) -> Array:
    """Combine the windows along one axis of one unpadded image; what lies outside does not count.

    axis counts the image's axes from 0; `fill` is for a window with nothing.
    """
    result = np.empty((*x.shape[:axis], along.count, *x.shape[axis + 1 :]), x.dtype) if out is None else out
    flat = _three(result, axis)
    read = along.reader(_three(x, axis))
    whole = [part for part in along.parts if part[0] == 0 and part[1] == along.count]
    if len(whole) >= 2:
        combine(read(whole[0]), read(whole[1]), out=flat)
    elif whole:
        np.copyto(flat, read(whole[0]))
    else:
        flat.fill(fill)
    for part in whole[2:]:
        combine(flat, read(part), out=flat)
    for part in along.parts:
        if part[0] != 0 or part[1] != along.count:
            target = flat[:, part[0] : part[1]]
            combine(target, read(part), out=target)
    return result


def _row_blocks(geometry: Windows, channels: int, elements: int) -> list[_WindowAxis]:
    """The first axis in blocks of output rows that read about so many elements."""
    row = channels
    for n in geometry.sizes[1:]:
        row *= n
    step = max(1, elements // max(row * geometry.strides[0], 1))
    rows = geometry.out[0]
    # Blocks of about the same length.
    step = -(-rows // max(1, -(-rows // step)))
    return [_WindowAxis(geometry, 0, slice(r, min(r + step, rows))) for r in range(0, rows, step)]


def _separable(x: Array, geometry: Windows, combine: Callable[..., Any], fill: Any) -> Array:
    """Combine the windows of (N, *sizes, C), block by block and, within it, axis by axis: (N, *out, C)."""
    out = np.empty((x.shape[0], *geometry.out, x.shape[-1]), x.dtype)
    if not out.size:
        return out
    x = np.ascontiguousarray(x)
    parts = _row_blocks(geometry, x.shape[-1], _BLOCK)
    blocks = [(image, rows) for image in range(x.shape[0]) for rows in parts]
    others = [(axis, _WindowAxis(geometry, axis)) for axis in range(1, len(geometry.window))]

    def work(number: int) -> None:
        image, rows = blocks[number]
        target = out[image, rows.rows]
        if not others:
            _along(x[image], rows, 0, combine, fill, target)
            return
        # The first axis first: its passes run along whole rows and leave less for the others.
        current = _along(x[image], rows, 0, combine, fill)
        for axis, along in others[:-1]:
            current = _along(current, along, axis, combine, fill)
        axis, along = others[-1]
        _along(current, along, axis, combine, fill, target)

    _run(work, len(blocks), x.size)
    return out


def _run(work: Callable[[int], None], count: int, elements: int) -> None:
    if elements >= _SPREAD_MIN:
        spread(work, count)
    else:
        for number in range(count):
            work(number)


def maximum(x: Array, geometry: Windows) -> Array:
    """The greatest of each window of (N, *sizes, C), NaN passed over; returns (N, *out, C)."""
    greater = np.maximum if x.dtype.kind in "iu" else np.fmax
    out = _separable(x, geometry, greater, lowest(x.dtype))
    if greater is np.fmax and out.size and np.isnan(out.max()):
        # Of nothing but NaN the greatest is the lowest number.
        np.copyto(out, _lowest_finite(x.dtype), where=np.isnan(out))
    return out


#: Integers by which floats are chosen: their bits times 0 or 1, whatever they stand for.
_BITS: Final[dict[int, Any]] = {4: np.dtype(np.int32), 8: np.dtype(np.int64)}


def _where(hit: Array, values: Array) -> Array:
    """values where hit, else 0."""
    bits = _BITS.get(values.dtype.itemsize)
    if bits is None or values.dtype.hasobject or values.strides[-1] != values.dtype.itemsize:
        return np.where(hit, values, values.dtype.type(0))
    chosen: Array = np.multiply(values.view(bits), hit, dtype=bits)
    return chosen.view(values.dtype)


def _along_gradient(x: Array, top: Array, gradient: Array, along: _WindowAxis, axis: int) -> Array:
    """The gradient of x whose windows along one axis have these greatest: to the first that is as great."""
    flat, tops, upstream = _three(x, axis), _three(top, axis), _three(gradient, axis)
    read = along.reader(flat)
    step = along.step
    result = np.zeros(x.shape, gradient.dtype)
    phases = split(_three(result, axis), step, empty=True) if len(along.parts) > 1 else None
    open_ = np.ones(tops.shape, bool)
    for part in along.parts:
        low, high, first = part
        free = open_[:, low:high]
        hit = np.equal(read(part), tops[:, low:high])
        hit &= free
        if phases is None:
            target = _three(result, axis)[:, first : first + (high - low - 1) * step + 1 : step]
        else:
            target = phases[first % step][:, first // step : first // step + high - low]
        target += _where(hit, upstream[:, low:high])
        free ^= hit
    if phases is not None:
        joined(phases, _three(result, axis))
    return result


def maximum_gradient(x: Array, gradient: Array, geometry: Windows) -> Array:
    """The gradient of (N, *sizes, C): that of each window goes to the first of its greatest elements.

    A NaN that comes first in its window counts as the greatest, another one as none.
    """
    if x.dtype.kind not in "iu" and x.size and np.isnan(np.max(x)):
        return _maximum_gradient_by_position(x, gradient, geometry)
    result = np.zeros((x.shape[0], *geometry.sizes, x.shape[-1]), gradient.dtype)
    if not gradient.size:
        return result
    x, gradient = np.ascontiguousarray(x), np.ascontiguousarray(gradient)
    greater, fill = np.maximum, lowest(x.dtype)
    blocks = _row_blocks(geometry, x.shape[-1], _GRADIENT_BLOCK)
    others = [_WindowAxis(geometry, axis) for axis in range(1, len(geometry.window))]

    def work(image: int) -> None:
        written = 0
        for rows in blocks:
            if not rows.parts:
                continue
            low, high = rows.extent()
            axes = [rows.moved(low), *others]
            # The last axis first: the first of the greatest is then that of the first row that has one.
            levels = [x[image, low:high]]
            for axis in range(len(axes) - 1, -1, -1):
                levels.append(_along(levels[-1], axes[axis], axis, greater, fill))
            current = gradient[image, rows.rows]
            for axis, along in enumerate(axes):
                current = _along_gradient(levels[-2 - axis], levels[-1 - axis], current, along, axis)
            # Windows of two blocks may have rows in common.
            shared = max(0, written - low)
            result[image, low : low + shared] += current[:shared]
            result[image, low + shared : high] = current[shared:]
            written = max(written, high)

    _run(work, x.shape[0], x.size)
    return result


def _maximum_gradient_by_position(x: Array, gradient: Array, geometry: Windows) -> Array:
    result = np.zeros((x.shape[0], int(np.prod(x.shape[1:]))), gradient.dtype)
    place = maximum_with_position(x, geometry)[1]
    for target, where, part in zip(result, place, gradient, strict=True):
        np.add.at(target, where.reshape(-1), part.reshape(-1))
    return result.reshape(x.shape)


def maximum_with_position(x: Array, geometry: Windows) -> tuple[Array, Array]:
    """The greatest of each window and where it lies, as an index into one flattened image (int64)."""
    return plain.maximum_with_position(np, x, geometry)


def _is_global(geometry: Windows) -> bool:
    """Whether there is one window, and it is the image."""
    return geometry.window == geometry.sizes and not geometry.is_padded


def mean(x: Array, geometry: Windows) -> Array:
    """The mean of each window's real elements; (N, *out, C)."""
    if _is_global(geometry) and x.size:
        rows = np.ascontiguousarray(x).reshape(x.shape[0], -1, x.shape[-1])
        total: Array = np.add.reduce(rows, 1)
        np.divide(total, x.dtype.type(rows.shape[1]), out=total)
        return total.reshape(x.shape[0], *geometry.out, x.shape[-1])
    out = _separable(x, geometry, np.add, 0)
    if out.size:
        np.divide(out, _counts_of(geometry, out), out=out)
    return out


def _counts_of(geometry: Windows, out: Array) -> Array:
    """`counts`, a number where all windows are full, else as wide as the channels so that rows are long."""
    if not geometry.is_padded:
        full = 1
        for n in geometry.window:
            full *= n
        return np.asarray(full, out.dtype)
    return np.repeat(plain.counts(np, geometry, out.dtype), out.shape[-1], axis=-1)


def mean_gradient(gradient: Array, geometry: Windows) -> Array:
    """The gradient of (N, *sizes, C): each window's spread evenly over its real elements."""
    result = np.zeros((gradient.shape[0], *geometry.sizes, gradient.shape[-1]), gradient.dtype)
    if not gradient.size:
        return result
    gradient = np.ascontiguousarray(gradient)
    share = _counts_of(geometry, gradient)
    axes = [_WindowAxis(geometry, axis) for axis in range(len(geometry.window))]

    def work(image: int) -> None:
        # Spread along one axis after the other, the last first: there is least to spread then.
        current = gradient[image] / share
        for axis in range(len(axes) - 1, 0, -1):
            shape = (*current.shape[:axis], geometry.sizes[axis], *current.shape[axis + 1 :])
            current = _spread_along(current, axes[axis], axis, np.zeros(shape, gradient.dtype))
        _spread_along(current, axes[0], 0, result[image])

    _run(work, gradient.shape[0], result.size)
    return result


def _spread_along(upstream: Array, along: _WindowAxis, axis: int, out: Array) -> Array:
    """Add each window's value to all its elements along one axis; `out` begins as zeros."""
    flat, upstream = _three(out, axis), _three(upstream, axis)
    step = along.step
    phases = split(flat, step, empty=True) if len(along.parts) > 1 else None
    for low, high, first in along.parts:
        if phases is None:
            target = flat[:, first : first + (high - low - 1) * step + 1 : step]
        else:
            target = phases[first % step][:, first // step : first // step + high - low]
        target += upstream[:, low:high]
    if phases is not None:
        joined(phases, flat)
    return out
