"""Files as blocks of (key, record): what the readers read, without a clock or an event loop.

Each function takes an open file and yields lists of records until its end. All may block: they are run on
threads. What a file claims about itself is checked before anything of the claimed size is allocated.
`tf_records` has the format with lengths and checksums.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final, Protocol, TypeAlias

from flowengine.core.errors import DataLossError, InvalidArgumentError
from flowengine.resources.data.saved.snappy import SnappySource

_PIECE: Final = 256 * 1024

Record: TypeAlias = tuple[bytes, bytes]

#: Records that follow each other.
Block: TypeAlias = list[Record]


class RecordSource(Protocol):
    """Sources of records: a file, or the contents of a compressed one."""

    def read(self, count: int, /) -> bytes: ...


#: From an open file and its name to its records.
Format: TypeAlias = Callable[[BinaryIO, bytes], Iterator[Block]]


class InflatedSource:
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
        return DataLossError(f"{shown(self._name)}: damaged before offset {self._file.tell()}: {why}")


def shown(name: bytes) -> str:
    return name.decode("utf-8", "replace")


def source_of(file: BinaryIO, compression: str, name: bytes) -> RecordSource:
    """The file itself, or what it holds where it is compressed ("ZLIB", "GZIP", "SNAPPY")."""
    if compression == "SNAPPY":
        return SnappySource(file, name)
    return InflatedSource(file, compression, name) if compression else file


def checked_compression(compression: bytes, *more: bytes) -> str:
    """ "", "ZLIB" or "GZIP", or one more that is allowed here; InvalidArgumentError for others."""
    if compression not in (b"", b"NONE", b"ZLIB", b"GZIP", *more):
        allowed = ", ".join(repr(each.decode()) for each in (b"", b"ZLIB", b"GZIP", *more))
        raise InvalidArgumentError(f"compression {shown(compression)!r} is not one of {allowed}")
    return "" if compression == b"NONE" else compression.decode()


def exactly(source: RecordSource, count: int) -> bytes:
    """So many bytes, fewer at the end, in memory that grows with what there is."""
    if count <= 4 * _PIECE:
        return source.read(count)
    parts: list[bytes] = []
    while count:
        part = source.read(min(count, 16 * _PIECE))
        if not part:
            break
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def fixed_length(
    source: RecordSource, name: bytes, *, header: int, record: int, footer: int, hop: int
) -> Iterator[Block]:
    """Pieces of `record` bytes, each `hop` (0: `record`) after the last; the key is `name:number`.

    Raises DataLossError for a file without room for the header.
    """
    if len(exactly(source, header)) < header:
        raise DataLossError(f"{shown(name)}: shorter than its header of {header} bytes")
    step = hop or record
    least = record + footer
    held = b""
    number = 0
    while True:
        more = exactly(source, max(least - len(held), _PIECE))
        held += more
        count = max(0, (len(held) - least) // step + 1)
        if count:
            yield [
                (b"%s:%d" % (name, number + index), held[index * step : index * step + record])
                for index in range(count)
            ]
            number += count
        skipped = count * step - len(held)
        held = held[count * step :]
        while skipped > 0:
            piece = len(source.read(min(skipped, _PIECE)))
            if not piece:
                return
            skipped -= piece
        if not more:
            return


def lines(file: BinaryIO, name: bytes, skip: int = 0) -> Iterator[Block]:
    """Lines without their ends; the key is `name:number`, counted from 1 and with those skipped."""
    number = 1
    while found := file.readlines(_PIECE):
        first = min(max(0, skip + 1 - number), len(found))
        number += first
        yield [
            (b"%s:%d" % (name, index), (line[:-1] if line.endswith(b"\n") else line).replace(b"\r", b""))
            for index, line in enumerate(found[first:], number)
        ]
        number += len(found) - first


def whole(file: BinaryIO, name: bytes) -> Iterator[Block]:
    """All of the file; the key is its name."""
    yield [(name, file.read())]
