"""JPEG files: their markers, up to the scan, and whether they end as they should."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

SIGNATURE: Final = b"\xff\xd8\xff"
END: Final = b"\xff\xd9"

_SEQUENTIAL: Final = (0xC0, 0xC1)
_PROGRESSIVE: Final = 0xC2
_FIRST, _TABLES, _SCAN, _RESTARTS, _LAST = 0xD8, 0xC4, 0xDA, 0xDD, 0xD9
_JFIF, _ADOBE = 0xE0, 0xEE
_QUANTIZERS: Final = 0xDB
#: Frames that libjpeg reads; it refuses others at once.
_FRAMES: Final = frozenset({*_SEQUENTIAL, _PROGRESSIVE, 0xC9, 0xCA})
#: Markers without contents and meaning, restarts among them.
_BARE: Final = frozenset({0x01, *range(0xD0, 0xD8)})
#: Markers that libjpeg does not know.
_UNKNOWN: Final = frozenset({*range(0x02, 0xC0), *range(0xF0, 0xFE)})
#: Markers that it refuses after a scan: another beginning of a file, or of its frame.
_TOO_LATE: Final = frozenset({0xD8, *range(0xC0, 0xD0)} - {_TABLES, 0xCC})
#: Markers whose contents it skips in one piece, and the bytes of contents that it reads before it does.
_SKIPPED: Final = frozenset({*range(0xE0, 0xF0), 0xFE, 0xDC})
_READ_FIRST: Final = {_JFIF: 14, _ADOBE: 14}
_RESTART_FIRST: Final = 0xD0
_VALID_FIRST: Final = 0xC0
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
    torn        the place of the length of the segment that the file's end cuts off; 0 without one, or where
                libjpeg does not read its bytes
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
    torn: int = 0

    @classmethod
    def read(cls, data: bytes) -> JpegFile:
        """Read all of the file that can be read, however damaged it is."""
        found = cls()
        markers = _Markers(data)
        interval = 0
        for marker, begin, contents in markers:
            late = found.begin > 0
            if marker == _LAST:
                found.ended = True
            elif late and (marker in _UNKNOWN | _TOO_LATE or (marker == _SCAN and found.is_one_scan)):
                found.refused = marker
                break
            elif marker == _RESTARTS and len(contents) == 2:
                interval = int.from_bytes(contents)
            elif marker == _SCAN and contents:
                parts = [contents[at : at + 2] for at in range(1, 1 + 2 * contents[0], 2)]
                scan = [(part[0], part[1] >> 4, part[1] & 15) for part in parts if len(part) == 2]
                if not late:
                    found.scan, found.interval = scan, interval
                    found.begin = begin + 2 + len(contents)
                markers.skip_restarts(found._restarts(scan, interval))
            elif not late:
                found._read_before_scans(marker, contents)
        found.torn = 0 if markers.last in _SKIPPED else markers.torn
        return found

    def _read_before_scans(self, marker: int, contents: bytes) -> None:
        if marker in (*_SEQUENTIAL, _PROGRESSIVE) and len(contents) >= 6:
            self.sequential = marker in _SEQUENTIAL
            self.height, self.width = int.from_bytes(contents[1:3]), int.from_bytes(contents[3:5])
            parts = [contents[at : at + 3] for at in range(6, 6 + 3 * contents[5], 3)]
            self.factors = {part[0]: (part[1] >> 4, part[1] & 15) for part in parts if len(part) == 3}
        elif marker == _TABLES:
            self.tables.update(_tables(contents))
        elif marker == _ADOBE and contents.startswith(b"Adobe") and len(contents) >= 12:
            self.transform = contents[11]

    def _restarts(self, scan: list[tuple[int, int, int]], interval: int) -> int:
        """The restarts within a scan of these components."""
        if not interval:
            return 0
        across, down = self.most
        times = self.factors.get(scan[0][0], (1, 1)) if len(scan) == 1 else (1, 1)
        columns = -(-self.width * times[0] // (8 * max(across, 1)))
        rows = -(-self.height * times[1] // (8 * max(down, 1)))
        return max(columns * rows - 1, 0) // interval

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


class Resync(Enum):
    """The action of libjpeg at a marker where a restart is due.

    SKIP   goes on to the next marker, because it is an earlier restart, or reserved
    STAY   takes the data up to the marker's restart, or to the end of the scan, as empty
    PASS   goes on behind the marker
    """

    SKIP = "skip"
    STAY = "stay"
    PASS = "pass"

    @classmethod
    def at(cls, marker: int, restart: int) -> Resync:
        """The action at a marker where the restart of this number, 0 to 7, is due."""
        if marker < _VALID_FIRST:
            return cls.SKIP
        ahead = marker - _RESTART_FIRST
        if not 0 <= ahead <= 7:
            return cls.STAY
        return {1: cls.STAY, 2: cls.STAY, 6: cls.SKIP, 7: cls.SKIP}.get((ahead - restart) & 7, cls.PASS)


def as_components(data: bytes) -> bytes:
    """The file with a marker that says that its three components are colours, so that none is converted."""
    return _rewritten(data, _ADOBE_MARKER, frozenset({_JFIF, _ADOBE}))


def without_gaps(data: bytes) -> bytes:
    """The file without bytes between its markers before the first scan, of which libjpeg warns."""
    return _rewritten(data, b"", frozenset())


def _rewritten(data: bytes, first: bytes, left_out: frozenset[int]) -> bytes:
    out = [data[:2], first]
    for marker, begin, contents in _Markers(data):
        if marker == _SCAN:
            out.append(data[begin - 2 :])
            break
        if marker not in left_out:
            out.append(data[begin - 2 : begin + 2 + len(contents)])
    return b"".join(out)


def fails_at_end(data: bytes, at: int, unread: int) -> bool:
    """Whether libjpeg fails, after the last scan, where the file is used up, instead of waiting for more.

    It waits where it has begun to read a marker or its contents, and fails where it has only skipped bytes.

    at       the place to read on from
    unread   the marker before that place; 0 where the last one was used
    """
    markers = _Markers(data, at, unread)
    for marker, _, _ in markers:
        if marker == _LAST:
            return False
        if marker in _UNKNOWN | _TOO_LATE | {_SCAN}:
            return True
    if not markers.torn:
        return not data.endswith(b"\xff")
    return _fails_within(markers.last, data[markers.torn :])


def _fails_within(marker: int, left: bytes) -> bool:
    """Whether libjpeg fails in a segment that is cut off, of which these bytes are left."""
    size = int.from_bytes(left[:2])
    if marker in _SKIPPED:
        return len(left) >= 2 + _READ_FIRST.get(marker, 0)
    if marker in _TOO_LATE:
        return marker not in _FRAMES or len(left) >= 8
    if marker == _SCAN:
        return len(left) >= 3 and (size != 2 * left[2] + 6 or not 1 <= left[2] <= 4)
    if marker == _RESTARTS:
        return len(left) >= 2 and size != 4
    at = 2
    while marker == _QUANTIZERS and at < min(len(left), size):
        if left[at] & 15 > 3:
            return True
        at += 129 if left[at] >> 4 else 65
    while marker == _TABLES and at + 17 <= min(len(left), size):
        count = sum(left[at + 1 : at + 17])
        if count > 256 or at + 17 + count > size:
            return True
        if at + 17 + count <= len(left) and left[at] & ~0x10 > 3:
            return True
        at += 17 + count
    return False


class _Markers:
    """The markers of a file, as (marker, place of its length, contents), in the order libjpeg comes to them.

    last   the marker that was found last; 0 at the end of the file
    torn   the place of the length of a segment that the file's end cuts off; 0 without one
    """

    def __init__(self, data: bytes, at: int = 2, unread: int = 0) -> None:
        self._data = data
        self._at = at
        self._unread = unread
        self.last = 0
        self.torn = 0

    def __iter__(self) -> Iterator[tuple[int, int, bytes]]:
        data = self._data
        while True:
            marker = self._next()
            while marker in _BARE:
                marker = self._next()
            at = self._at
            if not marker:
                return
            if marker in (_FIRST, _LAST) or marker in _UNKNOWN:
                yield marker, at, b""
                return
            end = at + int.from_bytes(data[at : at + 2])
            if end > len(data) or at + 2 > len(data):
                self.torn = at
                return
            if end < at + 2:
                return
            self._at = end
            yield marker, at, data[at + 2 : end]

    def skip_restarts(self, count: int) -> None:
        """Pass over the data of a scan with so many restarts, up to the data after the last one."""
        for number in range(count):
            marker = self._next()
            while marker and Resync.at(marker, number & 7) is Resync.SKIP:
                marker = self._next()
            if Resync.at(marker, number & 7) is Resync.STAY:
                self._unread = marker
                if not _RESTART_FIRST <= marker <= _RESTART_FIRST + 7:
                    return
            elif not marker:
                return

    def _next(self) -> int:
        """Find the next marker; 0 at the end of the file."""
        self.last, self._unread = self._unread, 0
        data = self._data
        while not self.last:
            at = data.find(b"\xff", self._at)
            while at >= 0 and at + 1 < len(data) and data[at + 1] == 0xFF:
                at += 1
            if at < 0 or at + 1 >= len(data):
                return 0
            self._at = at + 2
            self.last = data[at + 1]
        return self.last


def _tables(contents: bytes) -> Iterator[tuple[tuple[int, int], tuple[bytes, bytes]]]:
    """((class, number), (counts of codes by length, symbols)) of each Huffman table."""
    at = 0
    while at + 17 <= len(contents):
        counts = contents[at + 1 : at + 17]
        end = at + 17 + sum(counts)
        yield (contents[at] >> 4, contents[at] & 15), (counts, contents[at + 17 : end])
        at = end


__all__ = ["END", "SIGNATURE", "JpegFile", "Resync", "as_components", "fails_at_end", "without_gaps"]
