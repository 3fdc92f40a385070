"""Images: file formats."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.arrays import to_array
from flowengine.core.shapes import SCALAR, TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import merge_dims, ranked, scalars, vector


def decode_image(c: ShapeContext) -> Sequence[TensorShape]:
    """A string -> (height, width, channels)"""
    ranked(c, 0, 0)
    return [TensorShape([None, None, c.attrs["channels"] or None])]


define(
    "DecodeBmp",
    inputs=["contents: string"],
    outputs=["image: uint8"],
    attrs=["channels: int = 0"],
    shape=decode_image,
)
define(
    "DecodeJpeg",
    inputs=["contents: string"],
    outputs=["image: uint8"],
    attrs=[
        "channels: int = 0",
        "ratio: int = 1",
        "fancy_upscaling: bool = true",
        "try_recover_truncated: bool = false",
        "acceptable_fraction: float = 1.0",
        'dct_method: string = ""',
    ],
    shape=decode_image,
)
define(
    "DecodePng",
    inputs=["contents: string"],
    outputs=["image: dtype"],
    attrs=["channels: int = 0", "dtype: {uint8, uint16} = uint8"],
    shape=decode_image,
)


def decode_and_crop(c: ShapeContext) -> Sequence[TensorShape]:
    ranked(c, 0, 0)
    window = c.input_value(1)
    merge_dims(ranked(c, 1, 1)[0], 4, "The length of crop_window and 4")
    height, width = (None, None) if window is None else to_array(window).tolist()[2:]
    return [TensorShape([height, width, c.attrs["channels"] or None])]


define(
    "DecodeAndCropJpeg",
    inputs=["contents: string", "crop_window: int32"],
    outputs=["image: uint8"],
    attrs=[
        "channels: int = 0",
        "ratio: int = 1",
        "fancy_upscaling: bool = true",
        "try_recover_truncated: bool = false",
        "acceptable_fraction: float = 1.0",
        'dct_method: string = ""',
    ],
    shape=decode_and_crop,
)


def decode_gif(c: ShapeContext) -> Sequence[TensorShape]:
    """A string -> (frames, height, width, 3)"""
    ranked(c, 0, 0)
    return [TensorShape([None, None, None, 3])]


define("DecodeGif", inputs=["contents: string"], outputs=["image: uint8"], shape=decode_gif)


def encode_image(c: ShapeContext) -> Sequence[TensorShape]:
    ranked(c, 0, 3)
    return [SCALAR]


define(
    "EncodeJpeg",
    inputs=["image: uint8"],
    outputs=["contents: string"],
    attrs=[
        "format: {'', 'grayscale', 'rgb'} = \"\"",
        "quality: int = 95",
        "progressive: bool = false",
        "optimize_size: bool = false",
        "chroma_downsampling: bool = true",
        "density_unit: {'in', 'cm'} = \"in\"",
        "x_density: int = 300",
        "y_density: int = 300",
        'xmp_metadata: string = ""',
    ],
    shape=encode_image,
)
define(
    "EncodePng",
    inputs=["image: T"],
    outputs=["contents: string"],
    attrs=["compression: int = -1", "T: {uint8, uint16} = uint8"],
    shape=encode_image,
)
define(
    "EncodeJpegVariableQuality",
    inputs=["images: uint8", "quality: int32"],
    outputs=["contents: string"],
    shape=scalars,
)


def jpeg_shape(c: ShapeContext) -> Sequence[TensorShape]:
    ranked(c, 0, 0)
    return [vector(3)]


define(
    "ExtractJpegShape",
    inputs=["contents: string"],
    outputs=["image_shape: output_type"],
    attrs=["output_type: {int32, int64} = int32"],
    shape=jpeg_shape,
)
