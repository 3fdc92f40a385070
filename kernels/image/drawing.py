"""Boxes drawn into images, one pixel wide."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.registry import kernel

HOST: Final = "what is drawn depends on the boxes' values, one box over another"

#: Red, green, blue and opacity of one box after another, from the first again after the last.
_COLORS: Final = np.array(
    [
        [1, 1, 0, 1],
        [0, 0, 1, 1],
        [1, 0, 0, 1],
        [0, 1, 0, 1],
        [0.5, 0, 0.5, 1],
        [0.5, 0.5, 0, 1],
        [0.5, 0, 0, 1],
        [0, 0, 0.5, 1],
        [0, 1, 1, 1],
        [1, 0, 1, 1],
    ],
    np.float32,
)


def _cost(images: Array, boxes: Array, *_: Array) -> float:
    """Microseconds: about 8 a box, and the copy."""
    return 8.0 * boxes.size / 4 + 0.001 * images.size


@kernel("DrawBoundingBoxes", fresh=True, heavy=_cost)
def draw_bounding_boxes(images: Array, boxes: Array) -> Any:
    """Images (N, H, W, 1, 3 or 4) with boxes (N, n, 4) of (y1, x1, y2, x2), 0 to 1, in ten colours."""
    return _drawn(images, boxes, _COLORS)


@kernel("DrawBoundingBoxesV2", fresh=True, heavy=_cost)
def draw_bounding_boxes_v2(images: Array, boxes: Array, colors: Array) -> Any:
    """As DrawBoundingBoxes, in colours of one's own (colours, channels), where there are any."""
    if colors.ndim != 2:
        raise InvalidArgumentError(f"colors must be a 2-D matrix, got {shape_text(colors)}")
    if images.ndim == 4 and colors.shape[1] < images.shape[3]:
        raise InvalidArgumentError(
            f"colors must have equal or more channels than the images, {shape_text(colors)} for "
            f"{shape_text(images)}"
        )
    return _drawn(images, boxes, colors if len(colors) else _COLORS)


def _drawn(images: Array, boxes: Array, colors: Array) -> Array:
    if images.ndim != 4:
        raise InvalidArgumentError(f"The rank of the images should be 4, not {shape_text(images)}")
    if boxes.ndim != 3 or boxes.shape[2] != 4:
        raise InvalidArgumentError(f"boxes must be (N, boxes, 4), not {shape_text(boxes)}")
    if len(boxes) != len(images):
        raise InvalidArgumentError(f"The batch sizes should be the same: {len(images)}, {len(boxes)}")
    _, height, width, depth = images.shape
    if depth not in (1, 3, 4):
        raise InvalidArgumentError(
            f"Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA), not {depth}"
        )
    inks = colors[:, :depth].astype(images.dtype)
    if depth == 1 and colors is _COLORS:
        inks[:, 0] = 1
    out = images.copy()
    edges = np.array([height - 1, width - 1] * 2, np.float32)
    for image, rows in zip(out, (boxes.astype(np.float32) * edges).tolist(), strict=True):
        for index, corners in enumerate(rows):
            _draw(image, [_whole(corner) for corner in corners], inks[index % len(inks)])
    return out


def _whole(corner: float) -> int:
    """Without what is behind the point; what an int64 cannot hold is far to the left or above."""
    return math.trunc(corner) if abs(corner) < 2**63 else -(2**63)


def _draw(image: Array, corners: list[int], ink: Array) -> None:
    """One box, as far as it lies in the image."""
    top, left, bottom, right = corners
    height, width, _ = image.shape
    if top > bottom or left > right or top >= height or bottom < 0 or left >= width or right < 0:
        return
    rows, columns = slice(max(top, 0), bottom + 1), slice(max(left, 0), right + 1)
    if top >= 0:
        image[top, columns] = ink
    if bottom < height:
        image[bottom, columns] = ink
    if left >= 0:
        image[rows, left] = ink
    if right < width:
        image[rows, right] = ink
