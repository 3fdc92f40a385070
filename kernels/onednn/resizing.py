"""ResizeBilinear of images of bytes, such as photographs that were just decoded.

The library reads each pixel where it lies, which takes a quarter of the time that NumPy's gathers and passes
take, and releases Python's lock meanwhile. It stays on the calling thread: maps of datasets have an
image for each core.

Where pixels lie between others is computed in another order than TensorFlow's, so that values differ by what
float32 makes of positions: about 1e-7 of the image's size, times the step between two pixels. Images of
numbers are left to NumPy, for their steps are not bounded, and small ones, which take it no time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.core.buffers import in_one_piece, recycled
from flowengine.ir.graph import Node
from flowengine.kernels.image.resizing import output_size
from flowengine.kernels.onednn.library import address
from flowengine.kernels.onednn.objects import UINT8, Description, attributes, image
from flowengine.kernels.onednn.programs.preparing import prepared, required
from flowengine.kernels.onednn.programs.program import DST, SRC, one_step
from flowengine.kernels.onednn.serving import serves

_INFERENCE: Final = 96
_LINEAR: Final = 0x2FFF1
#: Elements of a result from which the library is asked.
ELEMENTS_MIN: Final = 1 << 13
#: Elements from which NumPy's kernel takes every core.
ELEMENTS_MAX: Final = 1 << 20
#: Rows and columns up to which a value is within 0.05 of what NumPy's kernel gives, of 255.
SIZE_MAX: Final = 1024


class _Resize:
    """Bilinear resizing of images of this shape, uint8 (N, H, W, C), to float32 (N, height, width, C)."""

    def __init__(self, x: tuple[int, ...], height: int, width: int, *, alone: bool) -> None:
        library = required()
        count, rows, columns, channels = x
        images = image(library, count, (rows, columns), channels, False, UINT8)
        results = image(library, count, (height, width), channels, False)
        attrs = attributes(library)
        what = Description(
            *(library, "resampling_forward", library.engine, _INFERENCE, _LINEAR, None),
            *(images.value, results.value, attrs.value),
        )
        self._program = one_step(what, alone, {SRC: images, DST: results})
        self._shape = (count, height, width, channels)

    def __call__(self, x: Array) -> Array:
        out = recycled(self._shape, np.float32)
        self._program(address(x), address(out))
        return out


#: On one core, however much it is.
_resize = prepared(_Resize, lambda *_: 0.0)


@serves("ResizeBilinear", types={"T": (dtypes.uint8,)}, one_core=True)
def resize_bilinear(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    half_pixels = bool(node.attrs["half_pixel_centers"]) and not node.attrs["align_corners"]
    if not half_pixels:
        return otherwise

    def compute(images: Array, size: Array) -> Any:
        height, width = output_size(images, size)
        count, rows, columns, channels = images.shape
        if (
            max(rows, columns, height, width) > SIZE_MAX
            or not ELEMENTS_MIN <= math.prod((count, height, width, channels)) < ELEMENTS_MAX
            or (rows, columns) == (height, width)
        ):
            return otherwise(images, size)
        layer = _resize(images.shape, height, width)
        return otherwise(images, size) if layer is None else layer(in_one_piece(images))

    return compute


__all__ = ["ELEMENTS_MAX", "ELEMENTS_MIN", "SIZE_MAX", "resize_bilinear"]
