"""Boxes in images: crops of them, and boxes drawn."""

from __future__ import annotations

from flowengine.core.shapes import TensorShape, unknown_of_rank
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import at_least, dims_of, like_input, merge_dims, ranked

# Boxes in images: crops of them, resized.


@define(
    "CropAndResize(image: T, boxes: float, box_ind, crop_size: int32) -> crops: float",
    "T: {uint8, uint16, int8, int16, int32, int64, half, float, double}",
    "method: {'bilinear', 'nearest'} = 'bilinear'; extrapolation_value: float = 0.0",
)
def crop_and_resize(c: ShapeContext) -> Shapes:
    """(N, H, W, C), boxes (n, 4), which image each, (height, width) -> (n, height, width, C)"""
    depth = ranked(c, 0, 4)[3]
    count = merge_dims(ranked(c, 1, 2)[0], ranked(c, 2, 1)[0], "The number of boxes and of their images")
    size = c.input_as_shape(3)
    height, width = size.dims if size.dims is not None and len(size.dims) == 2 else (None, None)
    return [TensorShape([count, height, width, depth])]


@define(
    "CropAndResizeGradImage(grads, boxes: float, box_ind, image_size: int32) -> output: T",
    "T: {float, half, double}; method: {'bilinear', 'nearest'} = 'bilinear'",
)
def crop_grad_image(c: ShapeContext) -> Shapes:
    shape = c.input_as_shape(3)
    return [shape if shape.rank == 4 else unknown_of_rank(4)]


define(
    "CropAndResizeGradBoxes(grads: float, image: T, boxes: float, box_ind: int32) -> output: float",
    "T: {uint8, uint16, int8, int16, int32, int64, half, float, double}; method: {'bilinear'} = 'bilinear'",
    shape=like_input(2),
)


# Boxes drawn into images.

define(
    "DrawBoundingBoxes(images: T, boxes: float) -> output: T",
    "T: {float, half} = float",
    NotDifferentiable(),
    shape=at_least(3),
)
define(
    "DrawBoundingBoxesV2(images: T, boxes, colors: float) -> output: T",
    "T: {float, half} = float",
    NotDifferentiable(),
    shape=at_least(3),
)


# Boxes of one kind matched with boxes of another.


@define(
    "BipartiteMatch(distance_mat, num_valid_rows: float) "
    "-> row_to_col_match_indices, col_to_row_match_indices: int32",
    "stateful; top_k: int = -1",
    NotDifferentiable(),
)
def bipartite_match(c: ShapeContext) -> Shapes:
    """(R, C) -> the column of each row, the row of each column"""
    rows, columns = dims_of(ranked(c, 0, 2), 2)
    return [TensorShape([rows]), TensorShape([columns])]
