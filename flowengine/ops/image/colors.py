"""Colours of images: hue, saturation, contrast."""

from __future__ import annotations

from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import at_least, merge_dims, ranked_at_least, replace_dim


@define("HSVToRGB(images: T) -> output: T", "T: floattype = float", NotDifferentiable())
@define("RGBToHSV(images: T) -> output: T", "T: floattype = float")
def colours(c: ShapeContext) -> Shapes:
    shape = ranked_at_least(c, 0, 1)
    return [replace_dim(shape, -1, merge_dims(shape[-1], 3, "The channels and 3"))]


define(
    "AdjustContrast(images: T, contrast_factor, min_value, max_value: float) -> output: float",
    "T: {uint8, int8, int16, int32, int64, float, double}",
    shape=at_least(3),
)
define(
    "AdjustContrastv2(images: T, contrast_factor: float) -> output: T",
    "T: {half, float} = float",
    shape=at_least(3),
)
define("AdjustHue(images: T, delta: float) -> output: T", "T: {half, float} = float", shape=at_least(3))
define(
    "AdjustSaturation(images: T, scale: float) -> output: T", "T: {half, float} = float", shape=at_least(3)
)
define(
    "AdjustHsvInYiq, Addons>AdjustHsvInYiq(images: T, delta_h, scale_s, scale_v: float) -> output: T",
    "T: {uint8, int8, int16, int32, int64, half, float, double}",
    shape=at_least(3),
)
