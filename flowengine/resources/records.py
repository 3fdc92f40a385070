"""Files as sequences of (key, record): what the readers read, without a clock or an event loop.

Each function takes an open file and yields until its end. All may block: they are run on threads. What
a file claims about itself is checked before anything of the claimed size is allocated.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final, Protocol, TypeAlias

from flowengine.core.crc32c import crc32c, mask
from flowengine.core.errors import DataLossError, InvalidArgumentError, ResourceExhaustedError

#: Bytes of one record.
RECORD_MAX: Final = 2**31

_PIECE: Final = 256 * 1024
_HEADER: Final = struct.Struct("<QI")
_CRC: Final = struct.Struct("<I")

Record: TypeAlias = tuple[bytes, bytes]


class Source(Protocol):
    """What records are read from: a file, or what a compressed one holds."""

    def read(self, count: int, /) -> bytes: ...


#: From an open file and its name to its records.
Format: TypeAlias = Callable[[BinaryIO, bytes], Iterator[Record]]


class Inflated:
    """The contents of a zlib or gzip stream, decompressed as far as they are asked for."""

    def __init__(self, file: BinaryIO, compression: str, name: bytes) -> None:
        self._file = file
        self._name = name
        self._window = 15 if compression == "ZLIB" else 31
        self._machine = zlib.decompressobj(self._window)
        self._begun = False

    def read(self, count: int, /) -> bytes:
        """So many bytes, fewer at the end; DataLossError where the stream is damaged or cut off."""
        parts: list[bytes] = []
        missing = count
        while missing > 0:
            data = self._machine.unconsumed_tail or self._machine.unused_data or self._file.read(_PIECE)
            if self._machine.eof:
                if not data:
                    break
                self._machine = zlib.decompressobj(self._window)
            elif not data:
                # What is left inside of the machine comes out without input.
                rest = self._machine.decompress(b"", missing)
                if not rest:
                    if self._begun:
                        raise self._damaged("the compressed stream ends too early")
                    break
                parts.append(rest)
                missing -= len(rest)
                continue
            self._begun = True
            try:
                piece = self._machine.decompress(data, missing)
            except zlib.error as error:
                raise self._damaged(str(error)) from error
            parts.append(piece)
            missing -= len(piece)
        return b"".join(parts)

    def _damaged(self, why: str) -> DataLossError:
        return DataLossError(f"{_shown(self._name)}: damaged before offset {self._file.tell()}: {why}")


def _shown(name: bytes) -> str:
    return name.decode("utf-8", "replace")


def source_of(file: BinaryIO, compression: str, name: bytes) -> Source:
    """The file itself, or what it holds where it is compressed ("ZLIB", "GZIP")."""
    return Inflated(file, compression, name) if compression else file


def checked_compression(compression: bytes) -> str:
    """ "", "ZLIB" or "GZIP"; InvalidArgumentError for others."""
    if compression not in (b"", b"NONE", b"ZLIB", b"GZIP"):
        raise InvalidArgumentError(f"compression {_shown(compression)!r} is not one of '', 'ZLIB', 'GZIP'")
    return "" if compression == b"NONE" else compression.decode()


def _exactly(source: Source, count: int) -> bytes:
    """So many bytes, fewer at the end, in memory that grows with what there is."""
    if count <= _PIECE:
        return source.read(count)
    parts: list[bytes] = []
    while count:
        part = source.read(min(count, 16 * _PIECE))
        if not part:
            break
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def tf_records(source: Source, name: bytes) -> Iterator[Record]:
    """Length, its checksum, the record, its checksum; the key is `name:offset`.

    Raises DataLossError with file and offset for a checksum that does not fit and for a record cut off.
    """
    offset = 0
    while True:
        header = source.read(12)
        if not header:
            return
        where = f"{_shown(name)}, record at offset {offset}: "
        if len(header) < 12:
            raise DataLossError(f"{where}truncated record: {len(header)} of 12 bytes of its header are there")
        length, length_crc = _HEADER.unpack(header)
        if mask(crc32c(header[:8])) != length_crc:
            raise DataLossError(f"{where}corrupted record: the checksum of its length does not fit")
        if length > RECORD_MAX:
            raise ResourceExhaustedError(f"{where}it claims {length} bytes; the limit is {RECORD_MAX}")
        data = _exactly(source, length + 4)
        if len(data) < length + 4:
            raise DataLossError(f"{where}truncated record: {len(data)} of {length + 4} bytes are there")
        record = data[:length]
        if mask(crc32c(record)) != _CRC.unpack_from(data, length)[0]:
            raise DataLossError(f"{where}corrupted record: the checksum of its data does not fit")
        yield b"%s:%d" % (name, offset), record
        offset += 16 + length


def lines(file: BinaryIO, name: bytes, skip: int = 0) -> Iterator[Record]:
    """Lines without their ends; the key is `name:number`, counted from 1 and with those skipped."""
    for number, line in enumerate(file, 1):
        if number > skip:
            if line.endswith(b"\n"):
                line = line[:-1]
            yield b"%s:%d" % (name, number), line.replace(b"\r", b"")


def fixed_length(
    source: Source, name: bytes, *, header: int, record: int, footer: int, hop: int
) -> Iterator[Record]:
    """Pieces of `record` bytes, each `hop` (0: `record`) after the last; the key is `name:number`.

    Raises DataLossError for a file without room for the header.
    """
    if len(_exactly(source, header)) < header:
        raise DataLossError(f"{_shown(name)}: shorter than its header of {header} bytes")
    step = hop or record
    held = b""
    number = 0
    while True:
        held += _exactly(source, max(0, record + footer - len(held)))
        if len(held) < record + footer:
            return
        yield b"%s:%d" % (name, number), held[:record]
        number += 1
        skipped = step - len(held)
        held = held[step:]
        while skipped > 0:
            piece = len(source.read(min(skipped, _PIECE)))
            if not piece:
                return
            skipped -= piece


def whole(file: BinaryIO, name: bytes) -> Iterator[Record]:
    """All of the file; the key is its name."""
    yield name, file.read()
