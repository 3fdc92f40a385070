"""The place where a JPEG file that is cut off stops being readable, as libjpeg-turbo finds it.

TensorFlow hands libjpeg a file in one piece. libjpeg reads ahead, up to 64 bits, and saves its place at each
MCU only. When the file is used up within an MCU, TensorFlow makes it wait for more, which ends the decoding
at this row of MCUs; with `try_recover_truncated` it sends it back to the place that was saved, so that the
file's last bytes are read again and again, until an MCU begins exactly at the end. This module follows the
codes of the scan to tell the rows, and the bytes as they are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flowengine.core.abandonment import check_wanted
from flowengine.kernels.image.jpeg_file import END, JpegFile, Resync, fails_at_end

#: Bits that libjpeg-turbo looks a code up by, and those it fills its buffer to.
_LOOK_AHEAD: Final = 8
_FILLED: Final = 57
#: With so many bytes left for each block it fills by six bytes when it holds 16 bits at most.
_AMPLE: Final = 512
_AMPLE_FILL: Final = 6
_AMPLE_LOW: Final = 16
_MCUS_BETWEEN_LOOKS: Final = 4096


@dataclass(frozen=True, slots=True)
class CutScan:
    """How far a scan can be read that ends before its image does.

    rows   rows of MCUs that are whole
    fails  whether the decoder gives up, instead of waiting, at the end of the file
    read   the bytes of the scan as they are read with `again`, up to an end of the file
    """

    rows: int
    fails: bool
    read: bytes


class _WaitsForMore(Exception):
    """The file is used up; the decoder waits for more."""


class _GivesUp(Exception):
    """The file is used up where an MCU begins; the decoder gives up."""


class _ScanReader:
    """The bits of a scan as libjpeg-turbo takes them."""

    def __init__(self, data: bytes, begin: int, again: bool) -> None:
        self._data = data
        self._again = again
        self._at = self._saved = begin
        self._held = 0
        self._count = 0
        #: A marker ended the codes: all bits from here on are 0.
        self.marker = 0
        self.ample = False
        self.read = bytearray()

    @property
    def left(self) -> int:
        """The bytes that are not in the buffer yet."""
        return len(self._data) - self._at

    def save(self) -> None:
        """Begin an MCU here."""
        self._saved = self._at

    def _byte(self) -> int:
        if self._at >= len(self._data):
            if self._saved >= len(self._data):
                raise _GivesUp
            if not self._again:
                raise _WaitsForMore
            self._at = self._saved
        value = self._data[self._at]
        self._at += 1
        self.read.append(value)
        return value

    def _fill(self, most: int) -> None:
        while self._count < most and not self.marker:
            value = self._byte()
            if value == 0xFF:
                code = 0xFF
                while code == 0xFF:
                    code = self._byte()
                if code:
                    self.marker = code
                    return
            self._held = (self._held << 8 | value) & (1 << 72) - 1
            self._count += 8

    def need(self, bits: int) -> None:
        """Have so many bits, or zeros after a marker."""
        if self.ample:
            if self._count <= _AMPLE_LOW:
                self._fill(self._count + 8 * _AMPLE_FILL)
        elif self._count < bits:
            self._fill(_FILLED)
        if self._count < bits:
            self._held <<= bits - self._count
            self._count = bits

    def take(self, bits: int) -> int:
        self._count -= bits
        value = self._held >> self._count
        self._held &= (1 << self._count) - 1
        return value

    def symbol(self, table: _Codes) -> int:
        """The next symbol; 0 for a code that the table lacks."""
        length = 1
        if self.ample:
            self.need(0)
        elif self._count < _LOOK_AHEAD:
            self._fill(_FILLED)
        if self._count >= _LOOK_AHEAD:
            found = table.short[self._held >> self._count - _LOOK_AHEAD]
            if found is not None:
                self.take(found[0])
                return found[1]
            length = _LOOK_AHEAD + 1
        if self._count < length:
            self.need(length)
        code = self.take(length)
        while length <= 16:
            if (length, code) in table.symbols:
                return table.symbols[length, code]
            if not self._count:
                self.need(1)
            code = code << 1 | self.take(1)
            length += 1
        return 0

    def restart(self, number: int) -> None:
        """Go to the restart of this number, 0 to 7, or to where libjpeg goes on without it."""
        self._held = self._count = 0
        again, self._again = self._again, False
        self._find()
        while (step := Resync.at(self.marker, number)) is Resync.SKIP:
            self.marker = 0
            self._find()
        if step is Resync.PASS:
            self.marker = 0
        self._again = again

    def fails_at_end(self) -> bool:
        """Whether libjpeg fails behind the last MCU, where TensorFlow does not mind to wait."""
        return fails_at_end(self._data, self._at, self.marker)

    def _find(self) -> None:
        """Find the next marker, where none was found before."""
        while not self.marker:
            if self._byte() != 0xFF:
                self.save()
                continue
            code = 0xFF
            while code == 0xFF:
                code = self._byte()
            self.marker = code
            self.save()


class _Codes:
    """A Huffman table.

    symbols   {(length, code): symbol}
    short     by the next eight bits, (length, symbol) of codes that are no longer, else None
    """

    def __init__(self, counts: bytes = bytes(16), symbols: bytes = b"") -> None:
        self.symbols: dict[tuple[int, int], int] = {}
        self.short: list[tuple[int, int] | None] = [None] * (1 << _LOOK_AHEAD)
        code = at = 0
        for length, count in enumerate(counts, 1):
            for symbol in symbols[at : at + count]:
                self.symbols[length, code] = symbol
                if length <= _LOOK_AHEAD:
                    rest = _LOOK_AHEAD - length
                    self.short[code << rest : code + 1 << rest] = [(length, symbol)] * (1 << rest)
                code += 1
            at += count
            code <<= 1


def follow(data: bytes, file: JpegFile, again: bool) -> CutScan:
    """How far the one scan of a file can be read.

    again   whether the last bytes are read again, as with `try_recover_truncated`

    Raises CancelledError where the step is over.
    """
    codes = {key: _Codes(*table) for key, table in file.tables.items()}
    none = _Codes()
    across, down = file.most if len(file.factors) > 1 else (1, 1)
    blocks = []
    for component, dc, ac in file.scan:
        times = file.factors.get(component, (1, 1))
        count = times[0] * times[1] if len(file.factors) > 1 else 1
        blocks += [(codes.get((0, dc), none), codes.get((1, ac), none))] * count
    columns = -(-file.width // (8 * across))
    reader = _ScanReader(data, file.begin, again)
    total = columns * -(-file.height // (8 * down))
    fails, done = False, 0
    try:
        while done < total:
            if done % _MCUS_BETWEEN_LOOKS == 0:
                check_wanted()
            reader.save()
            if file.interval and done and done % file.interval == 0:
                reader.restart((done // file.interval - 1) & 7)
            reader.ample = not file.interval and reader.left >= _AMPLE * len(blocks)
            for dc_codes, ac_codes in blocks:
                _skip_block(reader, dc_codes, ac_codes)
            done += 1
            if reader.marker and not file.interval:
                done = total
        fails = not again and reader.fails_at_end()
    except _WaitsForMore:
        pass
    except _GivesUp:
        fails = True
    return CutScan(done // columns if columns else 0, fails, bytes(reader.read) + END)


def _skip_block(reader: _ScanReader, dc_codes: _Codes, ac_codes: _Codes) -> None:
    """Pass over the 64 coefficients of a block."""
    size = reader.symbol(dc_codes)
    if size:
        reader.need(size)
        reader.take(size)
    place = 1
    while place < 64:
        symbol = reader.symbol(ac_codes)
        run, size = symbol >> 4, symbol & 15
        if size:
            reader.need(size)
            reader.take(size)
        elif run != 15:
            return
        place += run + 1


__all__ = ["CutScan", "follow"]
