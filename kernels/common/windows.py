"""The geometry of sliding windows: what convolution, pooling and dilation share.

A tensor is handled with its channels last whatever `data_format` says; `Windows` holds, for each spatial
axis, size, window, stride, dilation, padding and output size.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows over the spatial axes of (N, *sizes, C); every field has one entry an axis."""

    sizes: tuple[int, ...]
    window: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    out: tuple[int, ...]

    @property
    def padded(self) -> tuple[int, ...]:
        return tuple(b + s + a for b, s, a in zip(self.before, self.sizes, self.after, strict=True))

    @property
    def is_padded(self) -> bool:
        return any(self.before) or any(self.after)

    @property
    def is_pointwise(self) -> bool:
        """Whether every window is one element and nothing is padded."""
        return all(w == 1 for w in self.window) and not self.is_padded

    def clipped(self) -> Windows:
        """Windows without dilation that hold the same elements, and no more padding than tells them apart.

        A window may be as large as a graph says; its padding then is as well.
        """
        window, before, after = [], [], []
        each = zip(self.sizes, self.window, self.strides, self.before, self.after, self.out, strict=True)
        for size, reach, stride, low, high, count in each:
            if not count:
                reach, low, high = 1, 0, 0
            elif reach > size:
                last = (count - 1) * stride
                front = max(low - last, 0)  # so much of each window lies before the first element
                reach -= front + max(reach - low - size, 0)  # and so much of each behind the last
                low -= front
                high = max(last + reach - low - size, 0)
            window.append(reach)
            before.append(low)
            after.append(high)
        return replace(self, window=tuple(window), before=tuple(before), after=tuple(after))

    def slices(self, offset: Sequence[int]) -> tuple[slice, ...]:
        """Return the slices that every window's element at `offset` reads, along the padded spatial axes."""
        return tuple(
            slice(o * d, o * d + (n - 1) * s + 1 if n else o * d, s)
            for o, d, n, s in zip(offset, self.dilations, self.out, self.strides, strict=True)
        )

    def patches(self, xp: Any, padded: Array) -> Any:
        """A view (N, *out, *window, C) of a C-contiguous padded (N, *padded, C); nobody writes into it."""
        spatial = padded.strides[1:-1]
        return xp.lib.stride_tricks.as_strided(
            padded,
            (padded.shape[0], *self.out, *self.window, padded.shape[-1]),
            (
                padded.strides[0],
                *(b * s for b, s in zip(spatial, self.strides, strict=True)),
                *(b * d for b, d in zip(spatial, self.dilations, strict=True)),
                padded.strides[-1],
            ),
        )

    def interior(self) -> tuple[slice, ...]:
        """Return the slices of the unpadded elements among the padded."""
        return tuple(slice(b, b + s) for b, s in zip(self.before, self.sizes, strict=True))

    def pad(self, xp: Any, x: Array, fill: Any = 0) -> Any:
        """x (N, *sizes, C) with the padding around it, C-contiguous; x itself where that is so already."""
        if not self.is_padded:
            return xp.ascontiguousarray(x)
        shape = (x.shape[0], *self.padded, x.shape[-1])
        result = xp.zeros(shape, x.dtype) if fill == 0 else xp.full(shape, fill, x.dtype)
        result[(slice(None), *self.interior())] = x
        return result

    def crop(self, padded: Array) -> Array:
        """The inverse of `pad`: a view."""
        return padded[(slice(None), *self.interior())] if self.is_padded else padded


@functools.lru_cache(maxsize=1024)
def windows(
    sizes: tuple[int, ...],
    window: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    padding: bytes,
    explicit: tuple[tuple[int, int], ...] = (),
) -> Windows:
    """Work out padding and output sizes.

    padding   b"SAME" (out = ceil(size / stride)), b"VALID" (no padding), b"EXPLICIT" (as given)
    Raises InvalidArgumentError where a window is larger than what it slides over, or a number is bad.
    """
    before, after, out, steps = [], [], [], []
    for axis, (size, w, stride, dilation) in enumerate(zip(sizes, window, strides, dilations, strict=True)):
        if stride <= 0:
            raise InvalidArgumentError(f"Stride must be > 0, but got {stride}")
        if dilation < 1:
            raise InvalidArgumentError(f"Dilation rate must be >= 1, but got {dilation}")
        reach = (w - 1) * dilation + 1
        if padding == b"SAME":
            count = -(-size // stride)
            total = max((count - 1) * stride + reach - size, 0)
            low, high = total // 2, total - total // 2
        elif padding == b"VALID":
            low = high = 0
            count = (size - reach + stride) // stride
        else:
            low, high = explicit[axis]
            if low < 0 or high < 0:
                raise InvalidArgumentError(f"All explicit paddings must be nonnegative, not {low}, {high}")
            count = (size + low + high - reach + stride) // stride
        if count < 0:
            raise InvalidArgumentError(
                f"Computed output size would be negative: {count} [input_size: {size}, "
                f"effective_filter_size: {reach}, stride: {stride}]"
            )
        before.append(low)
        after.append(high)
        out.append(count)
        # For a single window the stride does not matter, and a graph may have any. Take the smallest one
        # for which no second window fits, because libraries and gradients count the windows again.
        steps.append(stride if count > 1 else max(size + low + high - reach, 0) + 1)
    return Windows(sizes, window, tuple(steps), dilations, tuple(before), tuple(after), tuple(out))


def is_channels_first(data_format: bytes) -> bool:
    """NCHW, NCDHW (True) or NHWC, NDHWC (False); InvalidArgumentError for anything else."""
    if data_format in (b"NHWC", b"NDHWC"):
        return False
    if data_format in (b"NCHW", b"NCDHW"):
        return True
    raise InvalidArgumentError(f"data format {data_format.decode(errors='replace')} is not supported here")


def spatial(values: Sequence[int], channels_first: bool) -> tuple[int, ...]:
    """The spatial entries of a list with one entry an axis."""
    return tuple(values[2:] if channels_first else values[1:-1])


def batch_and_depth(values: Sequence[int], channels_first: bool) -> tuple[int, int]:
    """The entries of the batch and of the channel axis."""
    return (values[0], values[1]) if channels_first else (values[0], values[-1])


def explicit_pairs(paddings: Sequence[int], channels_first: bool) -> tuple[tuple[int, int], ...]:
    """(before, after) of each spatial axis from a flat list of pairs, one an axis."""
    pairs = tuple(zip(paddings[::2], paddings[1::2], strict=True))
    return pairs[2:] if channels_first else pairs[1:-1]


def to_channels_last(x: Array, channels_first: bool) -> Array:
    """A view with the channels last."""
    return x.transpose(0, *range(2, x.ndim), 1) if channels_first else x


def from_channels_last(xp: Any, x: Array, channels_first: bool) -> Any:
    """The result in the layout of the node, C-contiguous."""
    return xp.ascontiguousarray(x.transpose(0, -1, *range(1, x.ndim - 1))) if channels_first else x
