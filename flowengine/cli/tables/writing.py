"""Rows of fetched values into `.csv`, `.tsv`, `.parquet` and `.npz` files, or as CSV to standard output.

An output with several numbers for a row has a column for each in a file of texts, `scores.0`, `scores.1` and
so on, as such columns are fed; one of more axes is JSON in a cell. A Parquet file has lists. Rows are written
as they come, but for an `.npz` file, which is put together in memory.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import IO, Any, Final, Protocol

import numpy as np

from flowengine.cli import results
from flowengine.cli.digits import widened
from flowengine.cli.failure import STEP_ERROR, USAGE, CommandError
from flowengine.cli.tables.naming import DELIMITERS, PARQUET, STDOUT
from flowengine.core.arrays import Array

TABLE_KINDS: Final = (*DELIMITERS, PARQUET, ".npz")
#: Rows of a Parquet file that are written together: groups of a few rows would be slow to read.
_GROUP_ROWS: Final = 65_536


class RowSink(Protocol):
    """A file that takes rows."""

    def write(self, inputs: Mapping[str, Any], values: Mapping[str, Array]) -> None:
        """Append rows.

        inputs   {column of the table that was fed: its cells}
        values   {output: an array with a row along its first axis for each}
        """
        ...

    def finish(self) -> None:
        """Write what is left, after the last rows."""
        ...


def check_table_output(path: str, *, force: bool) -> None:
    """CommandError (usage) if rows cannot go into this kind of file, or into this place."""
    if path == STDOUT:
        return
    if os.path.splitext(path)[1].lower() not in TABLE_KINDS:
        raise CommandError(
            f"--output {path}: rows of a table go into a {', '.join(TABLE_KINDS)} file, or to -", USAGE
        )
    results.check_new_file(path, force=force)


@contextlib.contextmanager
def opened_sink(path: str) -> Iterator[RowSink]:
    """Open a file for rows, which is there when the block ends without an error, and else as it was.

    Raises CommandError where it cannot be written.
    """
    if path == STDOUT:
        sink: RowSink = _TextRows(sys.stdout, ",")
        yield sink
        sink.finish()
        return
    suffix = os.path.splitext(path)[1].lower()
    with results.replacing(path) as temporary:
        if suffix in DELIMITERS:
            with open(temporary, "w", encoding="utf-8", newline="") as file:
                sink = _TextRows(file, DELIMITERS[suffix])
                yield sink
                sink.finish()
            return
        sink = _ParquetRows(temporary) if suffix == ".parquet" else _ArchiveRows(temporary)
        yield sink
        sink.finish()


class _TextRows:
    """CSV, or the same with another delimiter."""

    def __init__(self, file: IO[str], delimiter: str) -> None:
        self._file = file
        self._writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        self._has_header = False

    def write(self, inputs: Mapping[str, Any], values: Mapping[str, Array]) -> None:
        columns = {name: _texts(np.asarray(cells, object)) for name, cells in inputs.items()}
        for name, array in values.items():
            columns |= _columns(name, array)
        if not self._has_header:
            self._writer.writerow(columns)
            self._has_header = True
        self._writer.writerows(zip(*columns.values(), strict=True))

    def finish(self) -> None:
        self._file.flush()  # before a message about these rows is printed


def _columns(name: str, array: Array) -> dict[str, list[Any]]:
    """{column: cells} of an output."""
    if array.ndim == 1:
        return {name: _texts(array)}
    if array.ndim == 2:
        if array.shape[1] == 1:
            return {name: _texts(array[:, 0])}
        return {f"{name}.{index}": _texts(array[:, index]) for index in range(array.shape[1])}
    return {name: [json.dumps(results.plain_json(row)) for row in array]}


def _texts(array: Array) -> list[Any]:
    """Cells as the writer takes them: floats with their shortest digits, strings as texts."""
    if array.dtype.kind == "b":
        return ["true" if each else "false" for each in array.tolist()]
    if array.dtype in (np.float16, np.float32):
        return list(map(str, array))  # as `widened`, with no way back to a float
    if array.dtype != object:
        return list(widened(array).tolist())
    return [each.decode("utf-8", "backslashreplace") if isinstance(each, bytes) else each for each in array]


class _ArchiveRows:
    """An `.npz` file with an array for each output."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._parts: dict[str, list[Array]] = {}

    def write(self, inputs: Mapping[str, Any], values: Mapping[str, Array]) -> None:
        kept = {name: _bytes(cells) for name, cells in inputs.items()}
        for name, array in {**kept, **values}.items():
            self._parts.setdefault(name, []).append(array)

    def finish(self) -> None:
        arrays = {name: np.concatenate(parts) for name, parts in self._parts.items()}
        with open(self._path, "wb") as file:
            results.write_archive(file, {key: results.storable(each, key) for key, each in arrays.items()})


def _bytes(cells: Any) -> Array:
    """Cells as an array that an archive can hold: numbers as they are, anything else as text."""
    if isinstance(cells, np.ndarray):
        return cells
    found = np.empty(len(cells), dtype=object)
    found[:] = [
        cell if isinstance(cell, bytes) else ("" if cell is None else str(cell)).encode() for cell in cells
    ]
    return found


class _ParquetRows:
    """A Parquet file, written by pyarrow in groups of many rows."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._writer: Any = None
        self._waiting: list[Any] = []
        self._count = 0

    def write(self, inputs: Mapping[str, Any], values: Mapping[str, Array]) -> None:
        import pyarrow

        columns = {name: pyarrow.array(_present(cells)) for name, cells in inputs.items()}
        for name, array in values.items():
            columns[name] = pyarrow.array(_nested(array))
        batch = pyarrow.table(columns)
        if self._waiting and batch.schema != self._waiting[0].schema:
            batch = batch.cast(self._waiting[0].schema)  # a batch without any value has no type of its own
        self._waiting.append(batch)
        self._count += batch.num_rows
        if self._count >= _GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        import pyarrow
        from pyarrow import parquet

        group = pyarrow.concat_tables(self._waiting)
        if self._writer is None:
            self._writer = parquet.ParquetWriter(self._path, group.schema)
        self._writer.write_table(group)
        # The last one stays as the pattern of those that follow.
        self._waiting, self._count = [group.slice(0, 0)], 0

    def finish(self) -> None:
        if self._waiting:
            self._flush()
        if self._writer is not None:
            self._writer.close()


def _present(cells: Any) -> Any:
    return cells if isinstance(cells, np.ndarray) else list(cells)


def _nested(array: Array) -> Any:
    """An output as pyarrow takes it: numbers as they are, strings as texts, rows of several as lists."""
    if array.dtype != object:
        stored = results.storable(array, "")
        return stored if array.ndim == 1 else list(stored.reshape(len(stored), -1))
    flat = [each.decode("utf-8", "backslashreplace") for each in array.reshape(-1).tolist()]
    if array.ndim == 1:
        return flat
    width = array.size // max(len(array), 1)
    return [flat[start : start + width] for start in range(0, len(flat), width)]


def check_can_write(path: str) -> None:
    """CommandError if what writes this kind of file is not installed."""
    if path.lower().endswith(".parquet"):
        try:
            import pyarrow  # noqa: F401 (only to see whether it is there)
        except ImportError:
            raise CommandError(
                f"--output {path}: Parquet files need pyarrow: pip install 'pyarrow>=17'", STEP_ERROR
            ) from None


__all__ = ["RowSink", "check_can_write", "check_table_output", "opened_sink"]
