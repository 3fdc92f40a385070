"""A dataset of the rows of CSV files (RFC 4180): quoted fields may hold delimiters and ends of lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final, TypeAlias

from flowengine.core.arrays import Value
from flowengine.core.errors import InvalidArgumentError
from flowengine.resources.data.dataset import DataIterator, DatasetValue, Iteration, Origin, scalar, text
from flowengine.resources.data.files import FileDataset
from flowengine.resources.elements import Element, ElementRun
from flowengine.resources.records import RecordSource, checked_compression, shown, source_of

_PIECE: Final = 256 * 1024
_LINE_END: Final = re.compile(rb"\r\n|\n|\r(?!\Z)")

#: From a row and its number to its element; InvalidArgumentError for a row that is none.
ReadsRow: TypeAlias = Callable[[bytes, int], Element]


class CSVDataset(DatasetValue):
    """The rows of CSV files, one file after the other, each read into scalars.

    An error of a row stands in its place, and the next element is that of the next row.
    """

    __slots__ = ("read", "rows")

    def __init__(
        self,
        origin: Origin,
        filenames: Value,
        compression_type: Value,
        buffer_size: Value,
        *,
        has_header: bool,
        delimiter: bytes,
        has_quotes: bool,
        read: ReadsRow,
    ) -> None:
        super().__init__(origin)
        if scalar(buffer_size, "buffer_size") <= 0:
            raise InvalidArgumentError("buffer_size should be positive")
        compression = checked_compression(text(compression_type, "compression_type"))

        def reads(file: BinaryIO, name: bytes) -> Iterator[ElementRun]:
            blocks = csv_rows(source_of(file, compression, name), delimiter, has_quotes=has_quotes)
            return _without_header(blocks, name) if has_header else blocks

        self.rows = FileDataset(origin, filenames, reads)
        self.read = read

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _CSVIterator(iteration, self)


class _CSVIterator(DataIterator):
    __slots__ = ("_read", "input", "number")

    FIELDS = ("number",)
    CHILDREN = ("input",)

    def __init__(self, iteration: Iteration, made: CSVDataset) -> None:
        super().__init__(iteration)
        self._read = made.read
        self.input = made.rows.iterator(iteration)
        #: Of the next row, counted through all files and without headers.
        self.number = 0

    async def next(self) -> Element | None:
        row = await self.input.next()
        if row is None:
            return None
        self.number += 1
        data: Any = row[0]
        return self._read(data, self.number - 1)


def _without_header(blocks: Iterator[ElementRun], name: bytes) -> Iterator[ElementRun]:
    first = next(blocks, None)
    if first is None:
        raise InvalidArgumentError(f"{shown(name)} is empty, but it must have a header line")
    yield first.part(1)
    yield from blocks


def csv_rows(source: RecordSource, delimiter: bytes, *, has_quotes: bool) -> Iterator[ElementRun]:
    """Rows without their ends (newline, carriage return, or both), a block at a time.

    A row whose quotes are out of place ends with its line; one whose last quote is missing, with the file.
    """
    row = _row(delimiter)
    held = b""
    size = _PIECE
    while True:
        piece = source.read(size)
        held += piece
        if has_quotes and b'"' in held:
            rows, at = _quoted_rows(held, row)
        else:
            *rows, rest = _LINE_END.split(held)
            at = len(held) - len(rest)
        # A row that is longer than what is read is looked at from its beginning again.
        size = _PIECE if rows else 2 * size
        held = held[at:]
        if not piece and held:
            rows.append(held[:-1] if held.endswith(b"\r") else held)
        if rows:
            yield ElementRun([rows])
        if not piece:
            return


def _row(delimiter: bytes) -> re.Pattern[bytes]:
    """A row as far as its line goes. Each byte fits in one way only, so that its time is linear."""
    other = b"[^\\r\\n" + re.escape(delimiter) + b"]"
    field = b'(?:"[^"]*(?:""[^"]*)*"(?!")' + other + b'*|(?!")' + other + b"*)"
    return re.compile(field + b"(?:" + re.escape(delimiter) + field + b")*")


def _quoted_rows(data: bytes, row: re.Pattern[bytes]) -> tuple[list[bytes], int]:
    """The rows whose ends are in the data, and where the last of them ends."""
    rows: list[bytes] = []
    at = 0
    while True:
        match = row.match(data, at)
        ended = None if match is None else _LINE_END.match(data, match.end())
        if match is None or ended is None:
            return rows, at
        rows.append(match.group())
        at = ended.end()
