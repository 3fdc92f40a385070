"""The frames of a GIF, found by the lengths of its blocks: nothing of them is decoded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowengine.core.abandonment import check_wanted

#: A file of many small frames is looked through as long as the step wants it.
_FRAMES_BETWEEN_LOOKS: Final = 256
#: The signature and the screen, before the first table of colours.
_HEAD: Final = 13
_SCREEN_FLAGS: Final = 10
_IMAGE, _EXTENSION, _TRAILER = 0x2C, 0x21, 0x3B
_IMAGE_FLAGS: Final = 9


def frames_counted(data: bytes) -> Iterator[int]:
    """1, 2, and so on, each as its frame is found, up to the end of what can be followed.

    Raises CancelledError where the step is over.
    """
    if len(data) < _HEAD:
        return
    at = _HEAD + _colours_size(data[_SCREEN_FLAGS])
    frames = 0
    while at < len(data):
        kind = data[at]
        if kind == _IMAGE and at + _IMAGE_FLAGS < len(data):
            frames += 1
            if frames % _FRAMES_BETWEEN_LOOKS == 0:
                check_wanted()
            yield frames
            # Behind the colours stands one byte, the size of its codes.
            at += _IMAGE_FLAGS + 1 + _colours_size(data[at + _IMAGE_FLAGS]) + 1
        elif kind == _EXTENSION:
            at += 2
        elif kind == _TRAILER:
            return
        else:
            # Pillow passes over what is no block.
            at += 1
            continue
        while at < len(data) and data[at]:
            at += 1 + data[at]
        at += 1


def _colours_size(flags: int) -> int:
    """The bytes of a table of colours: 3 for each, 2 to 256 of them where there is one."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0
