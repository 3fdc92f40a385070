"""JPEG decoded as TensorFlow decodes it, bit for bit, by simplejpeg where that is installed.

It is libjpeg-turbo, of which TensorFlow takes the fast transform unless told otherwise, and it writes into
the array that is returned; Pillow takes the accurate one only, and copies the pixels three times.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from flowengine.core.accounting import ask_for
from flowengine.core.arrays import Array
from flowengine.core.buffers import recycled

#: Spaces of colours that become grey or RGB; those for printing are left to Pillow.
_SPACES: Final = frozenset({"Gray", "RGB", "YCbCr"})
_GIVEN: Final = {1: "GRAY", 3: "RGB"}


@functools.cache
def _library() -> Any:
    try:
        import simplejpeg
    except ImportError:
        return None
    return simplejpeg


def decoded(
    data: bytes,
    channels: int,
    ratio: int,
    accurate: bool,
    smooth: bool,
    bounded: Callable[[int, int], None],
) -> Array | None:
    """uint8 [height, width, channels], each side `ratio` times smaller; None where Pillow has to look.

    channels   1 or 3; 0: as many as the file has
    accurate   the slow transform, not the fast one
    smooth     interpolate between colours that are kept for several pixels
    bounded    raises for a width and a height that are too large

    Pillow has to look at what is damaged, and at everything where there is no simplejpeg. Raises
    ResourceExhaustedError, with nothing decoded, where the pixels are more than the step may take.
    """
    library = _library()
    if library is None:
        return None
    try:
        height, width, space, _ = library.decode_jpeg_header(data)
    except ValueError:
        return None
    if space not in _SPACES:
        return None
    bounded(width, height)
    channels = channels or (1 if space == "Gray" else 3)
    height, width = -(-height // ratio), -(-width // ratio)
    ask_for(height * width * channels)
    room = recycled((height, width, channels), np.uint8)
    try:
        found: Array = library.decode_jpeg(
            data,
            _GIVEN[channels],
            fastdct=not accurate,
            fastupsample=not smooth,
            min_height=height,
            min_width=width,
            min_factor=ratio,
            buffer=room,
        )
    except ValueError:
        return None
    return room if found.shape == room.shape else None


__all__ = ["decoded"]
