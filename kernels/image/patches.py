"""Patches of images and volumes: the windows that a convolution would see, laid out as depth."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import blank, brackets
from flowengine.kernels.registry import kernel


def _extract(
    xp: Any, x: Array, ksizes: Sequence[int], strides: Sequence[int], rates: Sequence[int], padding: bytes
) -> Any:
    """(N, D..., C) -> (N, out..., K... C): every window, its places in row-major order, then channels."""
    rank = len(ksizes)
    if x.ndim != rank:
        raise InvalidArgumentError(f"input must be {rank}-dimensional, but has shape {brackets(x.shape)}")
    for name, sizes in (("ksizes", ksizes), ("strides", strides), ("rates", rates)):
        if len(sizes) != rank or sizes[0] != 1 or sizes[-1] != 1 or min(sizes) < 1:
            raise InvalidArgumentError(
                f"{name} must be {rank} positive numbers, 1 for batch and depth, but is {brackets(sizes)}"
            )
    space = x.shape[1:-1]
    counts: list[int] = []
    pads: list[tuple[int, int]] = []
    for size, k, stride, rate in zip(space, ksizes[1:-1], strides[1:-1], rates[1:-1], strict=True):
        reach = k + (k - 1) * (rate - 1)
        if padding == b"SAME":
            count = -(-size // stride)
            needed = max(0, (count - 1) * stride + reach - size)
        else:
            count, needed = max(0, size - reach + stride) // stride, 0
            if size - reach + stride <= -stride:
                raise InvalidArgumentError(
                    f"Computed output size would be negative: a window of {reach} (stride {stride}) "
                    f"does not fit a dimension of {size}"
                )
        counts.append(count)
        pads.append((needed // 2, needed - needed // 2))
    if any(before or after for before, after in pads):
        wide = blank(
            xp, (len(x), *(b + d + a for d, (b, a) in zip(space, pads, strict=True)), x.shape[-1]), x.dtype
        )
        wide[(slice(None), *(slice(b, b + d) for d, (b, _) in zip(space, pads, strict=True)))] = x
        x = wide
    windows = ksizes[1:-1]
    result = xp.empty((len(x), *counts, math.prod(windows) * x.shape[-1]), x.dtype)
    out = result.reshape((len(x), *counts, *windows, x.shape[-1]))
    every = (slice(None),) * (1 + len(counts))
    if out.size:
        # One strided copy a place of the window: few, each long.
        for place in itertools.product(*map(range, windows)):
            source = tuple(
                slice(p * rate, p * rate + (count - 1) * stride + 1, stride)
                for p, rate, stride, count in zip(place, rates[1:-1], strides[1:-1], counts, strict=True)
            )
            out[(*every, *place)] = x[(slice(None), *source)]
    return result


@kernel("ExtractImagePatches", fresh=True)
def extract_image_patches(
    xp: Any,
    x: Array,
    *,
    ksizes: tuple[int, ...],
    strides: tuple[int, ...],
    rates: tuple[int, ...],
    padding: bytes,
) -> Any:
    """(N, H, W, C) -> (N, H_out, W_out, K_h K_w C); `rates` spread the places of a window."""
    return _extract(xp, x, ksizes, strides, rates, padding)


@kernel("ExtractVolumePatches", fresh=True)
def extract_volume_patches(
    xp: Any, x: Array, *, ksizes: tuple[int, ...], strides: tuple[int, ...], padding: bytes
) -> Any:
    """(N, D, H, W, C) -> (N, D_out, H_out, W_out, K_d K_h K_w C)."""
    return _extract(xp, x, ksizes, strides, (1, 1, 1, 1, 1), padding)
