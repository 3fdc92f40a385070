"""Boxes in images: crops of them, and boxes drawn."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, OutOfRangeError
from flowengine.kernels.common.checks import refuse
from flowengine.kernels.common.costs import elements_of
from flowengine.kernels.common.segment_sums import add_rows
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.numpy.order.library_sort import pop_heap, push_heap
from flowengine.kernels.registry import kernel

# Boxes in images: crops resized to one size, and their gradients.
#
# A box is (y1, x1, y2, x2). For crops it is in units of the image, 0 to 1 from its first to its last pixel.


def _check_boxes(boxes: Array, box_ind: Array, batch: int) -> None:
    if boxes.size == 0 and box_ind.size == 0 and boxes.ndim == 2:
        return
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise InvalidArgumentError(f"boxes must be 2-D with 4 columns, not {shape_text(boxes)}")
    if box_ind.ndim != 1 or box_ind.shape[0] != boxes.shape[0]:
        raise InvalidArgumentError(
            f"box_ind must be a vector with an entry for each box, not {shape_text(box_ind)}"
        )
    if box_ind.size:
        refuse(
            ((box_ind < 0) | (box_ind >= batch)).any(),
            lambda: OutOfRangeError(f"box_ind has values outside [0, {batch})"),
        )


def crop_cost(image: Array, boxes: Array, box_ind: Array, crop_size: Array) -> float:
    return float(boxes.shape[0] * elements_of(crop_size) * image.shape[-1] * 0.02)


def checked_crop_size(image: Array, boxes: Array, box_ind: Array, crop_size: Array) -> tuple[int, int]:
    """(height, width) of the crops; errors where images, boxes or sizes are none."""
    if image.ndim != 4:
        raise InvalidArgumentError(f"input image must be 4-D, not {shape_text(image)}")
    batch, height, width, _ = image.shape
    if height <= 0 or width <= 0:
        raise InvalidArgumentError("image dimensions must be positive")
    _check_boxes(boxes, box_ind, batch)
    if crop_size.ndim != 1 or crop_size.shape[0] != 2:
        raise InvalidArgumentError(f"crop_size must be 1-D with two elements, not {shape_text(crop_size)}")
    rows, columns = crop_size.tolist()
    if rows <= 0 or columns <= 0:
        raise InvalidArgumentError(f"crop dimensions must be positive, not {rows} x {columns}")
    return rows, columns


def _positions(xp: Any, low: Array, high: Array, count: int, size: int) -> Any:
    """Return each row's (or column's) position in the image, of the crops: float32 (boxes, count)."""
    edge = np.float32(size - 1)
    if count > 1:
        scale = (high - low) * edge / np.float32(count - 1)
        return (low * edge)[:, None] + xp.arange(count, dtype=np.float32) * scale[:, None]
    return (np.float32(0.5) * (low + high) * edge)[:, None]


@kernel("CropAndResize", fresh=True, heavy=crop_cost, host=("crop_size",))
def crop_and_resize(
    xp: Any,
    image: Array,
    boxes: Array,
    box_ind: Array,
    crop_size: Array,
    *,
    method: bytes,
    extrapolation_value: float,
) -> Any:
    """Cut boxes out of (N, H, W, C) and resize them; returns float32 (boxes, height, width, C).

    What lies outside of the image is `extrapolation_value`. OutOfRangeError where `box_ind` names no
    image.
    """
    rows, columns = checked_crop_size(image, boxes, box_ind, crop_size)
    _, height, width, depth = image.shape
    if not boxes.size:
        return xp.zeros((boxes.shape[0], rows, columns, depth), np.float32)
    y = _positions(xp, boxes[:, 0], boxes[:, 2], rows, height)
    x = _positions(xp, boxes[:, 1], boxes[:, 3], columns, width)
    inside = ((y >= 0) & (y <= height - 1))[:, :, None, None] & ((x >= 0) & (x <= width - 1))[
        :, None, :, None
    ]
    y, x = xp.clip(y, 0, height - 1), xp.clip(x, 0, width - 1)
    source = box_ind[:, None, None]

    def picked(down: Array, across: Array) -> Any:
        return image[source, down.astype(np.int64)[:, :, None], across.astype(np.int64)[:, None, :]].astype(
            np.float32
        )

    if method == b"nearest":
        value = picked(xp.floor(y + 0.5), xp.floor(x + 0.5))
    else:
        top, left = xp.floor(y), xp.floor(x)
        down, across = (y - top)[:, :, None, None], (x - left)[:, None, :, None]
        bottom, right = xp.ceil(y), xp.ceil(x)
        upper, lower = picked(top, left), picked(bottom, left)
        upper = upper + (picked(top, right) - upper) * across
        lower = lower + (picked(bottom, right) - lower) * across
        value = upper + (lower - upper) * down
    return xp.where(inside, value, np.float32(extrapolation_value))


def _places(xp: Any, boxes: Array, crops: tuple[int, int], image: tuple[int, int]) -> tuple[Any, Any, Any]:
    """Rows (boxes, height) and columns (boxes, width), kept in the image, and which were inside."""
    y = _positions(xp, boxes[:, 0], boxes[:, 2], crops[0], image[0])
    x = _positions(xp, boxes[:, 1], boxes[:, 3], crops[1], image[1])
    inside = ((y >= 0) & (y <= image[0] - 1))[:, :, None] & ((x >= 0) & (x <= image[1] - 1))[:, None, :]
    return xp.clip(y, 0, image[0] - 1), xp.clip(x, 0, image[1] - 1), inside[..., None]


def _check_grads(grads: Array, boxes: Array, box_ind: Array, image_shape: tuple[int, ...]) -> None:
    if grads.ndim != 4:
        raise InvalidArgumentError(f"grads image must be 4-D, not {shape_text(grads)}")
    if grads.shape[1] <= 0 or grads.shape[2] <= 0:
        raise InvalidArgumentError("grads dimensions must be positive")
    batch, height, width, depth = image_shape
    if height <= 0 or width <= 0:
        raise InvalidArgumentError("image dimensions must be positive")
    _check_boxes(boxes, box_ind, batch)
    if len(grads) != len(boxes) or grads.shape[3] != depth:
        raise InvalidArgumentError(
            f"grads of {shape_text(grads)} do not fit {len(boxes)} boxes and images of {depth} channels"
        )


@kernel("CropAndResizeGradImage", fresh=True, host=("image_size",))
def crop_and_resize_grad_image(
    xp: Any,
    grads: Array,
    boxes: Array,
    box_ind: Array,
    image_size: Array,
    *,
    T: DType,
    method: bytes,
) -> Any:
    """The gradient of CropAndResize with regard to images of (N, H, W, C)."""
    if image_size.ndim != 1 or image_size.shape[0] != 4:
        raise InvalidArgumentError(f"image_size must be 1-D with 4 elements, not {shape_text(image_size)}")
    batch, height, width, depth = image_size.tolist()
    _check_grads(grads, boxes, box_ind, (batch, height, width, depth))
    out = xp.zeros((batch * height * width, depth), T.as_numpy_dtype)
    if not grads.size:
        return out.reshape(batch, height, width, depth)
    y, x, inside = _places(xp, boxes, (grads.shape[1], grads.shape[2]), (height, width))
    spread = xp.where(inside, grads, np.float32(0)).astype(out.dtype, copy=False)
    source = (xp.clip(box_ind, 0, batch - 1).astype(np.int64) * height)[:, None, None]

    def add(down: Array, across: Array, shares: Any) -> None:
        rows = source + down.astype(np.int64)[:, :, None]
        where = rows * width + across.astype(np.int64)[:, None, :]
        add_rows(xp, out, where.reshape(-1), (spread * shares).reshape(-1, depth))

    if method == b"nearest":
        add(xp.floor(y + np.float32(0.5)), xp.floor(x + np.float32(0.5)), out.dtype.type(1))
    else:
        top, left = xp.floor(y), xp.floor(x)
        down = (y - top)[:, :, None, None].astype(out.dtype)
        across = (x - left)[:, None, :, None].astype(out.dtype)
        add(top, left, (1 - down) * (1 - across))
        add(top, xp.ceil(x), (1 - down) * across)
        add(xp.ceil(y), left, down * (1 - across))
        add(xp.ceil(y), xp.ceil(x), down * across)
    return out.reshape(batch, height, width, depth)


@kernel("CropAndResizeGradBoxes", fresh=True)
def crop_and_resize_grad_boxes(xp: Any, grads: Array, image: Array, boxes: Array, box_ind: Array) -> Any:
    """The gradient of CropAndResize with regard to the boxes, float32 (boxes, 4)."""
    if image.ndim != 4:
        raise InvalidArgumentError(f"input image must be 4-D, not {shape_text(image)}")
    batch, height, width, depth = image.shape
    _check_grads(grads, boxes, box_ind, (batch, height, width, depth))
    if not grads.size:
        return xp.zeros((len(boxes), 4), np.float32)
    crops = (grads.shape[1], grads.shape[2])
    y, x, inside = _places(xp, boxes, crops, (height, width))
    top, left, bottom, right = xp.floor(y), xp.floor(x), xp.ceil(y), xp.ceil(x)
    down, across = (y - top)[:, :, None, None], (x - left)[:, None, :, None]
    source = xp.clip(box_ind, 0, batch - 1)[:, None, None]

    def picked(rows: Array, columns: Array) -> Any:
        chosen = image[source, rows.astype(np.int64)[:, :, None], columns.astype(np.int64)[:, None, :]]
        return chosen.astype(np.float32)

    upper_left, upper_right = picked(top, left), picked(top, right)
    lower_left, lower_right = picked(bottom, left), picked(bottom, right)
    spread = xp.where(inside, grads, np.float32(0))
    along_y = spread * ((1 - across) * (lower_left - upper_left) + across * (lower_right - upper_right))
    along_x = spread * ((1 - down) * (upper_right - upper_left) + down * (lower_right - lower_left))
    y1, y2 = _of_ends(xp, along_y.sum((2, 3)), crops[0], height)
    x1, x2 = _of_ends(xp, along_x.sum((1, 3)), crops[1], width)
    return xp.stack([y1, x1, y2, x2], axis=1)


def _of_ends(xp: Any, slopes: Any, count: int, size: int) -> tuple[Any, Any]:
    """Convert slopes along one side (boxes, count) to those of its first and its last end."""
    edge = np.float32(size - 1)
    if count == 1:
        half = slopes[:, 0] * (np.float32(0.5) * edge)
        return half, half
    far = xp.arange(count, dtype=np.float32) * (edge / np.float32(count - 1))
    return (slopes * (edge - far)).sum(1), (slopes * far).sum(1)


# Boxes drawn into images, one pixel wide.

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


# Boxes of one kind matched with boxes of another, the nearest first.


def _least_first(distances: Array) -> Iterator[int]:
    """Yield the places of distances from the least up, of equal ones as TensorFlow's heap gives them."""
    places = np.argsort(distances)
    rising = distances[places]
    if (rising[1:] > rising[:-1]).all():
        yield from places.tolist()
        return
    values: list[float] = distances.tolist()
    heap: list[int] = []

    def less(a: int, b: int) -> bool:
        return values[b] < values[a]

    for place in range(len(values)):
        heap.append(place)
        push_heap(heap, less)
    while heap:
        yield heap[0]
        pop_heap(heap, less)
        heap.pop()


