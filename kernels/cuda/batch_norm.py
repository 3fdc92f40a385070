"""Batch normalisation and its gradients: `sources/batch_norm.cuh`, after `kernels/nn/normalization.py`.

Features are float16, bfloat16 or float32 of shape (N, H, W, C), or (N, C, H, W); scale, offset and statistics
are float32 of shape (C,). Arrays lie row by row without gaps and are not empty. Nothing is waited for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.kernels.cuda.launching import (
    ChannelSums,
    Launcher,
    each,
    each_column,
    float_bits,
    rows_and_channels,
)


@dataclass(frozen=True, slots=True)
class BatchStatistics:
    """Mean, and variance without and with Bessel's correction, of each channel: (C,) float32 each."""

    mean: Any
    biased: Any
    unbiased: Any


def _vector(launcher: Launcher, channels: int) -> Any:
    return launcher.empty((channels,), np.float32)


def _normalized(
    launcher: Launcher, x: Array, mean: Array, factor: Array, offset: Array, channels_first: bool
) -> Any:
    _, channels, inner = rows_and_channels(x.shape, channels_first)
    result = launcher.empty(x.shape, x.dtype)
    launch = each(f"batch_norm_{x.dtype.name}", x.size, channels, inner)
    launcher.launch(launch, [x, mean, factor, offset, result])
    return result


def by_given_statistics(
    launcher: Launcher,
    x: Array,
    scale: Array,
    offset: Array,
    mean: Array,
    variance: Array,
    *,
    epsilon: float,
    channels_first: bool = False,
) -> Any:
    """(x - mean) * (scale / sqrt(variance + epsilon)) + offset, of the type and shape of x."""
    channels = len(scale)
    factor = _vector(launcher, channels)
    launcher.launch(each("batch_norm_factors", channels, float_bits(epsilon)), [scale, variance, factor])
    return _normalized(launcher, x, mean, factor, offset, channels_first)


def by_batch_statistics(
    launcher: Launcher,
    x: Array,
    scale: Array,
    offset: Array,
    *,
    epsilon: float,
    channels_first: bool = False,
) -> tuple[Any, BatchStatistics]:
    """The same with mean and biased variance of the batch itself, and these."""
    rows, channels, inner = rows_and_channels(x.shape, channels_first)
    columns = ChannelSums.over(rows, channels, inner)
    partial = launcher.empty((columns.chunks, channels), np.float32)
    mean, biased, unbiased, factor = (_vector(launcher, channels) for _ in range(4))
    launcher.launch(columns.launch(f"batch_norm_sums_{x.dtype.name}"), [x, partial])
    launcher.launch(each_column("batch_norm_means", columns.chunks, channels, rows), [partial, mean])
    launcher.launch(columns.launch(f"batch_norm_deviations_{x.dtype.name}"), [x, mean, partial])
    unbias = float(np.float32(rows / max(rows - 1, 1)))
    numbers = rows, float_bits(epsilon), float_bits(unbias)
    launcher.launch(
        each_column("batch_norm_variances", columns.chunks, channels, *numbers),
        [partial, scale, biased, unbiased, factor],
    )
    y = _normalized(launcher, x, mean, factor, offset, channels_first)
    return y, BatchStatistics(mean, biased, unbiased)


def moved(launcher: Launcher, fresh: Array, old: Array, share: float) -> Any:
    """A moving statistic: `share` of the fresh one and the rest of the old one."""
    result = _vector(launcher, len(fresh))
    launcher.launch(each("batch_norm_moved", len(fresh), float_bits(share)), [fresh, old, result])
    return result


def gradients(
    launcher: Launcher,
    gradient: Array,
    x: Array,
    scale: Array,
    mean: Array,
    variance: Array,
    *,
    epsilon: float,
    is_training: bool,
    channels_first: bool = False,
) -> tuple[Any, Any, Any]:
    """The gradients of x, scale and offset from that of y and the (biased) variance."""
    rows, channels, inner = rows_and_channels(x.shape, channels_first)
    columns = ChannelSums.over(rows, channels, inner)
    partial = launcher.empty((columns.chunks, 2, channels), np.float32)
    name = x.dtype.name
    launcher.launch(columns.launch(f"batch_norm_gradient_sums_{name}"), [x, gradient, mean, partial])
    scale_backprop, offset_backprop = _vector(launcher, channels), _vector(launcher, channels)
    slopes = launcher.empty((3, channels), np.float32)
    launcher.launch(
        each_column("batch_norm_slopes", columns.chunks, channels, rows, float_bits(epsilon)),
        [partial, scale, variance, scale_backprop, offset_backprop, slopes],
    )
    result = launcher.empty(x.shape, x.dtype)
    launcher.launch(
        each(f"batch_norm_gradient_{name}", x.size, channels, inner, int(is_training)),
        [gradient, x, mean, slopes, result],
    )
    return result, scale_backprop, offset_backprop


__all__ = ["BatchStatistics", "by_batch_statistics", "by_given_statistics", "gradients", "moved"]
