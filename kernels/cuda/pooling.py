"""Maxima and means over windows with their gradients: `sources/pooling.cuh`.

Windows go over one to three axes of (N, *sizes, C), or (N, C, *sizes). Arrays lie row by row without gaps.
Gradients are gathered, an element asking the windows that it lies in: no additions are atomic, and all bits
are those of the CPU's kernels (`kernels/nn/window_extremes.py`). Nothing is waited for.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.windows import Windows
from flowengine.kernels.cuda.launching import Launcher, over

_AXES: Final = 3
_INT32_MAX: Final = (1 << 31) - 1


def _numbers(geometry: Windows, images: int, channels: int, channels_first: bool) -> tuple[int, ...]:
    """Return the last arguments of each kernel: all the geometry, axes of length 1 before the others."""
    missing = _AXES - len(geometry.out)
    if missing < 0 or any(d != 1 for d in geometry.dilations):
        raise InvalidArgumentError(
            f"windows of a pooling have up to {_AXES} axes and no dilation, not {geometry.dilations}"
        )
    ones, zeros = (1,) * missing, (0,) * missing
    fields = (
        (*ones, *geometry.sizes),
        (*ones, *geometry.window),
        (*ones, *geometry.strides),
        (*zeros, *geometry.before),
        (*ones, *geometry.out),
    )
    return images, channels, int(channels_first), *(n for field in fields for n in field)


def _input_shape(x: Array, channels_first: bool) -> tuple[int, int]:
    return x.shape[0], x.shape[1 if channels_first else -1]


def _shape(images: int, spatial: tuple[int, ...], channels: int, channels_first: bool) -> tuple[int, ...]:
    return (images, channels, *spatial) if channels_first else (images, *spatial, channels)


def max_pool(
    launcher: Launcher, x: Array, geometry: Windows, *, channels_first: bool = False, keeps_nan: bool = False
) -> Any:
    """The greatest of each window, NaN passed over.

    x           of a float type, or of integers of 8 to 64 bits
    keeps_nan   whether a window of nothing but NaN gives NaN; else it gives the least number
    """
    images, channels = _input_shape(x, channels_first)
    result = launcher.empty(_shape(images, geometry.out, channels, channels_first), x.dtype)
    if result.size:
        numbers = _numbers(geometry, images, channels, channels_first)
        launcher.launch(over(f"max_pool_{x.dtype.name}", result.size, int(keeps_nan), *numbers), [x, result])
    return result


def max_pool_places(
    launcher: Launcher, x: Array, geometry: Windows, dtype: Any = np.int64, *, channels_first: bool = False
) -> Any:
    """Return the position in its image of the first of each window's greatest elements.

    It is an index with channels last.

    dtype   int32 or int64
    """
    images, channels = _input_shape(x, channels_first)
    result = launcher.empty(_shape(images, geometry.out, channels, channels_first), dtype)
    if result.size:
        name = f"max_pool_places_{x.dtype.name}_{np.dtype(dtype).name}"
        numbers = _numbers(geometry, images, channels, channels_first)
        launcher.launch(over(name, result.size, *numbers), [x, result])
    return result


def max_pool_gradient(
    launcher: Launcher, x: Array, gradient: Array, geometry: Windows, *, channels_first: bool = False
) -> Any:
    """The gradient of x, a float type: that of each window goes to the first of its greatest elements."""
    images, channels = _input_shape(x, channels_first)
    result = launcher.empty(x.shape, gradient.dtype)
    if not x.size:
        return result
    kind = np.int32 if x.size // images <= _INT32_MAX else np.int64
    places = max_pool_places(launcher, x, geometry, kind, channels_first=channels_first)
    name = f"max_pool_gradient_{gradient.dtype.name}_{np.dtype(kind).name}"
    numbers = _numbers(geometry, images, channels, channels_first)
    launcher.launch(over(name, x.size, *numbers), [gradient, places, result])
    return result


def avg_pool(launcher: Launcher, x: Array, geometry: Windows, *, channels_first: bool = False) -> Any:
    """The mean of each window's elements; padding is none."""
    images, channels = _input_shape(x, channels_first)
    result = launcher.empty(_shape(images, geometry.out, channels, channels_first), x.dtype)
    if result.size:
        numbers = _numbers(geometry, images, channels, channels_first)
        launcher.launch(over(f"avg_pool_{x.dtype.name}", result.size, *numbers), [x, result])
    return result


def avg_pool_gradient(
    launcher: Launcher, gradient: Array, geometry: Windows, *, channels_first: bool = False
) -> Any:
    """The gradient of x: that of each window spread evenly over its elements."""
    images, channels = _input_shape(gradient, channels_first)
    result = launcher.empty(_shape(images, geometry.sizes, channels, channels_first), gradient.dtype)
    if result.size:
        name = f"avg_pool_gradient_{gradient.dtype.name}"
        numbers = _numbers(geometry, images, channels, channels_first)
        launcher.launch(over(name, result.size, *numbers), [gradient, result])
    return result


__all__ = ["avg_pool", "avg_pool_gradient", "max_pool", "max_pool_gradient", "max_pool_places"]
