"""Boxes drawn into images."""

from __future__ import annotations

from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import at_least

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
