"""Rows of `.csv`, `.tsv` and `.parquet` files, read a batch at a time.

    with open_table("flats.csv") as table:
        for rows in table.batches(256):
            rows.columns["district"]

The first line of a CSV file names the columns. Its cells are texts; those of a Parquet file have types. Never
is more than a batch in memory.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import TracebackType
from typing import Any, Final, Protocol, TypeAlias

from flowengine.cli.failure import BAD_FEED, CommandError
from flowengine.cli.tables.naming import DELIMITERS, PARQUET

#: Parts the columns where the comma is a decimal one: what spreadsheets of half of Europe write.
_OTHER_DELIMITER: Final = ";"
#: A cell may be a text of many pages, or a picture in base64. Python's own limit is 131,072.
_CELL_CHARACTERS_MAX: Final = 1 << 27
_COUNTED_BYTES: Final = 1 << 20


class TextCells(list[str]):
    """Cells of which each is a text, as far as nothing else says: nobody need look at them all."""


#: The cells of a column, one a row: texts, Python's values with None for none, or an array of numbers.
Cells: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class RowFault:
    """A row that cannot be used. `row` is its number, counted from 1."""

    row: int
    reason: str


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows that were read together.

    numbers   of each row, counted from 1
    columns   {column: its cells}
    faults    rows that are left out of the others
    """

    numbers: Sequence[int]
    columns: Mapping[str, Cells]
    faults: Sequence[RowFault] = ()

    def __len__(self) -> int:
        return len(self.numbers)

    def without(self, index: int) -> TableRows:
        """Return all rows but the one at an index."""
        kept = [each for each in range(len(self)) if each != index]
        columns = {name: _taken(cells, kept) for name, cells in self.columns.items()}
        return TableRows([self.numbers[each] for each in kept], columns)


def _taken(cells: Cells, kept: Sequence[int]) -> Cells:
    return [cells[each] for each in kept] if isinstance(cells, list) else cells[kept]


class TableFile(Protocol):
    """A table file, open for reading; a context manager."""

    path: str
    #: The columns, in order.
    names: list[str]

    def __enter__(self) -> TableFile: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def batches(self, size: int) -> Iterator[TableRows]:
        """Yield all rows, so many at a time; once."""
        ...

    def count(self) -> int:
        """Return about how many rows there are."""
        ...


def open_table(path: str) -> TableFile:
    """Open a table.

    Raises CommandError (a bad feed) for one that cannot be read, or that calls two columns the same.
    """
    suffix = os.path.splitext(path)[1].lower()
    try:
        table = _opened(path, suffix)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise unreadable(path, error) from error
    twice = sorted({name for name in table.names if table.names.count(name) > 1})
    if twice:
        table.__exit__(None, None, None)
        raise CommandError(f"--feed {path}: two columns are called {twice[0]!r}", BAD_FEED)
    return table


def _opened(path: str, suffix: str) -> TableFile:
    return _ParquetTable(path) if suffix == PARQUET else _TextTable(path, DELIMITERS[suffix])


def unreadable(path: str, error: Exception) -> CommandError:
    """Return the error of a table that cannot be read."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    if isinstance(error, UnicodeDecodeError):
        reason = f"it is no UTF-8 text ({error})"
    return CommandError(f"--feed {path}: cannot read it: {reason}", BAD_FEED)


class _TextTable:
    """A CSV file, or one whose columns are parted by something else."""

    def __init__(self, path: str, delimiter: str) -> None:
        self.path = path
        csv.field_size_limit(_CELL_CHARACTERS_MAX)
        self._file = open(path, encoding="utf-8-sig", newline="")  # noqa: SIM115 (closed by __exit__)
        try:
            first = self._file.readline()
            if delimiter not in first and _OTHER_DELIMITER in first:
                delimiter = _OTHER_DELIMITER
            self._file.seek(0)
            self._reader = csv.reader(self._file, delimiter=delimiter)
            self.names: list[str] = [name.strip() for name in next(self._reader, [])]
            if not any(self.names):
                raise CommandError(f"--feed {path}: it has no first line that names its columns", BAD_FEED)
            if all(map(_is_number, self.names)):
                raise CommandError(
                    f"--feed {path}: its first line is one of numbers: put a line before it that names the "
                    "columns",
                    BAD_FEED,
                )
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> _TextTable:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def batches(self, size: int) -> Iterator[TableRows]:
        first = 1
        while True:
            try:
                lines = list(islice(self._reader, size))
            except (OSError, UnicodeDecodeError, csv.Error) as error:
                raise unreadable(self.path, error) from error
            if not lines:
                return
            lines = list(filter(None, lines))  # without empty lines
            yield self._rows(first, lines)
            first += len(lines)

    def _rows(self, first: int, lines: list[list[str]]) -> TableRows:
        width = len(self.names)
        numbers: Sequence[int] = range(first, first + len(lines))
        faults = []
        if any(count != width for count in set(map(len, lines))):
            faults = [
                RowFault(number, f"it has {len(line)} cells for {width} columns")
                for number, line in zip(numbers, lines, strict=True)
                if len(line) != width
            ]
            numbers = [number for number, line in zip(numbers, lines, strict=True) if len(line) == width]
            lines = [line for line in lines if len(line) == width]
        columns = map(TextCells, zip(*lines, strict=True)) if lines else (TextCells() for _ in self.names)
        return TableRows(numbers, dict(zip(self.names, columns, strict=True)), faults)

    def count(self) -> int:
        """Return how many lines there are: more than rows where a cell has several."""
        with open(self.path, "rb") as file:
            lines = 0
            while piece := file.read(_COUNTED_BYTES):
                lines += piece.count(b"\n")
        return max(lines - 1, 0)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class _ParquetTable:
    """A Parquet file, read by pyarrow."""

    def __init__(self, path: str) -> None:
        self.path = path
        parquet = _parquet(f"--feed {path}")
        from pyarrow import ArrowException

        try:
            self._file: Any = parquet.ParquetFile(path)
        except ArrowException as error:
            raise unreadable(path, error) from error
        self.names: list[str] = list(self._file.schema_arrow.names)

    def __enter__(self) -> _ParquetTable:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def batches(self, size: int) -> Iterator[TableRows]:
        from pyarrow import ArrowException

        number = 0
        try:
            for batch in self._file.iter_batches(batch_size=size):
                columns = {
                    name: _cells(column) for name, column in zip(self.names, batch.columns, strict=True)
                }
                yield TableRows(range(number + 1, number + 1 + batch.num_rows), columns)
                number += batch.num_rows
        except (OSError, ArrowException) as error:
            raise unreadable(self.path, error) from error

    def count(self) -> int:
        count: int = self._file.metadata.num_rows
        return count


def _cells(column: Any) -> Cells:
    """A column of numbers without gaps as an array, any other as Python's values."""
    from pyarrow import types

    kind = column.type
    is_plain = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    return column.to_numpy(zero_copy_only=False) if is_plain and not column.null_count else column.to_pylist()


def _parquet(option: str) -> Any:
    """pyarrow's module for Parquet files; CommandError (a bad feed) where it is not installed."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise CommandError(
            f"{option}: Parquet files need pyarrow: pip install 'pyarrow>=17'", BAD_FEED
        ) from None
    return parquet


__all__ = ["Cells", "RowFault", "TableFile", "TableRows", "TextCells", "open_table", "unreadable"]
