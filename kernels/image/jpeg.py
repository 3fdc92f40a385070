"""JPEG decoded as TensorFlow 1.15 decodes it, by simplejpeg where that is installed.

It is libjpeg-turbo, as TensorFlow's decoder is. TensorFlow takes the fast transform unless told otherwise,
goes on over damage that libjpeg only warns of, and refuses a file without an end. simplejpeg has neither
windows, nor cut files, nor colours for printing; these are made here of the samples that it gives.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from flowengine.core.accounting import ask_for
from flowengine.core.arrays import Array
from flowengine.core.buffers import recycled
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.image.jpeg_file import END, SIGNATURE, JpegFile, as_components, without_gaps
from flowengine.kernels.image.jpeg_scan import CutScan, follow

#: Spaces of colours that become grey or RGB, and those for printing, which become RGB only.
_SPACES: Final = frozenset({"Gray", "RGB", "YCbCr"})
_PRINTED: Final = frozenset({"CMYK", "YCCK"})
#: How libjpeg's messages begin that are no errors.
_WARNINGS: Final = (
    "Corrupt JPEG data",
    "Premature end of JPEG file",
    "Invalid SOS parameters for sequential JPEG",
    "Inconsistent progression sequence",
    "Unknown Adobe color transform",
    "Warning:",
)
_GIVEN: Final = {1: "GRAY", 3: "RGB", 4: "CMYK"}


@dataclass(frozen=True, slots=True)
class JpegOptions:
    """The attributes of the ops that decode JPEG.

    channels   1 or 3; 0: as many as the file has, but 3 of CMYK
    ratio      how many times smaller each side becomes: 1, 2, 4 or 8
    accurate   the slow transform, not the fast one
    smooth     interpolate between colours that are kept for several pixels
    recover    decode a file that is cut off
    fraction   the part of the rows that a file that is cut off must have
    """

    channels: int = 0
    ratio: int = 1
    accurate: bool = False
    smooth: bool = True
    recover: bool = False
    fraction: float = 1.0


@functools.cache
def _library() -> Any:
    try:
        import simplejpeg
    except ImportError:
        return None
    return simplejpeg


def decoded(
    data: bytes,
    options: JpegOptions,
    bounded: Callable[[int, int], None],
    window: tuple[int, int, int, int] | None = None,
) -> Array | None:
    """uint8 [height, width, channels]; None where there is no simplejpeg, or it does not know the factors.

    bounded   raises for a width and a height that are too large
    window    first row and column, height and width of the part that is wanted

    Raises InvalidArgumentError for a file that TensorFlow refuses too, and ResourceExhaustedError, with
    nothing decoded, where the pixels are more than the step may take.
    """
    library = _library()
    file = JpegFile.read(data)
    if not (file.ended or options.recover or (file.is_one_scan and library is not None)):
        raise _damage(data, "it has no end; try_recover_truncated=True decodes what there is")
    if library is None:
        return None
    try:
        height, width, space, _ = library.decode_jpeg_header(data, strict=False)
    except (ValueError, KeyError):  # KeyError: sampling factors for which it has no name
        return None
    if space not in _SPACES | _PRINTED or (space in _PRINTED and options.channels == 1):
        raise _damage(data, f"{space} cannot become {'grey' if options.channels == 1 else 'RGB'}")
    bounded(width, height)
    height, width = -(-height // options.ratio), -(-width // options.ratio)
    if window is not None:
        _check_window(window, height, width)
    rows = height
    if not (file.ended or file.refused):
        data, rows = _completed(data, file, options, height)
        file = JpegFile.read(data)
    if file.refused:
        raise _damage(data, f"the marker 0x{file.refused:02x} must not follow a scan")
    channels = options.channels or (1 if space == "Gray" else 3)
    if space in _PRINTED:
        ask_for(height * width * 4 + height * width * 3 * 5)
        inks = _samples(data, 4, height, width, options)
        image = None if inks is None else _as_rgb(inks, file.transform is not None)
    else:
        ask_for(height * width * channels)
        image = _samples(data, channels, height, width, options)
    if image is None:
        return None
    if rows < height:
        image[rows:] = 0
    if window is None:
        return image
    top, left, tall, wide = window
    part = np.ascontiguousarray(image[top : top + tall, left : left + wide])
    if channels == 3 and options.smooth and space in _SPACES:
        _mend_edges(part, data, file, options, (height, width), window, space == "YCbCr")
    return part


def _damage(data: bytes, why: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"Invalid JPEG data, data size {len(data)}: {why}")


def _check_window(window: tuple[int, int, int, int], height: int, width: int) -> None:
    top, left, tall, wide = window
    if min(top, left) < 0 or min(tall, wide) <= 0 or top + tall > height or left + wide > width:
        raise InvalidArgumentError(f"Invalid crop window {list(window)} for an image of {height} x {width}")


def _samples(data: bytes, channels: int, height: int, width: int, options: JpegOptions) -> Array | None:
    """The samples that libjpeg gives, uint8 [height, width, channels]; None of factors it does not know."""
    room = recycled((height, width, channels), np.uint8)
    decode = functools.partial(
        _library().decode_jpeg,
        data,
        _GIVEN[channels],
        fastdct=not options.accurate,
        fastupsample=not options.smooth,
        min_height=height,
        min_width=width,
        min_factor=options.ratio,
        buffer=room,
    )
    try:
        found: Array = decode(strict=True)
    except ValueError as error:
        # libjpeg warns and continues, or stops. Without `strict` simplejpeg does not distinguish them.
        if not str(error).startswith(_WARNINGS):
            raise _damage(data, str(error)) from None
        room[...] = 0
        try:
            found = decode(strict=False)
        except ValueError:  # simplejpeg refuses headers with warnings
            tidy = without_gaps(data)
            return _samples(tidy, channels, height, width, options) if tidy != data else None
    if found.shape != room.shape:
        raise _damage(
            data, f"it has {found.shape[0]} x {found.shape[1]} pixels instead of {height} x {width}"
        )
    return room


def _completed(data: bytes, file: JpegFile, options: JpegOptions, height: int) -> tuple[bytes, int]:
    """A file without an end, as TensorFlow reads it, and the rows of pixels that it has."""
    if not file.is_one_scan:
        return _with_torn_segment(data, file) + END, height
    cut = follow(data, file, options.recover)
    if options.recover:
        return data[: file.begin] + cut.read, height
    rows = _rows_of(cut, file, options, height)
    if cut.fails or rows < height * min(1.0, options.fraction):
        raise _damage(
            data,
            f"it has no end, and {rows} of {height} rows can be read; try_recover_truncated=True decodes "
            "what there is, and acceptable_fraction says how many rows are enough",
        )
    return (data[: file.torn - 2] if file.torn else data) + END, rows


def _with_torn_segment(data: bytes, file: JpegFile) -> bytes:
    """The file with its last segment made whole as TensorFlow does it: by reading what there is again."""
    left = data[file.torn :] if file.torn else b""
    if not left:
        return data
    size = int.from_bytes((left * 2)[:2])
    return data + left * ((size - 1) // len(left))


def _rows_of(cut: CutScan, file: JpegFile, options: JpegOptions, height: int) -> int:
    """The rows of pixels that so many rows of MCUs give."""
    down = file.most[1] if len(file.factors) > 1 else 1
    rows = cut.rows * down * 8 // options.ratio
    if rows >= height:
        return height
    # Interpolated rows wait for the colours below them.
    smooth = options.smooth and options.ratio < 8 and options.channels != 1
    waits = smooth and file.halves(options.ratio) == (True, True)
    return max(rows - down, 0) if waits else rows


def _as_rgb(inks: Array, inverted: bool) -> Array:
    """RGB of CMYK: the product of each ink and the key, cut off; `inverted` where Adobe wrote the file."""
    inks = inks if inverted else 255 - inks
    wide = inks[:, :, :3].astype(np.uint16)
    wide *= inks[:, :, 3:]
    wide //= 255
    return wide.astype(np.uint8)


def _mend_edges(
    part: Array,
    data: bytes,
    file: JpegFile,
    options: JpegOptions,
    size: tuple[int, int],
    window: tuple[int, int, int, int],
    converted: bool,
) -> None:
    """Interpolate the colours of a window's edges without those outside, which TensorFlow does not decode.

    It begins to decode at an MCU's left edge, and ends where the window does.
    """
    across, down = file.halves(options.ratio)
    if not across or options.ratio == 8:
        return
    top, left, tall, wide = window
    first = left - left % (file.most[0] * 8 // options.ratio)
    columns = []
    if first == left and left:
        columns.append(0)
    if left + wide < size[1] and (left + wide - first) % 2 == 0:
        columns.append(wide - 1)
    narrow = left + wide - first <= 2
    if not columns and not narrow:
        return
    rough = JpegOptions(3, options.ratio, options.accurate, smooth=False)
    ask_for(3 * size[0] * size[1])
    planes = _samples(as_components(data) if converted else data, 3, *size, rough)
    if planes is None:
        return
    for column in range(wide) if narrow else columns:
        given = planes[:, left + column].astype(np.int32)
        if down and not narrow:
            given[:, 1:] = _between_rows(given[::2, 1:], size[0], edge=column > 0 or wide == 1)
        pixels = _rgb(given[top : top + tall]) if converted else given[top : top + tall]
        part[:, column] = pixels


def _between_rows(colours: Array, height: int, edge: bool) -> Array:
    """Colours kept for two rows, three quarters of the near one and one of the other."""
    padded = np.concatenate([colours[:1], colours, colours[-1:]])
    out = np.empty((2 * len(colours), 2), np.int32)
    out[::2] = 3 * colours + padded[:-2]
    out[1::2] = 3 * colours + padded[2:]
    # libjpeg rounds by turns, for the first column up, for the last down.
    return ((4 * out + (7 if edge else 8)) >> 4)[:height]


def _rgb(pixels: Array) -> Array:
    """RGB of Y, Cb and Cr, int32 [rows, 3], in libjpeg's 16-bit fixed point."""
    y, blue, red = pixels[:, 0], pixels[:, 1] - 128, pixels[:, 2] - 128
    half = 1 << 15
    out = np.stack(
        [
            y + ((91881 * red + half) >> 16),
            y + ((-22554 * blue - 46802 * red + half) >> 16),
            y + ((116130 * blue + half) >> 16),
        ],
        axis=1,
    )
    return out.clip(0, 255)


#: The unit and the densities in a file that begins with a JFIF marker, and the end of that.
_DENSITY: Final = slice(13, 18)
_JFIF_END: Final = 20
_XMP: Final = b"http://ns.adobe.com/xap/1.0/\0"
_SEGMENT_MAX: Final = 65535


def with_metadata(file: bytes, unit: int, density: tuple[int, int], xmp: bytes) -> bytes:
    """A file that Pillow wrote, with these densities and XMP; InvalidArgumentError if that is too long."""
    size = 2 + len(_XMP) + len(xmp)
    if size > _SEGMENT_MAX:
        most = _SEGMENT_MAX - 2 - len(_XMP)
        raise InvalidArgumentError(f"xmp_metadata has {len(xmp)} bytes; a JPEG file has room for {most}")
    out = bytearray(file)
    out[_DENSITY] = struct.pack(">BHH", unit, density[0] & 0xFFFF, density[1] & 0xFFFF)
    segment = b"\xff\xe1" + struct.pack(">H", size) + _XMP + xmp if xmp else b""
    return bytes(out[:_JFIF_END] + segment + out[_JFIF_END:])


__all__ = ["SIGNATURE", "JpegOptions", "decoded", "with_metadata"]
