"""Images in files: PNG, JPEG and GIF through Pillow, which is imported on first use; BMP and the writing
of PNG by hand.

As in TensorFlow, the ops that decode PNG, JPEG and GIF tell by the contents which of them it is. JPEG is
decoded as in `jpeg.py`; where there is Pillow alone, with the accurate transform whatever `dct_method` says,
so that values may differ by a few.
"""

from __future__ import annotations

import functools
import io
import struct
import zlib
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.accounting import ask_for
from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import (
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    ResourceExhaustedError,
)
from flowengine.ir.graph import Node
from flowengine.kernels.image import gif, jpeg, png
from flowengine.kernels.image.jpeg import JpegOptions
from flowengine.kernels.registry import kernel

#: Pixels of one image, over all of its frames.
PIXELS_MAX: Final = 2**26

#: What Pillow raises for damaged files, from its own decoders and from Python's functions under them.
_DAMAGE: Final = (
    OSError,
    ValueError,
    SyntaxError,
    EOFError,
    IndexError,
    KeyError,
    TypeError,
    OverflowError,
    struct.error,
    zlib.error,
)

_MODES: Final = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
_JPEG: Final = jpeg.SIGNATURE
_GIF: Final = b"GIF8"
_FORMATS: Final = ((png.SIGNATURE, "PNG"), (_JPEG, "JPEG"), (_GIF, "GIF"))


@functools.cache
def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise FailedPreconditionError(
            "decoding and encoding images needs Pillow: pip install 'pillow>=10.3'"
        ) from None
    return Image


def _cost(contents: Any, *_: Any) -> float:
    """Microseconds: a byte of a file is about 0.05."""
    return 50.0 + 0.05 * (len(contents) if isinstance(contents, bytes) else 0)


def _scalar(contents: Value) -> bytes:
    array = to_array(contents)
    if array.ndim:
        raise InvalidArgumentError(f"contents must be scalar, got shape {list(array.shape)}")
    data: bytes = array.item()
    return data


def _bounded(width: int, height: int, frames: int = 1) -> None:
    if width <= 0 or height <= 0:
        raise InvalidArgumentError(f"an image of {width} x {height} pixels")
    if width * height * frames > PIXELS_MAX:
        raise ResourceExhaustedError(
            f"an image of {width} x {height} pixels in {frames} frame(s): the limit is {PIXELS_MAX} pixels"
        )


def _opened(data: bytes, form: str | None = None) -> Any:
    """Pillow's image, its pixels not decoded yet, of bounded size; of this format, else as it begins."""
    form = form or next((name for magic, name in _FORMATS if data.startswith(magic)), None)
    if form is None:
        got = f"unknown format starting with {data[:16]!r}" if data else "empty file"
        raise InvalidArgumentError(f"Expected image (JPEG, PNG, or GIF), got {got}")
    pillow = _pillow()
    try:
        image = pillow.open(io.BytesIO(data), formats=(form,))
        width, height = image.size
        _bounded(width, height)
        _bounded(width, height, getattr(image, "n_frames", 1))
    except (pillow.DecompressionBombError, pillow.DecompressionBombWarning) as error:
        raise ResourceExhaustedError(str(error)) from error
    except _DAMAGE as error:
        raise InvalidArgumentError(f"Invalid {form} data, data size {len(data)}: {error}") from error
    return image


#: Bytes that Pillow keeps for a pixel of these modes; of all others, such as "RGB", 4.
_KEPT: Final = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2}


def _ask_for_pixels(image: Any, mode: str, held: int = 0) -> None:
    """Ask for what `_pixels` takes, beside so many bytes that are held already.

    Pillow's own image, the one that it is converted to, and the pixels of that as bytes and as an array.
    """
    width, height = image.size
    a_pixel = _KEPT.get(image.mode, 4) + (_KEPT.get(mode, 4) if mode != image.mode else 0)
    given = _KEPT.get(mode) or (4 if mode == "I" else len(mode))
    ask_for(held + width * height * (a_pixel + 2 * given))


def _pixels(image: Any, mode: str, size: int, held: int = 0) -> Array:
    """The pixels as [height, width, channels]; InvalidArgumentError for damaged data.

    ResourceExhaustedError, with nothing decoded, if with `held` bytes it is more than the step may take.
    """
    _ask_for_pixels(image, mode, held)
    try:
        array: Array = np.array(image if image.mode == mode else image.convert(mode))
    except _DAMAGE as error:
        raise InvalidArgumentError(f"Invalid {image.format} data, data size {size}: {error}") from error
    return array.reshape(*array.shape[:2], -1)


