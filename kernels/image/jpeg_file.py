"""JPEG files: their markers, up to the scan, and whether they end as they should."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

SIGNATURE: Final = b"\xff\xd8\xff"
END: Final = b"\xff\xd9"

_SEQUENTIAL: Final = (0xC0, 0xC1)
_PROGRESSIVE: Final = 0xC2
_FIRST, _TABLES, _SCAN, _RESTARTS, _LAST = 0xD8, 0xC4, 0xDA, 0xDD, 0xD9
_JFIF, _ADOBE = 0xE0, 0xEE
#: Markers without contents and meaning, restarts among them.
_BARE: Final = frozenset({0x01, *range(0xD0, 0xD8)})
#: Markers that libjpeg does not know.
_UNKNOWN: Final = frozenset({*range(0x02, 0xC0), *range(0xF0, 0xFE)})
#: Markers that it refuses after a scan: another beginning of a file, or of its frame.
_TOO_LATE: Final = frozenset({0xD8, *range(0xC0, 0xD0)} - {_TABLES, 0xCC})
_ADOBE_MARKER: Final = b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x00"


@dataclass(slots=True)
class JpegFile:
    """The parts of a JPEG file that say how its scans are read.

    factors     {component: (across, down)}, the sampling factors, in their order
    tables      {(0 for DC or 1 for AC, number): the contents that define the Huffman table}
    scan        [(component, DC table, AC table)] of the first scan
    interval    MCUs between restarts; 0 without any
    transform   of the Adobe marker; None without one
    begin       the place of the first scan's data; 0 where there is none
    ended       whether reading marker after marker finds the end of the file
    refused     a marker after the first scan that libjpeg stops at; 0 without one
    """

    width: int = 0
    height: int = 0
    sequential: bool = False
    factors: dict[int, tuple[int, int]] = field(default_factory=dict)
    tables: dict[tuple[int, int], tuple[bytes, bytes]] = field(default_factory=dict)
    scan: list[tuple[int, int, int]] = field(default_factory=list)
    interval: int = 0
    transform: int | None = None
    begin: int = 0
    ended: bool = False
    refused: int = 0

    @classmethod
    def read(cls, data: bytes) -> JpegFile:
        """Read all of the file that can be read, however damaged it is."""
        found = cls()
        for marker, begin, contents in _markers(data):
            if marker == _LAST:
                found.ended = True
            elif found.begin:
                if marker in _UNKNOWN | _TOO_LATE or (marker == _SCAN and found.is_one_scan):
                    found.refused = marker
                    return found
            elif marker in (*_SEQUENTIAL, _PROGRESSIVE) and len(contents) >= 6:
                found.sequential = marker in _SEQUENTIAL
                found.height, found.width = int.from_bytes(contents[1:3]), int.from_bytes(contents[3:5])
                parts = [contents[at : at + 3] for at in range(6, 6 + 3 * contents[5], 3)]
                found.factors = {part[0]: (part[1] >> 4, part[1] & 15) for part in parts if len(part) == 3}
            elif marker == _TABLES:
                found.tables.update(_tables(contents))
            elif marker == _RESTARTS and len(contents) == 2:
                found.interval = int.from_bytes(contents)
            elif marker == _ADOBE and contents.startswith(b"Adobe") and len(contents) >= 12:
                found.transform = contents[11]
            elif marker == _SCAN and contents:
                parts = [contents[at : at + 2] for at in range(1, 1 + 2 * contents[0], 2)]
                found.scan = [(part[0], part[1] >> 4, part[1] & 15) for part in parts if len(part) == 2]
                found.begin = begin + 2 + len(contents)
        return found

    @property
    def most(self) -> tuple[int, int]:
        """The largest sampling factors, across and down."""
        factors = self.factors.values()
        return max((across for across, _ in factors), default=1), max(
            (down for _, down in factors), default=1
        )

    @property
    def is_one_scan(self) -> bool:
        """Whether the file is sequential and its first scan has all components."""
        return self.sequential and len(self.scan) == len(self.factors) > 0

    def halves(self, ratio: int) -> tuple[bool, bool]:
        """Whether the colours of an image `ratio` times smaller are kept for 2 pixels across, and down.

        libjpeg decodes them larger instead where that fits in both directions.
        """
        across, down = self.most
        colours = list(self.factors.values())[1:]
        if not colours or any(factor != colours[0] for factor in colours):
            return False, False
        times = (across // max(colours[0][0], 1), down // max(colours[0][1], 1))
        size = 8 // ratio
        while size < 8 and times[0] % 2 == 0 and times[1] % 2 == 0:
            size, times = 2 * size, (times[0] // 2, times[1] // 2)
        return times[0] == 2, times[1] == 2


def as_components(data: bytes) -> bytes:
    """The file with a marker that says that its three components are colours, so that none is converted."""
    out, at = [data[:2], _ADOBE_MARKER], 2
    for marker, begin, contents in _markers(data):
        if marker == _SCAN:
            out.append(data[at:])
            break
        end = begin + 2 + len(contents)
        if marker not in (_JFIF, _ADOBE):
            out.append(data[at:end])
        at = end
    return b"".join(out)


def _markers(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(marker, place of its length, contents) of each, those of scans without their data, to the last one."""
    at = 2
    while True:
        at = data.find(b"\xff", at)
        while at >= 0 and at + 1 < len(data) and data[at + 1] == 0xFF:
            at += 1
        if at < 0 or at + 1 >= len(data):
            return
        marker = data[at + 1]
        at += 2
        if not marker or marker in _BARE:
            continue
        if marker in (_FIRST, _LAST) or marker in _UNKNOWN:
            yield marker, at, b""
            return
        end = at + int.from_bytes(data[at : at + 2])
        if end > len(data) or end < at + 2:
            return
        yield marker, at, data[at + 2 : end]
        at = end


def _tables(contents: bytes) -> Iterator[tuple[tuple[int, int], tuple[bytes, bytes]]]:
    """((class, number), (counts of codes by length, symbols)) of each Huffman table."""
    at = 0
    while at + 17 <= len(contents):
        counts = contents[at + 1 : at + 17]
        end = at + 17 + sum(counts)
        yield (contents[at] >> 4, contents[at] & 15), (counts, contents[at + 17 : end])
        at = end


__all__ = ["END", "SIGNATURE", "JpegFile", "as_components"]
