"""Depthwise convolution and its gradients: one multiply-add a window element over whole planes.

There is no matrix product in it, so a block of one image's rows is kept in cache and every element of the
window is multiplied in turn.
"""

from __future__ import annotations

import itertools

import numpy as np

from flowengine.core.arrays import Array
from flowengine.kernels.windows import Windows


def forward(x: Array, filters: Array, geometry: Windows) -> Array:
    """(N, H, W, C) with (H_f, W_f, C, M) to (N, H_out, W_out, C M)."""
    channels, multiplier = filters.shape[2:]
    out = np.zeros((x.shape[0], *geometry.out, channels, multiplier), x.dtype)
    if out.size:
        padded = geometry.pad(x)
        part = np.empty(out.shape[1:], x.dtype)
        for image, target in zip(padded, out, strict=True):
            for offset in itertools.product(*(range(n) for n in geometry.window)):
                np.multiply(image[geometry.slices(offset)][..., None], filters[offset], out=part)
                target += part
    return out.reshape(*out.shape[:-2], channels * multiplier)


def input_gradient(filters: Array, gradient: Array, geometry: Windows) -> Array:
    """(N, H_out, W_out, C M) back to (N, H, W, C)."""
    channels, multiplier = filters.shape[2:]
    padded = np.zeros((gradient.shape[0], *geometry.padded, channels), gradient.dtype)
    if gradient.size:
        split = gradient.reshape(*gradient.shape[:-1], channels, multiplier)
        for image, target in zip(split, padded, strict=True):
            for offset in itertools.product(*(range(n) for n in geometry.window)):
                if multiplier == 1:
                    part = image[..., 0] * filters[offset][..., 0]
                else:
                    part = np.einsum("hwcm,cm->hwc", image, filters[offset])
                target[geometry.slices(offset)] += part
    return np.ascontiguousarray(geometry.crop(padded))


def filter_gradient(x: Array, gradient: Array, geometry: Windows, multiplier: int) -> Array:
    """The gradient (H_f, W_f, C, M)."""
    channels = x.shape[-1]
    total = np.zeros((*geometry.window, channels, multiplier), x.dtype)
    if gradient.size and x.size:
        padded = geometry.pad(x)
        split = gradient.reshape(*gradient.shape[:-1], channels, multiplier)
        for image, g in zip(padded, split, strict=True):
            for offset in itertools.product(*(range(n) for n in geometry.window)):
                part = image[geometry.slices(offset)]
                if multiplier == 1:
                    total[offset][:, 0] += np.einsum("hwc,hwc->c", part, g[..., 0])
                else:
                    total[offset] += np.einsum("hwc,hwcm->cm", part, g)
    return total
