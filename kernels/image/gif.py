"""GIF decoded with TensorFlow's values, those of 1.15: every frame is laid over the one before.

The image is as large as its widest and its highest frame, whatever the screen's size, and the first frame
has to fill it. Transparency and disposal are passed over: each pixel of a frame has the colour of its number.
Pillow takes the numbers apart, a frame at a time; they are put together here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from flowengine.core.abandonment import check_wanted
from flowengine.core.accounting import ask_for
from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError

#: A file of many small frames is looked through as long as the step wants it.
_FRAMES_BETWEEN_LOOKS: Final = 256
_HEAD: Final = 13
_SCREEN_FLAGS: Final = 10
_IMAGE, _EXTENSION, _TRAILER = 0x2C, 0x21, 0x3B
_DESCRIPTOR: Final = struct.Struct("<HHHHB")
_INTERLACED: Final = 0x40
#: Bytes that a pixel of one frame takes while it is decoded: in Pillow, as its number, and as colours.
_A_PIXEL: Final = 6


@dataclass(frozen=True, slots=True)
class GifFrame:
    """One frame of a file, its pixels not decoded yet.

    colours   [entries, 3], uint8; None where neither the frame nor the file has any
    codes     the size of the first codes, and the blocks of codes
    """

    left: int
    top: int
    width: int
    height: int
    interlaced: bool
    colours: Array | None
    codes: bytes

    def numbers(self, opened: Callable[[bytes], Any]) -> Array:
        """The numbers of the pixels' colours, uint8 [height, width], read from a file of this frame alone."""
        screen = b"GIF89a" + struct.pack("<HHBBB", self.width, self.height, 0, 0, 0)
        flags = _INTERLACED if self.interlaced else 0
        frame = b"," + _DESCRIPTOR.pack(0, 0, self.width, self.height, flags)
        array: Array = np.array(opened(b"".join((screen, frame, self.codes, b";"))))
        return array


def frames(data: bytes) -> Iterator[GifFrame]:
    """Each frame as it is found by the lengths of the blocks, up to the file's trailer.

    Raises ValueError for a file that ends before its trailer or has something else between its blocks, and
    CancelledError where the step is over.
    """
    if len(data) < _HEAD:
        raise ValueError("the file ends within its head")
    shared, at = _colours(data, data[_SCREEN_FLAGS], _HEAD)
    count = 0
    while at < len(data):
        kind = data[at]
        if kind == _TRAILER:
            return
        if kind == _EXTENSION:
            at = _after_blocks(data, at + 2)
        elif kind == _IMAGE and at + 1 + _DESCRIPTOR.size < len(data):
            left, top, width, height, flags = _DESCRIPTOR.unpack_from(data, at + 1)
            own, begin = _colours(data, flags, at + 1 + _DESCRIPTOR.size)
            at = _after_blocks(data, begin + 1)
            if not width or not height:
                raise ValueError(f"frame {count} has {width} x {height} pixels")
            interlaced = bool(flags & _INTERLACED)
            colours = shared if own is None else own
            yield GifFrame(left, top, width, height, interlaced, colours, data[begin:at])
            count += 1
            if count % _FRAMES_BETWEEN_LOOKS == 0:
                check_wanted()
        else:
            raise ValueError(f"no block begins at byte {at}")
    raise ValueError("the file ends before its trailer")


def _colours(data: bytes, flags: int, at: int) -> tuple[Array | None, int]:
    """A table of 2 to 256 colours, where there is one, and the place after it."""
    if not flags & 0x80:
        return None, at
    end = at + (3 << (flags & 7) + 1)
    if end > len(data):
        raise ValueError("the file ends within a table of colours")
    return np.frombuffer(data, np.uint8, end - at, at).reshape(-1, 3), end


def _after_blocks(data: bytes, at: int) -> int:
    """The place after blocks that begin with their lengths, of which the last is empty."""
    while at < len(data) and data[at]:
        at += 1 + data[at]
    if at >= len(data):
        raise ValueError("the file ends within a block")
    return at + 1


def decoded(data: bytes, opened: Callable[[bytes], Any], bounded: Any, most: int | None = None) -> Array:
    """All frames, uint8 [frames, height, width, 3].

    opened     makes a Pillow image of a file, or raises InvalidArgumentError
    bounded    raises for a width, a height and a count of frames that are too large
    most       the frames that are allowed

    Raises InvalidArgumentError for a damaged file, and ResourceExhaustedError, with nothing decoded, if the
    pixels are more than the step may take.
    """
    try:
        found = _listed(data, bounded)
    except ValueError as error:
        raise InvalidArgumentError(f"Invalid GIF data, data size {len(data)}: {error}") from None
    if most is not None and len(found) > most:
        raise InvalidArgumentError(
            f"Got {len(found)} frames, but animated gifs can only be decoded by DecodeGif"
        )
    width, height = max(frame.width for frame in found), max(frame.height for frame in found)
    ask_for(width * height * (3 * len(found) + _A_PIXEL))
    out = np.empty((len(found), height, width, 3), np.uint8)
    for index, frame in enumerate(found):
        try:
            _lay(frame, out, index, opened)
        except ValueError as error:
            message = f"Invalid GIF data, data size {len(data)}, frame {index}: {error}"
            raise InvalidArgumentError(message) from None
    return out


def _listed(data: bytes, bounded: Any) -> list[GifFrame]:
    """The frames, at least one; refused at the first that is too much."""
    found: list[GifFrame] = []
    width = height = 0
    for frame in frames(data):
        width, height = max(width, frame.width), max(height, frame.height)
        found.append(frame)
        bounded(width, height, len(found))
        ask_for(len(found) * width * height * 3)
    if not found:
        raise ValueError("it has no frames")
    return found


def _lay(frame: GifFrame, out: Array, index: int, opened: Callable[[bytes], Any]) -> None:
    """Write a frame over the one before it, as far as it lies within the image; raises ValueError."""
    height, width = out.shape[1:3]
    if (frame.left, frame.top, frame.width, frame.height) != (0, 0, width, height):
        if not index:
            raise ValueError(
                f"{frame.width} x {frame.height} pixels at ({frame.left}, {frame.top}); the first frame "
                f"must fill the image, which has {width} x {height}"
            )
        out[index] = out[index - 1]
    if frame.colours is None:
        raise ValueError("there is no table of colours")
    room = out[index, frame.top : frame.top + frame.height, frame.left : frame.left + frame.width]
    numbers = frame.numbers(opened)[: room.shape[0], : room.shape[1]]
    if numbers.size and numbers.max() >= len(frame.colours):
        raise ValueError(f"colour {numbers.max()} is not among the {len(frame.colours)} of its table")
    room[...] = frame.colours[numbers]


__all__ = ["decoded", "frames"]