def _decoded(data: bytes, options: JpegOptions, window: tuple[int, int, int, int] | None = None) -> Array:
    """One image, uint8; the channels of a file that is no JPEG are those of the options."""
    channels = options.channels
    if data.startswith(png.SIGNATURE):
        return _png(data, channels, deep=False)
    if data.startswith(_GIF):
        if channels not in (0, 3):
            raise InvalidArgumentError(f"channels must be 0 or 3 for GIF, got {channels}")
        single: Array = _gif(data, 1)[0]
        return single
    if data.startswith(_JPEG) and channels not in (0, 1, 3):
        raise InvalidArgumentError(f"channels must be 0, 1, or 3 for JPEG, got {channels}")
    found = jpeg.decoded(data, options, _bounded, window) if data.startswith(_JPEG) else None
    if found is not None:
        return found
    image = _opened(data)
    mode = _MODES[channels or (1 if image.mode == "L" else 3)]
    if image.format == "JPEG":
        width, height = image.size
        sizes = -(-width // options.ratio), -(-height // options.ratio)
        image.draft(mode if image.mode != "CMYK" else None, sizes)
    whole = _pixels(image, mode, len(data))
    return whole if window is None else _window_of(whole, window)


def _window_of(image: Array, window: tuple[int, int, int, int]) -> Array:
    top, left, height, width = window
    if min(top, left) < 0 or min(height, width) <= 0:
        raise InvalidArgumentError(f"Invalid crop window {list(window)}")
    if top + height > image.shape[0] or left + width > image.shape[1]:
        raise InvalidArgumentError(f"Invalid crop window {list(window)} for an image of {list(image.shape)}")
    return np.ascontiguousarray(image[top : top + height, left : left + width])


def _png(data: bytes, channels: int, deep: bool) -> Array:
    """A PNG file as `png.decoded` gives it."""
    try:
        return png.decoded(data, channels, deep, lambda file: _opened(file, "PNG"), _bounded)
    except _DAMAGE as error:
        raise InvalidArgumentError(f"Invalid PNG data, data size {len(data)}: {error}") from error


def _gif(data: bytes, most: int | None = None) -> Array:
    """The frames of a GIF file as `gif.decoded` gives them."""
    try:
        return gif.decoded(data, lambda file: _opened(file, "GIF"), _bounded, most)
    except _DAMAGE as error:
        raise InvalidArgumentError(f"Invalid GIF data, data size {len(data)}: {error}") from error


@kernel("DecodePng", fresh=True, heavy=_cost)
def decode_png(contents: Value, *, channels: int, dtype: DType) -> Array:
    """The image, uint8 or uint16 [height, width, channels]; 0 channels: as many as the file has.

    Raises InvalidArgumentError for what is no image, ResourceExhaustedError for one that is too large.
    """
    if channels not in (0, 1, 3, 4):
        raise InvalidArgumentError(f"channels must be 0, 1, 3, or 4, got {channels}")
    data = _scalar(contents)
    if data.startswith(png.SIGNATURE):
        return _png(data, channels, deep=dtype is dtypes.uint16)
    if dtype is dtypes.uint16 and data.startswith((_JPEG, _GIF)):
        raise InvalidArgumentError("only PNG files can be decoded to uint16, and this is a JPEG or GIF file")
    return _decoded(data, JpegOptions(channels))


@kernel("DecodeJpeg", fresh=True, heavy=_cost)
def decode_jpeg(
    contents: Value,
    *,
    channels: int,
    ratio: int = 1,
    dct_method: bytes = b"",
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1.0,
) -> Array:
    """An image, uint8 [height, width, channels], `ratio` (1, 2, 4, 8) times smaller.

    A file that is cut off is decoded with `try_recover_truncated`, or if it has the `acceptable_fraction` of
    its rows; those that it lacks are black then. Raises as DecodePng.
    """
    accurate = dct_method == b"INTEGER_ACCURATE"
    options = JpegOptions(
        channels, ratio, accurate, fancy_upscaling, try_recover_truncated, acceptable_fraction
    )
    return _decoded(_scalar(contents), _checked_options(options))


def _checked_options(options: JpegOptions) -> JpegOptions:
    if options.channels not in (0, 1, 3):
        raise InvalidArgumentError(f"channels must be 0, 1, or 3 for JPEG, got {options.channels}")
    if options.ratio not in (1, 2, 4, 8):
        raise InvalidArgumentError(f"ratio must be 1, 2, 4, or 8, got {options.ratio}")
    return options


@kernel("DecodeGif", fresh=True, heavy=_cost)
def decode_gif(contents: Value) -> Array:
    """All frames, uint8 [frames, height, width, 3]; raises as DecodePng."""
    data = _scalar(contents)
    return _gif(data) if data.startswith(_GIF) else _decoded(data, JpegOptions(3))[np.newaxis]


@kernel("DecodeBmp", fresh=True, heavy=_cost)
def decode_bmp(contents: Value, *, channels: int) -> Array:
    """The image, uint8 [height, width, channels]; raises as DecodePng."""
    data = _scalar(contents)
    if len(data) < 32:
        raise InvalidArgumentError(
            f"Incomplete bmp content, requires at least 32 bytes, got {len(data)} bytes"
        )
    begin, width, height = (struct.unpack_from("<i", data, at)[0] for at in (10, 18, 22))
    own = struct.unpack_from("<H", data, 28)[0] // 8
    if own not in (1, 3, 4):
        raise InvalidArgumentError(f"Number of channels must be 1, 3 or 4, was {own}")
    if channels not in (0, own):
        raise InvalidArgumentError(
            f"channels attribute {channels} does not match bits per pixel from file {8 * own}"
        )
    _bounded(width, abs(height))
    stride = (own * width + 3) // 4 * 4
    if begin < 0 or len(data) < begin + stride * abs(height):
        raise InvalidArgumentError(
            f"Incomplete bmp content, requires at least {begin + stride * abs(height)} bytes, got {len(data)}"
        )
    ask_for(own * width * abs(height))
    rows = np.frombuffer(data, np.uint8, stride * abs(height), begin).reshape(abs(height), stride)
    image = rows[:, : own * width].reshape(abs(height), width, own)
    if height > 0:
        image = image[::-1]
    order = {1: [0], 3: [2, 1, 0], 4: [2, 1, 0, 3]}[own]
    return image[:, :, order]


def _checked_image(image: Array, most: int) -> tuple[int, int, int]:
    if image.ndim != 3 or not 1 <= image.shape[2] <= most:
        raise InvalidArgumentError(
            f"image must be 3-dimensional with 1 to {most} channels, but has shape {list(image.shape)}"
        )
    height, width, channels = image.shape
    if image.size:
        _bounded(width, height)
    return height, width, channels


@kernel("EncodePng", fresh=True)
def encode_png(image: Array, *, compression: int) -> bytes:
    """An image of 1 to 4 channels, uint8 or uint16, as PNG; `compression` from 0 to 9, -1 for the usual."""
    if not -1 <= compression <= 9:
        raise InvalidArgumentError(f"compression should be in [-1,9], got {compression}")
    height, width, channels = _checked_image(image, 4)
    _bounded(width, height)
    big = image.astype(">u2") if image.dtype == np.uint16 else image
    rows = np.zeros((height, 1 + width * channels * image.itemsize), np.uint8)
    rows[:, 1:] = np.ascontiguousarray(big).view(np.uint8).reshape(height, -1)
    colour = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    header = struct.pack(">IIBBBBB", width, height, 8 * image.itemsize, colour, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), compression)), (b"IEND", b""))
    out = [png.SIGNATURE]
    for name, data in parts:
        out.append(struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)))
    return b"".join(out)


