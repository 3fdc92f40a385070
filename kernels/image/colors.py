"""Colours of images (..., 3): hue, saturation, value; and contrast.

Half-precision images are computed in float32.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.registry import kernel


def _wide(images: Array) -> Array:
    return images if images.dtype.itemsize > 2 else images.astype(np.float32)


def _cost(images: Array, *_: Any) -> float:
    """Microseconds: about 0.03 an element."""
    return 0.03 * float(images.size)


def _channels(images: Array) -> tuple[Array, Array, Array]:
    if not images.ndim:
        raise InvalidArgumentError("input must be at least 1D, but is a scalar")
    if images.shape[-1] != 3:
        raise InvalidArgumentError(f"input must have 3 channels but instead has {images.shape[-1]} channels.")
    return images[..., 0], images[..., 1], images[..., 2]


def _hue(xp: Any, images: Array, value: Any, spread: Any) -> Any:
    """The hue of each pixel in sixths of the circle (-1 to 5): 0 without a spread.

    value    the largest channel
    spread   the largest without the smallest
    """
    red, green, blue = _channels(images)
    norm = 1 / xp.where(spread > 0, spread, images.dtype.type(1))
    return xp.where(
        red == value,
        norm * (green - blue),
        xp.where(green == value, norm * (blue - red) + 2, norm * (red - green) + 4),
    )


def _coloured(xp: Any, hue: Any, low: Any, spread: Any) -> Any:
    """Pixels of a hue in sixths, 0 to 6, whose channels go from `low` to `low + spread`."""
    shares = (xp.abs(hue - 3) - 1, 2 - xp.abs(hue - 2), 2 - xp.abs(hue - 4))
    return xp.stack([low + spread * xp.clip(share, 0, 1) for share in shares], axis=-1)


@kernel("RGBToHSV", fresh=True, heavy=_cost)
def rgb_to_hsv(xp: Any, images: Array) -> Any:
    """Red, green and blue to hue, saturation and value; 0 to 1 each."""
    x = _wide(images)
    red, green, blue = _channels(x)
    # NaN is neither the largest nor the smallest channel.
    value = xp.fmax(xp.fmax(red, green), xp.fmax(blue, x.dtype.type(-np.inf)))
    spread = value - xp.fmin(xp.fmin(red, green), xp.fmin(blue, x.dtype.type(np.inf)))
    turn = xp.where(spread > 0, _hue(xp, x, value, spread), x.dtype.type(0)) / x.dtype.type(6)
    turn = xp.where(turn < 0, turn + 1, turn)
    is_black = ~(value > 0)
    saturation = xp.where(is_black, x.dtype.type(0), spread / xp.where(is_black, x.dtype.type(1), value))
    return xp.stack([turn, saturation, value], axis=-1).astype(images.dtype, copy=False)


@kernel("HSVToRGB", fresh=True, heavy=_cost)
def hsv_to_rgb(xp: Any, images: Array) -> Any:
    """Hue, saturation and value to red, green and blue; 0 to 1 each."""
    hue, saturation, value = _channels(_wide(images))
    spread = saturation * value
    return _coloured(xp, hue * 6, value - spread, spread).astype(images.dtype, copy=False)


def _check_scalar(value: Array, what: str) -> None:
    if value.ndim:
        raise InvalidArgumentError(f"{what} must be scalar: {brackets(value.shape)}")


def _check_images(images: Array) -> None:
    if images.ndim < 3:
        raise InvalidArgumentError(f"input must be at least 3-D, got shape {brackets(images.shape)}")


@kernel("AdjustHue", fresh=True, heavy=_cost)
def adjust_hue(xp: Any, images: Array, delta: Array) -> Any:
    """Turn the hue of (..., H, W, 3) by a part of the circle; the largest and smallest channels stay."""
    _check_images(images)
    _check_scalar(delta, "delta")
    x = _wide(images)
    category, top, middle, low = _ordered(xp, *_channels(x))
    share = (middle - low) / xp.where(top == low, x.dtype.type(1), top - low)
    hue = category + xp.where(category % 2 == 0, share, 1 - share)
    hue = xp.where(top == low, x.dtype.type(0), hue) + delta * x.dtype.type(6)
    return _from_extremes(xp, xp.mod(hue, x.dtype.type(6)), top, low).astype(images.dtype, copy=False)


def _ordered(xp: Any, red: Array, green: Array, blue: Array) -> tuple[Any, Any, Any, Any]:
    """The sixth of the circle that each pixel lies in, 0 to 5, and its channels by falling value.

    Compared as TensorFlow does, which decides where NaN goes.
    """
    rises = red < green
    blue_low, blue_top = xp.where(rises, blue < red, blue < green), xp.where(rises, blue > green, blue > red)
    category = xp.where(
        rises,
        xp.where(blue_low, 1, xp.where(blue_top, 3, 2)),
        xp.where(blue_low, 0, xp.where(blue_top, 4, 5)),
    ).astype(red.dtype)
    larger, smaller = xp.where(rises, green, red), xp.where(rises, red, green)
    top = xp.where(blue_top & ~blue_low, blue, larger)
    low = xp.where(blue_low, blue, smaller)
    middle = xp.where(blue_low, smaller, xp.where(blue_top, larger, blue))
    return category, top, middle, low


def _from_extremes(xp: Any, hue: Any, top: Any, low: Any) -> Any:
    """Pixels of a hue in sixths with these largest and smallest channels; NaN lies in the last sixth."""
    sixth = xp.where(hue < 5, xp.floor(hue), hue.dtype.type(5))
    share = hue - sixth
    middle = low + xp.where(sixth % 2 == 0, share, 1 - share) * (top - low)
    red = xp.where((sixth == 0) | (sixth == 5), top, xp.where((sixth == 1) | (sixth == 4), middle, low))
    green = xp.where((sixth == 1) | (sixth == 2), top, xp.where((sixth == 0) | (sixth == 3), middle, low))
    blue = xp.where((sixth == 3) | (sixth == 4), top, xp.where((sixth == 2) | (sixth == 5), middle, low))
    return xp.stack([red, green, blue], axis=-1)


@kernel("AdjustSaturation", fresh=True, heavy=_cost)
def adjust_saturation(xp: Any, images: Array, scale: Array) -> Any:
    """Multiply the saturation of (..., H, W, 3), kept between 0 and 1."""
    _check_images(images)
    _check_scalar(scale, "scale")
    x = _wide(images)
    red, green, blue = _channels(x)
    value = _larger(xp, red, _larger(xp, green, blue))
    spread = value - _smaller(xp, red, _smaller(xp, green, blue))
    hue = xp.where(spread <= 0, x.dtype.type(0), _hue(xp, x, value, spread))
    is_black = ~(value > 0)
    saturation = xp.where(is_black, x.dtype.type(0), spread / xp.where(is_black, x.dtype.type(1), value))
    spread = xp.clip(saturation * scale, 0, 1) * value
    low = value - spread
    pixels = _coloured(xp, xp.where(hue < 0, hue + 6, hue), low, spread)
    # A pixel without a hue, because one channel is NaN, has its lowest value in all of them.
    return xp.where(xp.isnan(hue)[..., None], low[..., None], pixels).astype(images.dtype, copy=False)


def _larger(xp: Any, x: Array, y: Array) -> Any:
    """The larger of two, the first where one is NaN."""
    return xp.where(x < y, y, x)


def _smaller(xp: Any, x: Array, y: Array) -> Any:
    """The smaller of two, the first where one is NaN."""
    return xp.where(y < x, y, x)


def _contrast(xp: Any, images: Array, factor: Array) -> Any:
    """(..., H, W, C) in float32 or 64: each channel of an image spread around its mean."""
    _check_images(images)
    _check_scalar(factor, "contrast_factor")
    x = _wide(images)
    if not math.prod(x.shape[-3:-1]):
        return x
    mean = x.mean(axis=(-3, -2), keepdims=True)
    return (x - mean) * factor + mean


@kernel("AdjustContrastv2", fresh=True, heavy=_cost)
def adjust_contrast_v2(xp: Any, images: Array, contrast_factor: Array) -> Any:
    """Spread each channel of each image of (..., H, W, C) around its mean."""
    return _contrast(xp, images, contrast_factor).astype(images.dtype)


@kernel("AdjustContrast", fresh=True, heavy=_cost)
def adjust_contrast(
    xp: Any, images: Array, contrast_factor: Array, min_value: Array, max_value: Array
) -> Any:
    """As AdjustContrastv2, in float32, with the result kept between two bounds."""
    _check_scalar(min_value, "min_value")
    _check_scalar(max_value, "max_value")
    spread = _contrast(xp, images.astype(np.float32), contrast_factor)
    return xp.minimum(xp.maximum(spread, min_value), max_value)


#: Red, green and blue to luma and two chroma axes (YIQ), and back, with the digits that TensorFlow uses.
_TO_YIQ: Final = np.array(
    [[0.299, 0.587, 0.114], [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]], np.float32
)
_FROM_YIQ: Final = np.array(
    [[1, 0.95617069, 0.62143257], [1, -0.2726886, -0.64681324], [1, -1.103744, 1.70062309]], np.float32
)


@kernel(
    "AdjustHsvInYiq",
    "Addons>AdjustHsvInYiq",
    fresh=True,
    heavy=_cost,
    types={"T": ["float32"]},
    host=("delta_h", "scale_s", "scale_v"),
)
def adjust_hsv_in_yiq(xp: Any, images: Array, delta_h: Any, scale_s: Any, scale_v: Any) -> Any:
    """Turn the chroma of (..., 3) in float32 by an angle in radians, and scale saturation and value."""
    _check_images(images)
    if images.shape[-1] != 3:
        raise InvalidArgumentError(f"input must have 3 channels but instead has {images.shape[-1]} channels.")
    for what, value in (("delta_h", delta_h), ("scale_s", scale_s), ("scale_v", scale_v)):
        if getattr(value, "ndim", 0):
            raise InvalidArgumentError(f"{what} must be scalar: {brackets(value.shape)}")
    angle, value = float(delta_h), float(scale_v)
    chroma = float(scale_s) * value
    along, across = chroma * math.cos(angle), chroma * math.sin(angle)
    turn = xp.asarray([[value, 0, 0], [0, along, -across], [0, across, along]], np.float32)
    both = xp.asarray(_FROM_YIQ) @ turn @ xp.asarray(_TO_YIQ)
    return (images.reshape(-1, 3) @ both.T).reshape(images.shape)
