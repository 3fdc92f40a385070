"""Images in files, decoded and encoded."""

from __future__ import annotations

from flowengine.core.arrays import to_array
from flowengine.core.shapes import SCALAR, UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import merge_dims, ranked, scalars, vector


@define("DecodeBmp(contents: string) -> image: uint8", "channels: int = 0", NotDifferentiable())
@define(
    "DecodeJpeg(contents: string) -> image: uint8",
    "channels: int = 0; ratio: int = 1; fancy_upscaling: bool = true; try_recover_truncated: bool = false",
    "acceptable_fraction: float = 1.0; dct_method: string = ''",
    NotDifferentiable(),
)
@define(
    "DecodePng(contents: string) -> image: dtype",
    "channels: int = 0; dtype: {uint8, uint16} = uint8",
    NotDifferentiable(),
)
def decode_image(c: ShapeContext) -> Shapes:
    """A string -> (height, width, channels)"""
    ranked(c, 0, 0)
    return [TensorShape([None, None, c.attrs["channels"] or None])]


@define(
    "DecodeAndCropJpeg(contents: string, crop_window: int32) -> image: uint8",
    "channels: int = 0; ratio: int = 1; fancy_upscaling: bool = true; try_recover_truncated: bool = false",
    "acceptable_fraction: float = 1.0; dct_method: string = ''",
    NotDifferentiable(),
)
def decode_and_crop(c: ShapeContext) -> Shapes:
    ranked(c, 0, 0)
    window = c.input_value(1)
    merge_dims(ranked(c, 1, 1)[0], 4, "The length of crop_window and 4")
    height, width = (None, None) if window is None else to_array(window).tolist()[2:]
    return [TensorShape([height, width, c.attrs["channels"] or None])]


@define(
    "DecodeImage(contents: string) -> image: dtype",
    "channels: int = 0; dtype: {uint8, uint16, float} = uint8; expand_animations: bool = true",
    NotDifferentiable(),
)
def decode_any_image(c: ShapeContext) -> Shapes:
    """A string -> (height, width, channels), or (frames, height, width, channels) where it is a GIF"""
    ranked(c, 0, 0)
    if c.attrs["expand_animations"]:
        return [UNKNOWN_SHAPE]
    return [TensorShape([None, None, c.attrs["channels"] or None])]


@define(
    "DecodeWebP(contents: string) -> image: dtype",
    "channels: int = 0; dtype: {uint8} = uint8",
    NotDifferentiable(),
)
def decode_webp(c: ShapeContext) -> Shapes:
    """A string -> (frames, height, width, channels), of other formats also without frames"""
    ranked(c, 0, 0)
    return [UNKNOWN_SHAPE]


@define("DecodeGif(contents: string) -> image: uint8", NotDifferentiable())
def decode_gif(c: ShapeContext) -> Shapes:
    """A string -> (frames, height, width, 3)"""
    ranked(c, 0, 0)
    return [TensorShape([None, None, None, 3])]


@define(
    "EncodeJpeg(image: uint8) -> contents: string",
    "format: {'', 'grayscale', 'rgb'} = ''; quality: int = 95; progressive, optimize_size: bool = false",
    "chroma_downsampling: bool = true; density_unit: {'in', 'cm'} = 'in'; x_density, y_density: int = 300",
    "xmp_metadata: string = ''",
    NotDifferentiable(),
)
@define(
    "EncodePng(image: T) -> contents: string",
    "compression: int = -1; T: {uint8, uint16} = uint8",
    NotDifferentiable(),
)
def encode_image(c: ShapeContext) -> Shapes:
    ranked(c, 0, 3)
    return [SCALAR]


define(
    "EncodeJpegVariableQuality(images: uint8, quality: int32) -> contents: string",
    NotDifferentiable(),
    shape=scalars,
)


@define(
    "ExtractJpegShape(contents: string) -> image_shape: output_type",
    "output_type: indextype = int32",
    NotDifferentiable(),
)
def jpeg_shape(c: ShapeContext) -> Shapes:
    ranked(c, 0, 0)
    return [vector(3)]
