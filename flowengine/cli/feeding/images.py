"""Image files as tensors: uint8, (height, width, channels), resized where the tensor's size is fixed.

The orientation that a camera notes in EXIF is ignored, because TensorFlow's decoders ignore it. Several
files, of a pattern such as `*.png`, are a batch in the order of their names.
"""

from __future__ import annotations

import glob
import io
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from flowengine.cli.failure import BAD_FEED, CommandError, printable
from flowengine.core.shapes import TensorShape

IMAGE_SUFFIXES: Final = frozenset(
    {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm"}
)
_MAGIC: Final = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"BM", b"GIF8", b"RIFF", b"II*\0", b"MM\0*", b"P5", b"P6")

#: What an image is converted to for a tensor with this many channels.
_MODES: Final = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
#: The EXIF tag of the orientation, and the orientation of a picture that is not turned.
_ORIENTATION: Final = 0x0112
_UPRIGHT: Final = 1
#: Dimensions of a tensor of one image, and of a batch.
_IMAGE_RANK: Final = 3
_BATCH_RANK: Final = 4


@dataclass(frozen=True, slots=True)
class ImageOptions:
    """The changes to images that the user asked for.

    size     (height, width) to resize to, bilinearly; None for the size of the tensor, where it is fixed
    scale    multiplied with every value; offset is then added. Either turns the values into float32
    """

    size: tuple[int, int] | None = None
    scale: float | None = None
    offset: float | None = None


def is_image(data: bytes) -> bool:
    """Whether these bytes begin like an image file."""
    return data.startswith(_MAGIC)


def matching_files(source: str) -> list[str] | None:
    """Return the image files that a pattern such as `photos/*.png` means, sorted; None for any other source.

    A file whose name has the pattern's characters in it is not a pattern.
    """
    is_pattern = glob.has_magic(source) and os.path.splitext(source)[1].lower() in IMAGE_SUFFIXES
    return sorted(glob.glob(source)) if is_pattern and not os.path.exists(source) else None


def read_image(data: bytes, shape: TensorShape, options: ImageOptions, source: str = "-") -> Any:
    """The image as (H, W, C), or (1, H, W, C) for a tensor of rank 4.

    data      the bytes of the file
    shape     the tensor's partial shape: its last dimension, if known, says how many channels it wants, and
              its height and width, if both are known, the size. A line on standard error says so
    source    what messages call the file
    returns   uint8; float32 where `options` scale or shift

    Raises CommandError where Pillow is missing, and ValueError where the file is damaged or no image.
    """
    try:
        from PIL import Image
    except ImportError:
        raise CommandError("reading an image needs Pillow: pip install 'pillow>=10.3'", BAD_FEED) from None
    is_image_shape = shape.dims is not None and len(shape.dims) in (_IMAGE_RANK, _BATCH_RANK)
    wanted = shape.dims[-3:] if shape.dims is not None and is_image_shape else (None, None, None)
    try:
        with Image.open(io.BytesIO(data)) as opened:
            mode = _MODES.get(wanted[-1] or 0) or ("L" if opened.mode in ("1", "L") else "RGB")
            turned = opened.getexif().get(_ORIENTATION, _UPRIGHT)
            image = opened.convert(mode)
            if turned != _UPRIGHT:
                _say(f"{source}: its EXIF orientation ({turned}) is ignored, as TensorFlow's decoders do")
            size = options.size
            if size is None and wanted[0] and wanted[1] and (image.height, image.width) != wanted[:2]:
                size = (wanted[0], wanted[1])
                _say(f"{source}: resized from {image.height}x{image.width} to {size[0]}x{size[1]} (bilinear)")
            if size is not None:
                image = image.resize((size[1], size[0]), Image.Resampling.BILINEAR)
            array = np.asarray(image)
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"no image can be read from it ({error})") from error
    if array.ndim == 2:
        array = array[:, :, np.newaxis]
    if options.scale is not None or options.offset is not None:
        scale, offset = np.float32(options.scale or 1.0), np.float32(options.offset or 0.0)
        array = array.astype(np.float32) * scale + offset
    return array[np.newaxis] if shape.rank == _BATCH_RANK else array


def read_images(paths: Sequence[str], shape: TensorShape, options: ImageOptions) -> Any:
    """The images of several files as (N, H, W, C).

    Raises ValueError where their sizes differ, or where the tensor takes a single image.
    """
    if shape.rank == _IMAGE_RANK:
        raise ValueError(f"{len(paths)} files are a batch, and the tensor {shape} takes one image")
    rows = []
    for path in paths:
        with open(path, "rb") as file:
            try:
                row = read_image(file.read(), shape, options, path)
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from error
        rows.append(row[0] if row.ndim == _BATCH_RANK else row)
    for path, row in zip(paths, rows, strict=True):
        if row.shape != rows[0].shape:
            one, other = ("x".join(map(str, each.shape)) for each in (rows[0], row))
            raise ValueError(f"{paths[0]} is {one} and {path} {other}: add --image-size HxW")
    return np.stack(rows)


def _say(line: str) -> None:
    print(printable(line), file=sys.stderr, flush=True)


__all__ = ["IMAGE_SUFFIXES", "ImageOptions", "is_image", "matching_files", "read_image", "read_images"]