@kernel("EncodeJpeg", fresh=True)
def encode_jpeg(
    image: Array,
    *,
    node: Node,
    quality: int,
    progressive: bool,
    optimize_size: bool,
    chroma_downsampling: bool,
    density_unit: bytes,
    x_density: int,
    y_density: int,
    xmp_metadata: bytes = b"",
) -> bytes:
    """A grey or RGB image, uint8 [height, width, 1 or 3], as JPEG."""
    if not 0 <= quality <= 100:
        raise InvalidArgumentError(f"quality must be in [0,100], got {quality}")
    _, _, channels = _checked_image(image, 3)
    form = node.attrs["format"]
    wanted = {b"": channels, b"grayscale": 1, b"rgb": 3}[form]
    if channels != wanted or channels == 2:
        raise InvalidArgumentError(f"image of {channels} channel(s) given for format '{form.decode()}'")
    file = _as_jpeg(
        image,
        quality=max(quality, 1),
        progressive=progressive,
        optimize=optimize_size,
        subsampling=2 if chroma_downsampling and channels == 3 else 0,
    )
    unit = 2 if density_unit == b"cm" else 1
    return jpeg.with_metadata(file, unit, (x_density, y_density), xmp_metadata)


def _as_jpeg(image: Array, **options: Any) -> bytes:
    """A grey or RGB image as Pillow writes it."""
    channels = image.shape[2]
    if not image.size:
        raise InternalError(f"JPEG encoding failed: the image has no pixels: {list(image.shape)}")
    out = io.BytesIO()
    _pillow().fromarray(np.ascontiguousarray(image[:, :, 0] if channels == 1 else image)).save(
        out, "JPEG", **options
    )
    return out.getvalue()


