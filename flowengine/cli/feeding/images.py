"""Image files as tensors: uint8, (height, width, channels), neither scaled nor resized unless asked."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from flowengine.cli.failure import BAD_FEED, CommandError
from flowengine.core.shapes import TensorShape

IMAGE_SUFFIXES: Final = frozenset(
    {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm"}
)
_MAGIC: Final = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"BM", b"GIF8", b"RIFF", b"II*\0", b"MM\0*", b"P5", b"P6")

#: What an image is converted to for a tensor with this many channels.
_MODES: Final = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}


@dataclass(frozen=True, slots=True)
class ImageOptions:
    """The changes to images that the user asked for.

    size     (height, width) to resize to, bilinearly, or None
    scale    multiplied with every value; offset is then added. Either turns the values into float32
    """

    size: tuple[int, int] | None = None
    scale: float | None = None
    offset: float | None = None


def is_image(data: bytes) -> bool:
    """Whether these bytes begin like an image file."""
    return data.startswith(_MAGIC)


def read_image(data: bytes, shape: TensorShape, options: ImageOptions) -> Any:
    """The image as (H, W, C), or (1, H, W, C) for a tensor of rank 4.

    data      the bytes of the file
    shape     the tensor's partial shape: its last dimension, if known, says how many channels it wants
    returns   uint8; float32 where `options` scale or shift

    Raises CommandError where Pillow is missing, and ValueError where the file is damaged or no image.
    """
    try:
        from PIL import Image
    except ImportError:
        raise CommandError("reading an image needs Pillow: pip install 'pillow>=10.3'", BAD_FEED) from None
    wanted_channels = shape.dims[-1] if shape.dims is not None and len(shape.dims) in (3, 4) else None
    try:
        with Image.open(io.BytesIO(data)) as opened:
            mode = _MODES.get(wanted_channels or 0) or ("L" if opened.mode in ("1", "L") else "RGB")
            image = opened.convert(mode)
            if options.size is not None:
                height, width = options.size
                image = image.resize((width, height), Image.Resampling.BILINEAR)
            array = np.asarray(image)
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"no image can be read from it ({error})") from error
    if array.ndim == 2:
        array = array[:, :, np.newaxis]
    if options.scale is not None or options.offset is not None:
        scale, offset = np.float32(options.scale or 1.0), np.float32(options.offset or 0.0)
        array = array.astype(np.float32) * scale + offset
    return array[np.newaxis] if shape.rank == 4 else array