@kernel("BipartiteMatch", fresh=True, host=("distance_mat", "num_valid_rows"))
def bipartite_match(xp: Any, distances: Array, num_valid_rows: Any, *, top_k: int) -> Any:
    """Match rows of (R, C) with columns, one to one, the least distance first; -1 for what is left.

    num_valid_rows   rows beyond these are not matched; all are where it is negative
    top_k            matches at most; as many as there can be where it is not positive
    Equal distances come in the order in which TensorFlow's heap gives them.
    """
    if distances.ndim != 2:
        raise InvalidArgumentError(f"distance_mat should be 2-dimensional, not {shape_text(distances)}")
    if getattr(num_valid_rows, "size", 1) != 1:
        raise InvalidArgumentError(f"num_valid_rows should be 1 element, not {shape_text(num_valid_rows)}")
    rows, columns = distances.shape
    wanted = float(np.asarray(num_valid_rows).reshape(-1)[0])
    valid = rows if wanted < 0 else int(np.float32(wanted) + 0.1)
    if valid > rows:
        raise InvalidArgumentError(
            f"There should be at least {valid} rows in distance_mat, but only got {rows} rows."
        )
    left = min(valid, columns) if top_k <= 0 else min(valid, columns, top_k)
    column_of, row_of = np.full(rows, -1, np.int32), np.full(columns, -1, np.int32)
    for place in _least_first(distances[:valid].reshape(-1)):
        if not left:
            break
        row, column = divmod(place, columns)
        if column_of[row] < 0 and row_of[column] < 0:
            column_of[row], row_of[column] = column, row
            left -= 1
    return xp.asarray(column_of), xp.asarray(row_of)
