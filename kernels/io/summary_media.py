"""Images and sounds as entries of a Summary."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

import numpy as np

from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.wire import bytes_field
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.image.coding import encode_png
from flowengine.kernels.io.summary_fields import number_field, value_entry
from flowengine.kernels.signal.audio import encode_wav

#: A pixel range smaller than this is not stretched.
_RANGE_MIN: Final = 1e-6


def _scalar_tag(tag: Value) -> bytes:
    name = to_array(tag)
    if name.ndim:
        raise InvalidArgumentError(f"Tags must be a scalar, not {shape_text(name)}")
    return bytes(name.item())


def _entries(tag: bytes, kind: bytes, count: int, most: int, entry: Callable[[int], bytes]) -> bytes:
    """One entry for each of the first `most`, numbered if there may be more than one."""
    parts = []
    for index in range(min(count, most)):
        name = tag + b"/" + kind + (b"" if most == 1 else b"/%d" % index)
        parts.append(value_entry(name, entry(index)))
    return b"".join(parts)


def image_summary(tag: Value, tensor: Array, max_images: int, bad_color: Array) -> bytes:
    """A Summary of the first images of (N, H, W, 1, 3 or 4), as PNG.

    Floats are stretched to 0 to 255; where some are negative, so that 0 becomes 128. A pixel that is not
    finite gets the bad colour.
    """
    name = _scalar_tag(tag)
    if tensor.ndim != 4 or tensor.shape[3] not in (1, 3, 4):
        raise InvalidArgumentError(f"Tensor must be 4-D with last dim 1, 3, or 4, not {shape_text(tensor)}")
    _, height, width, depth = tensor.shape
    if len(tensor) and not height * width:
        raise InvalidArgumentError(f"input tensor must have non-zero dims. Found: {shape_text(tensor)}.")
    if bad_color.ndim != 1 or bad_color.size < depth:
        raise InvalidArgumentError(
            f"expected depth <= bad_color.size, got depth {depth}, {shape_text(bad_color)}"
        )

    def entry(index: int) -> bytes:
        image = tensor[index]
        pixels = image if image.dtype == np.uint8 else _stretched(image, bad_color[:depth])
        fields = (
            number_field(1, height),
            number_field(2, width),
            number_field(3, depth),
            bytes_field(4, encode_png(pixels, compression=-1)),
        )
        return bytes_field(4, b"".join(fields))

    return _entries(name, b"image", len(tensor), max_images, entry)


def _stretched(image: Array, bad_color: Array) -> Array:
    """(H, W, C) uint8: the range is float32, whatever the pixels are; the rest is computed in their type."""
    finite = np.isfinite(image).all(axis=-1)
    seen = image[finite]
    with np.errstate(all="ignore"):
        ends = seen.astype(np.float32)
    low, high = (ends.min(), ends.max()) if ends.size else (np.float32(0), np.float32(0))
    width, offset = (127, 128) if low < 0 else (255, 0)
    largest = max(abs(low), abs(high))
    scale = np.float32(0) if largest < _RANGE_MIN else np.float32(width) / largest
    kind = image.dtype.type
    result = np.empty(image.shape, np.uint8)
    with np.errstate(all="ignore"):
        # A scale that the type does not hold is infinite.
        result[finite] = (seen * kind(scale) + kind(offset)).astype(np.uint8)
    result[~finite] = bad_color
    return result


def audio_summary(tag: Value, tensor: Array, sample_rate: float, max_outputs: int) -> bytes:
    """A Summary of the first sounds of (N, frames) or (N, frames, channels), as waves of 16 bits."""
    name = _scalar_tag(tag)
    if tensor.ndim not in (2, 3):
        raise InvalidArgumentError(f"Tensor must be 3-D or 2-D, got: {shape_text(tensor)}")
    sounds = tensor if tensor.ndim == 3 else tensor[:, :, None]
    _, frames, channels = sounds.shape
    if not frames:
        raise InvalidArgumentError("num_frames must be positive.")
    if not sample_rate > 0:
        raise InvalidArgumentError(f"sample_rate must be > 0, not {sample_rate}")
    rate = np.int32(min(sample_rate, 2**31 - 1))

    def entry(index: int) -> bytes:
        fields = (
            b"\x0d" + struct.pack("<f", sample_rate),
            number_field(2, channels),
            number_field(3, frames),
            bytes_field(4, encode_wav(sounds[index], np.maximum(rate, 1))),
            bytes_field(5, b"audio/wav"),
        )
        return bytes_field(6, b"".join(fields))

    return _entries(name, b"audio", len(sounds), max_outputs, entry)