@kernel("EncodeJpegVariableQuality", fresh=True)
def encode_jpeg_variable_quality(image: Array, quality: Value) -> bytes:
    """As EncodeJpeg, with a quality that is an input."""
    wanted = to_array(quality)
    if wanted.ndim:
        raise InvalidArgumentError(f"quality must be scalar: {list(wanted.shape)}")
    if not 0 <= int(wanted) <= 100:
        raise InvalidArgumentError(f"quality must be in [0,100], got {int(wanted)}")
    _, _, channels = _checked_image(image, 3)
    if channels == 2:
        raise InvalidArgumentError("image must have 1 or 3 channels, got 2")
    file = _as_jpeg(image, quality=max(int(wanted), 1), subsampling=2 if channels == 3 else 0)
    return jpeg.with_metadata(file, 1, (300, 300), b"")


@kernel("ExtractJpegShape", fresh=True)
def extract_jpeg_shape(contents: Value, *, output_type: DType) -> Array:
    """Height, width and channels of a JPEG, whose pixels are not decoded."""
    data = _scalar(contents)
    if not data.startswith(_JPEG):
        raise InvalidArgumentError("Invalid JPEG data when extracting its shape")
    image = _opened(data)
    width, height = image.size
    return np.array([height, width, len(image.getbands())], output_type.as_numpy_dtype)


@kernel("DecodeAndCropJpeg", fresh=True, heavy=_cost)
def decode_and_crop_jpeg(
    contents: Value,
    crop_window: Array,
    *,
    channels: int,
    ratio: int,
    dct_method: bytes,
    fancy_upscaling: bool,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1.0,
) -> Array:
    """A part of an image: first row and column, height and width. Raises as DecodeJpeg."""
    data = _scalar(contents)
    if crop_window.ndim != 1 or crop_window.shape[0] != 4:
        raise InvalidArgumentError(f"crop_window must be four numbers, got {list(crop_window.shape)}")
    if not data.startswith(_JPEG):
        raise InvalidArgumentError(f"Expected a JPEG, got {data[:16]!r}")
    accurate = dct_method == b"INTEGER_ACCURATE"
    options = JpegOptions(
        channels, ratio, accurate, fancy_upscaling, try_recover_truncated, acceptable_fraction
    )
    return _decoded(data, _checked_options(options), tuple(crop_window.tolist()))


@kernel("DecodeImage", fresh=True, heavy=_cost)
def decode_image(contents: Value, *, channels: int, dtype: DType, expand_animations: bool) -> Array:
    """An image of any of the formats: [height, width, channels], of a GIF [frames, height, width, 3].

    Without `expand_animations` a GIF is its first frame. Floats are 0 to 1.
    """
    if channels not in (0, 1, 3, 4):
        raise InvalidArgumentError(f"channels must be 0, 1, 3, or 4, got {channels}")
    data = _scalar(contents)
    if data.startswith(b"BM"):
        image = decode_bmp(contents, channels=channels)
    elif data.startswith(_GIF):
        if channels not in (0, 3):
            raise InvalidArgumentError(f"channels must be 0 or 3 for GIF, got {channels}")
        frames = decode_gif(contents)
        image = frames if expand_animations else frames[0]
    elif data.startswith(_JPEG):
        image = decode_jpeg(contents, channels=channels)
    elif data.startswith(png.SIGNATURE):
        image = decode_png(
            contents, channels=channels, dtype=dtypes.uint8 if dtype.size == 1 else dtypes.uint16
        )
    else:
        raise InvalidArgumentError("Unknown image file format. One of JPEG, PNG, GIF, BMP required.")
    if dtype is dtypes.float32:
        ask_for(image.nbytes + 2 * image.size * dtype.size)
        return image.astype(np.float32) / np.float32(np.iinfo(image.dtype).max)
    # Files of 8 bits fill the upper half here, as they do in TensorFlow; but those of PNG fill both.
    return image if image.dtype == dtype.as_numpy_dtype else image.astype(np.uint16) << 8


@kernel("DecodeWebP", fresh=True, heavy=_cost)
def decode_webp(contents: Value, *, channels: int) -> Array:
    """An image, uint8 [frames, height, width, channels], through Pillow where it reads WebP.

    One of another format is decoded as DecodeImage does.
    """
    if channels not in (0, 3, 4):
        raise InvalidArgumentError(f"channels must be 0, 3, or 4 for WebP, got {channels}")
    data = _scalar(contents)
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP":
        return decode_image(contents, channels=channels, dtype=dtypes.uint8, expand_animations=True)
    image = _opened(data, "WEBP")
    mode = _MODES[channels or len(image.getbands())]
    count = getattr(image, "n_frames", 1)
    # The frames one by one, and all of them in one array.
    held = 2 * count * image.size[0] * image.size[1] * len(mode)
    _ask_for_pixels(image, mode, held)
    frames = []
    for index in range(count):
        image.seek(index)
        frames.append(_pixels(image, mode, len(data), held))
    return np.stack(frames)
