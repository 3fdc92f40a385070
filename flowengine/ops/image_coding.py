"""Images: file formats."""

from __future__ import annotations

from flowengine.ops.registry import define

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
)
define("DecodeBmp", inputs=["contents: string"], outputs=["image: uint8"], attrs=["channels: int = 0"])
define("DecodeGif", inputs=["contents: string"], outputs=["image: uint8"])
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
)
define(
    "DecodePng",
    inputs=["contents: string"],
    outputs=["image: dtype"],
    attrs=["channels: int = 0", "dtype: {uint8, uint16} = uint8"],
)
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
)
define("EncodeJpegVariableQuality", inputs=["images: uint8", "quality: int32"], outputs=["contents: string"])
define(
    "EncodePng",
    inputs=["image: T"],
    outputs=["contents: string"],
    attrs=["compression: int = -1", "T: {uint8, uint16} = uint8"],
)
define(
    "ExtractJpegShape",
    inputs=["contents: string"],
    outputs=["image_shape: output_type"],
    attrs=["output_type: {int32, int64} = int32"],
)
