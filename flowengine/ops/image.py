"""Images: resizing and colours."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "AdjustContrast",
    inputs=["images: T", "contrast_factor: float", "min_value: float", "max_value: float"],
    outputs=["output: float"],
    attrs=["T: {uint8, int8, int16, int32, int64, float, double}"],
)
define(
    "AdjustContrastv2",
    inputs=["images: T", "contrast_factor: float"],
    outputs=["output: T"],
    attrs=["T: {half, float} = float"],
)
define(
    "AdjustHue",
    inputs=["images: T", "delta: float"],
    outputs=["output: T"],
    attrs=["T: {half, float} = float"],
)
define(
    "AdjustSaturation",
    inputs=["images: T", "scale: float"],
    outputs=["output: T"],
    attrs=["T: {half, float} = float"],
)
define("HSVToRGB", inputs=["images: T"], outputs=["output: T"], attrs=["T: floattype = float"])
define("RGBToHSV", inputs=["images: T"], outputs=["output: T"], attrs=["T: floattype = float"])
define(
    "ResizeArea",
    inputs=["images: T", "size: int32"],
    outputs=["resized_images: float"],
    attrs=[
        "T: {int8, uint8, int16, uint16, int32, int64, half, float, double}",
        "align_corners: bool = false",
    ],
)
define(
    "ResizeBicubic",
    inputs=["images: T", "size: int32"],
    outputs=["resized_images: float"],
    attrs=[
        "T: {int8, uint8, int16, uint16, int32, int64, half, float, double}",
        "align_corners: bool = false",
        "half_pixel_centers: bool = false",
    ],
)
define(
    "ResizeBicubicGrad",
    inputs=["grads: float", "original_image: T"],
    outputs=["output: T"],
    attrs=["T: {float, double}", "align_corners: bool = false", "half_pixel_centers: bool = false"],
)
define(
    "ResizeBilinear",
    inputs=["images: T", "size: int32"],
    outputs=["resized_images: float"],
    attrs=[
        "T: {int8, uint8, int16, uint16, int32, int64, bfloat16, half, float, double}",
        "align_corners: bool = false",
        "half_pixel_centers: bool = false",
    ],
)
define(
    "ResizeBilinearGrad",
    inputs=["grads: float", "original_image: T"],
    outputs=["output: T"],
    attrs=["T: floattype", "align_corners: bool = false", "half_pixel_centers: bool = false"],
)
define(
    "ResizeNearestNeighbor",
    inputs=["images: T", "size: int32"],
    outputs=["resized_images: T"],
    attrs=[
        "T: {int8, uint8, int16, uint16, int32, int64, half, float, double}",
        "align_corners: bool = false",
        "half_pixel_centers: bool = false",
    ],
)
define(
    "ResizeNearestNeighborGrad",
    inputs=["grads: T", "size: int32"],
    outputs=["output: T"],
    attrs=[
        "T: {uint8, int8, int32, half, float, double}",
        "align_corners: bool = false",
        "half_pixel_centers: bool = false",
    ],
)
define(
    "ScaleAndTranslate",
    inputs=["images: T", "size: int32", "scale: float", "translation: float"],
    outputs=["resized_images: float"],
    attrs=[
        "T: {int8, uint8, int16, uint16, int32, int64, bfloat16, half, float, double}",
        'kernel_type: string = "lanczos3"',
        "antialias: bool = true",
    ],
)
define(
    "ScaleAndTranslateGrad",
    inputs=["grads: T", "original_image: T", "scale: float", "translation: float"],
    outputs=["output: T"],
    attrs=["T: {float}", 'kernel_type: string = "lanczos3"', "antialias: bool = true"],
)
