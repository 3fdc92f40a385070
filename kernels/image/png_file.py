"""PNG files: their chunks, and the samples of their pixels.

Chunks that pixels do not depend on are passed over, be they damaged: libpng only warns of them. Whatever it
stops at is an InvalidArgumentError here.
"""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from flowengine.core.abandonment import check_wanted
from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError

SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"

GREY, RGB, PALETTE, GREY_ALPHA, RGB_ALPHA = 0, 2, 3, 4, 6
#: {colour type: samples of a pixel}
_SAMPLES: Final = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGB_ALPHA: 4}
_DEPTHS: Final = {
    GREY: (1, 2, 4, 8, 16),
    RGB: (8, 16),
    PALETTE: (1, 2, 4, 8),
    GREY_ALPHA: (8, 16),
    RGB_ALPHA: (8, 16),
}
#: {colour type of 16 bits: the one of 8 bits whose pixels have as many bytes}: Pillow keeps these whole.
_AS_BYTES: Final = {GREY: GREY_ALPHA, GREY_ALPHA: RGB_ALPHA}

#: Begin and steps of the passes of an interlaced picture.
_PASSES: Final = (
    (0, 0, 8, 8),
    (4, 0, 8, 8),
    (0, 4, 4, 8),
    (2, 0, 4, 4),
    (0, 2, 2, 4),
    (1, 0, 2, 2),
    (0, 1, 1, 2),
)

_SRGB_GAMMA: Final = 45_455
#: Gammas that libpng takes, in parts of 100,000.
_GAMMAS: Final = range(16, 625_000_001)
_LENGTH_MAX: Final = 2**31 - 1
#: Bytes after the last row that are inflated at a time, to be thrown away.
_SURPLUS: Final = 65536
#: A file of many chunks is looked through as long as the step wants it.
_CHUNKS_BETWEEN_LOOKS: Final = 1024


