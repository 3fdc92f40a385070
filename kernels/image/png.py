"""PNG decoded with libpng's values, which are TensorFlow's: bit depths, palettes, transparency and grey.

`png_file.py` reads the chunks, Pillow inflates and unfilters the samples. This module follows libpng's
transformations in their order: expand, strip alpha, colours to grey, grey to colours, drop the low byte, fill
in alpha.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from flowengine.core.accounting import ask_for
from flowengine.core.arrays import Array
from flowengine.kernels.image.png_file import PALETTE, SIGNATURE, PngFile

#: libpng's weights of red, green and blue (ITU-R BT.601), in parts of 2**15.
_WEIGHTS: Final = (9797, 19234, 3737)
_HALF: Final = 1 << 14
#: libpng's gammas are in parts of 100,000. One this near to 1 counts as 1.
_ONE: Final = 100_000
_GAMMA_THRESHOLD: Final = 5_000
#: Bits of a sample that libpng's tables of gamma look at where 16 bits become 8.
_BITS_FOR_BYTES: Final = 11
#: Copies of the filtered rows at a time, and the bytes of a pixel in Pillow.
_COPIES: Final = 2
_PILLOW: Final = 4


def decoded(data: bytes, channels: int, deep: bool, opened: Callable[[bytes], Any], bounded: Any) -> Array:
    """[height, width, channels] of a PNG file: uint16 if `deep`, else uint8.

    channels   1, 3 or 4; 0: as many as the file has, which may be 2
    opened     makes a Pillow image of a file, or raises InvalidArgumentError
    bounded    raises for a width and a height that are too large

    Raises InvalidArgumentError for a damaged file, and ResourceExhaustedError, with nothing decoded, if the
    pixels are more than the step may take.
    """
    file = PngFile.read(data)
    bounded(file.width, file.height)
    channels = channels or file.own_channels
    wide = 1 if file.depth < 16 and not deep else 2
    pixels = file.width * file.height
    ask_for(_COPIES * file.rows_size + pixels * (_PILLOW + 2 * wide * max(channels, file.own_channels)))
    colours, alpha = _expanded(file, file.samples(opened), with_alpha=channels % 2 == 0)
    deep_file = file.depth == 16
    if channels < 3 and colours.shape[2] == 3:
        colours = _grey(colours, file, deep)
    elif channels >= 3 and colours.shape[2] == 1:
        colours = colours.repeat(3, axis=2)
    if deep_file and not deep:
        colours = (colours >> 8).astype(np.uint8)
        alpha = None if alpha is None else (alpha >> 8).astype(np.uint8)
    if channels % 2 == 0:
        if alpha is None:
            # libpng fills in the largest sample of the file, also where that was expanded to 8 bits.
            opaque = (1 << file.depth) - 1 if colours.dtype == np.uint16 or not deep_file else 255
            alpha = np.full_like(colours[:, :, :1], opaque)
        colours = np.concatenate([colours, alpha], axis=2)
    if deep and not deep_file:
        colours = colours.astype(np.uint16) * np.uint16(257)
    return colours


def _expanded(file: PngFile, samples: Array, with_alpha: bool) -> tuple[Array, Array | None]:
    """The colours, 1 or 3 a pixel, and the alpha, where the file has it and it is wanted."""
    if file.colour == PALETTE:
        assert file.palette is not None
        alpha = np.full(256, 255, np.uint8)
        if file.transparency is not None:
            alpha[: len(file.transparency)] = np.frombuffer(file.transparency, np.uint8)
        has_alpha = with_alpha and file.transparency is not None
        return file.palette[samples[:, :, 0]], alpha[samples] if has_alpha else None
    if samples.shape[2] in (2, 4):
        return samples[:, :, :-1], samples[:, :, -1:] if with_alpha else None
    if not with_alpha or file.transparency is None:
        return samples, None
    # One colour is transparent. Of a file of fewer than 16 bits libpng looks at as many of the number.
    seen = np.frombuffer(file.transparency, ">u2").astype(samples.dtype)
    if file.depth < 8:
        most = (1 << file.depth) - 1
        seen = (seen & most) * np.uint8(255 // most)
    hidden = (samples == seen).all(axis=2, keepdims=True)
    return samples, np.where(hidden, 0, np.iinfo(samples.dtype).max).astype(samples.dtype)


def _grey(colours: Array, file: PngFile, deep: bool) -> Array:
    """The grey of colours [height, width, 3]: linear light if the file says its gamma, else of the samples.

    As libpng does: 8 bits without a gamma are truncated, everything else is rounded.
    """
    big = colours.dtype == np.uint16
    if not _significant(file.gamma or _ONE):
        return _weighted(colours, _HALF if big else 0).astype(colours.dtype)[:, :, np.newaxis]
    # How libpng rounds one gamma to the other: the screen's is the reciprocal of the file's.
    screen = _reciprocal(file.gamma)
    shift = _shift(file, deep) if big else 0
    to_linear = _table(_reciprocal(file.gamma), shift, big)
    from_linear = _table(_reciprocal(screen), shift, big)
    linear = to_linear[colours >> shift]
    out = from_linear[_weighted(linear, _HALF) >> shift]
    same = (colours[:, :, 0] == colours[:, :, 1]) & (colours[:, :, 0] == colours[:, :, 2])
    kept: Array = np.where(same, colours[:, :, 0], out).astype(colours.dtype)
    return kept[:, :, np.newaxis]


def _weighted(colours: Array, rest: int) -> Array:
    """The weighted sum of [height, width, 3]; `rest` is what is added before the fraction is cut off."""
    grey = colours[:, :, 0] * np.int32(_WEIGHTS[0])
    grey += colours[:, :, 1] * np.int32(_WEIGHTS[1])
    grey += colours[:, :, 2] * np.int32(_WEIGHTS[2])
    grey += np.int32(rest)
    grey >>= 15
    return grey


def _significant(gamma: int) -> bool:
    return abs(gamma - _ONE) > _GAMMA_THRESHOLD


def _reciprocal(gamma: int) -> int:
    return int(1e10 / gamma + 0.5)


def _shift(file: PngFile, deep: bool) -> int:
    """The low bits of a sample that the tables leave out."""
    shift = 16 - file.bits if 0 < file.bits < 16 else 0
    return min(shift if deep else max(shift, 16 - _BITS_FOR_BYTES), 8)


def _table(gamma: int, shift: int, big: bool) -> Array:
    """{sample without its low bits: sample to the power of the gamma}"""
    most = 65535 if big else 255
    places = np.arange(65536 >> shift if big else 256)
    if not _significant(gamma):
        last = int(places[-1])
        return ((places * most + last // 2) // last).astype(np.uint16)
    table: Array = np.floor(most * (places / places[-1]) ** (gamma * 1e-5) + 0.5)
    return table.astype(np.uint16)


__all__ = ["SIGNATURE", "decoded"]