@dataclass(frozen=True, slots=True)
class PngFile:
    """The parts of a PNG file that its pixels depend on.

    palette       [256, 3], uint8, black after its last entry; None without one
    transparency  the contents of the chunk tRNS; None without one
    gamma         of the file, in parts of 100,000; 0 where it says none
    bits          the most bits of a colour that mean anything; 0 where the file does not say
    pixels        the rows of filtered samples, compressed
    """

    width: int
    height: int
    depth: int
    colour: int
    interlaced: int
    palette: Array | None
    transparency: bytes | None
    gamma: int
    bits: int
    pixels: bytes

    @classmethod
    def read(cls, data: bytes) -> PngFile:
        """The file of these bytes; raises InvalidArgumentError if it is no whole PNG file."""
        try:
            return cls(**_parts(data))
        except ValueError as error:
            raise InvalidArgumentError(f"Invalid PNG data, data size {len(data)}: {error}") from None

    @property
    def own_channels(self) -> int:
        """The channels of an image that is decoded as the file has it."""
        if self.colour == PALETTE:
            return 3 if self.transparency is None else 4
        return _SAMPLES[self.colour]

    def samples(self, opened: Callable[[bytes], Any]) -> Array:
        """[height, width, samples of a pixel]: uint8, or uint16 of a file of 16 bits.

        Grey of fewer bits fills all eight; entries of a palette stay numbers.
        """
        rows = self._inflated()
        if self.depth < 16:
            found = self._unfiltered(rows, opened)
            if found.dtype == np.bool_:
                found = found.astype(np.uint8) * np.uint8(255 if self.colour == GREY else 1)
            return found
        if self.colour in _AS_BYTES:
            return self._unfiltered(rows, opened).view(">u2").astype(np.uint16)
        # Of 16 bits Pillow keeps the high byte; of the same bytes in the other order, the low one.
        form = "RGB" if self.colour == RGB else "RGBA"
        high = self._unfiltered(rows, opened, f"{form};16B").astype(np.uint16)
        return high << 8 | self._unfiltered(rows, opened, f"{form};16L")

    def _inflated(self) -> bytes:
        """The rows of filtered samples; raises InvalidArgumentError for too few, or a damaged stream.

        Like libpng, this does not mind what comes after the last row, so that the checksum may be wrong.
        """
        size = self.rows_size
        stream = zlib.decompressobj()
        try:
            rows = stream.decompress(self.pixels, size)
            if len(rows) < size:
                raise ValueError(f"its pixels have {len(rows)} bytes instead of {size}")
            rest = stream.unconsumed_tail
        except (ValueError, zlib.error) as error:
            raise InvalidArgumentError(f"Invalid PNG data: {error}") from None
        with contextlib.suppress(zlib.error):
            while not stream.eof:
                surplus = stream.decompress(rest, _SURPLUS)
                if not surplus and not rest:
                    raise InvalidArgumentError("Invalid PNG data: its stream of pixels does not end")
                rest = stream.unconsumed_tail
        return rows

    @property
    def rows_size(self) -> int:
        """The bytes of all rows with their filters, over the passes of an interlaced picture."""
        bits = _SAMPLES[self.colour] * self.depth
        sizes = [(self.width, self.height)]
        if self.interlaced:
            sizes = [
                (-(-(self.width - left) // across), -(-(self.height - top) // down))
                for left, top, across, down in _PASSES
            ]
        return sum(height * (1 + (width * bits + 7) // 8) for width, height in sizes if width > 0 < height)

    def _unfiltered(self, rows: bytes, opened: Callable[[bytes], Any], rawmode: str | None = None) -> Array:
        """Pillow's array of a file that has these rows, and no palette."""
        depth, colour = self.depth, self.colour
        if depth == 16 and colour in _AS_BYTES:
            depth, colour = 8, _AS_BYTES[colour]
        size = struct.pack(">IIBBBBB", self.width, self.height, depth, colour, 0, 0, self.interlaced)
        parts = ((b"IHDR", size), (b"IDAT", zlib.compress(rows, 0)), (b"IEND", b""))
        image = opened(SIGNATURE + b"".join(_chunk(name, data) for name, data in parts))
        if rawmode is not None:
            kind, box, offset, _ = image.tile[0]
            image.tile = [(kind, box, offset, rawmode)]
        array: Array = np.array(image)
        return array.reshape(self.height, self.width, -1)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes, int]]:
    """Name, contents and begin of each chunk up to IEND; raises ValueError for damage that matters."""
    at = len(SIGNATURE)
    count = 0
    while True:
        if at + 12 > len(data):
            raise ValueError("the file ends before its chunk IEND")
        length, name = struct.unpack_from(">I4s", data, at)
        if length > _LENGTH_MAX or not name.isalpha():
            raise ValueError(f"no chunk begins at byte {at}")
        end = at + 12 + length
        if end > len(data):
            raise ValueError(f"the file ends within its chunk {name.decode()}")
        critical = name[:1].isupper()
        intact = zlib.crc32(memoryview(data)[at + 4 : end - 4]) == int.from_bytes(data[end - 4 : end])
        if critical and not intact:
            raise ValueError(f"the checksum of the chunk {name.decode()} at byte {at} is wrong")
        if intact:
            yield name, data[at + 8 : end - 4], at
        if name == b"IEND":
            return
        at = end
        count += 1
        if count % _CHUNKS_BETWEEN_LOOKS == 0:
            check_wanted()


def _parts(data: bytes) -> dict[str, Any]:
    """The fields of a PngFile; raises ValueError."""
    found: dict[str, Any] = {"palette": None, "transparency": None, "gamma": 0, "bits": 0}
    pixels: list[bytes] = []
    pixels_end = 0
    is_srgb = False
    for name, contents, begin in _chunks(data):
        if ("width" not in found) != (name == b"IHDR"):
            raise ValueError("its first chunk, and no other, must be IHDR")
        before_palette = not pixels and found["palette"] is None
        if name == b"IHDR":
            found.update(_header(contents))
        elif name == b"PLTE":
            if not before_palette or len(contents) % 3 or not 3 <= len(contents) <= 768:
                if found["colour"] == PALETTE:
                    raise ValueError("its palette is not one of 1 to 256 colours, before the pixels")
                continue
            found["palette"] = np.zeros((256, 3), np.uint8)
            found["palette"].reshape(-1)[: len(contents)] = np.frombuffer(contents, np.uint8)
        elif name == b"IDAT":
            if found["colour"] == PALETTE and found["palette"] is None:
                raise ValueError("it has no palette before the pixels")
            # libpng reads on in chunks that follow one another only.
            if pixels and begin != pixels_end:
                continue
            pixels_end = begin + 12 + len(contents)
            pixels.append(contents)
        elif name == b"tRNS" and not pixels:
            if _is_transparency(contents, found):
                found["transparency"] = contents
        elif name == b"gAMA" and before_palette and len(contents) == 4 and not is_srgb:
            gamma = int.from_bytes(contents)
            found["gamma"] = gamma if gamma in _GAMMAS else found["gamma"]
        elif name == b"sRGB" and before_palette and len(contents) == 1:
            found["gamma"], is_srgb = _SRGB_GAMMA, True
        elif name == b"sBIT" and before_palette and len(contents) == max(_SAMPLES[found["colour"]], 1):
            found["bits"] = max(contents[:3]) if found["colour"] & RGB else contents[0]
        elif name[:1].isupper() and name != b"IEND":
            raise ValueError(f"unknown critical chunk {name.decode()}")
    if not pixels:
        raise ValueError("it has no pixels")
    return {**found, "pixels": b"".join(pixels)}


def _header(contents: bytes) -> dict[str, int]:
    if len(contents) != 13:
        raise ValueError(f"its chunk IHDR has {len(contents)} bytes, not 13")
    width, height, depth, colour, compression, filters, interlaced = struct.unpack(">IIBBBBB", contents)
    if depth not in _DEPTHS.get(colour, ()):
        raise ValueError(f"there is no colour type {colour} of {depth} bits")
    if compression or filters or interlaced > 1:
        raise ValueError(f"unknown compression {compression}, filter {filters} or interlace {interlaced}")
    return {"width": width, "height": height, "depth": depth, "colour": colour, "interlaced": interlaced}


def _is_transparency(contents: bytes, found: dict[str, Any]) -> bool:
    colour = found["colour"]
    if colour == PALETTE:
        return found["palette"] is not None and 0 < len(contents) <= 256
    return len(contents) == {GREY: 2, RGB: 6}.get(colour, -1)
