"""A dataset of the rows that a query of a SQLite database gives, read on threads and never written.

A value becomes what its column is declared to be by SQLite's own rules: a text is the number that it begins
with, a number the text that SQLite writes for it, and what is missing zero or empty.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from typing import Any, BinaryIO, Final
from urllib.parse import quote

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Value
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, UnknownError
from flowengine.resources.data.dataset import Origin, text
from flowengine.resources.data.files import FileDataset
from flowengine.resources.elements import ElementRun

#: Rows that are read at a time.
_ROWS: Final = 256
_REAL: Final = re.compile(rb"[ \t\n\v\f\r]*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)")
_INTEGER: Final = re.compile(rb"[ \t\n\v\f\r]*([+-]?[0-9]+)")
_INT64: Final = (-(2**63), 2**63 - 1)

#: What SQLite gives for a value.
_Stored = int | float | bytes | None


def sql_dataset(origin: Origin, driver_name: Value, data_source_name: Value, query: Value) -> FileDataset:
    """The rows that a query gives.

    Raises InvalidArgumentError for another driver than "sqlite", and for types that no column has. The
    elements raise NotFoundError where there is no file, UnknownError with SQLite's message for a query that
    it refuses, as it does what would write or open another file, and InvalidArgumentError for another number
    of columns.
    """
    driver = text(driver_name, "driver_name")
    if driver != b"sqlite":
        raise InvalidArgumentError(
            f"driver_name is {driver.decode(errors='replace')!r}; the only driver is 'sqlite'"
        )
    statement = text(query, "query").decode("utf-8", "surrogateescape")
    columns = [_COLUMNS.get(dtype) for dtype in origin.attrs["output_types"]]
    if None in columns:
        wrong = next(t for t, column in zip(origin.attrs["output_types"], columns, strict=True) if not column)
        raise InvalidArgumentError(f"a column of a query cannot be of type {wrong.name}")

    def reads(file: BinaryIO, name: bytes) -> Iterator[ElementRun]:
        return _rows(os.path.abspath(os.fsdecode(name)), statement, [each for each in columns if each])

    return FileDataset(origin, data_source_name, reads)


def _rows(path: str, query: str, columns: list[Callable[[_Stored], Value]]) -> Iterator[ElementRun]:
    try:
        # Blocks are read by one thread after the other.
        with closing(
            sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, check_same_thread=False)
        ) as database:
            database.text_factory = bytes
            database.set_authorizer(_may)
            cursor = database.execute(query)
            found = len(cursor.description or ())
            if found != len(columns):
                raise InvalidArgumentError(
                    f"The number of columns in query ({found}) must match the number of elements in "
                    f"output_types ({len(columns)})."
                )
            while rows := cursor.fetchmany(_ROWS):
                made = zip(columns, zip(*rows, strict=True), strict=True)
                yield ElementRun([list(map(column, values)) for column, values in made])
    except sqlite3.Error as error:
        raise UnknownError(f"{path}: {error}: {query}") from error


def _may(action: int, *_: Any) -> int:
    """Whether a query may do something: what only reads this file."""
    reading = (
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    )
    return sqlite3.SQLITE_OK if action in reading else sqlite3.SQLITE_DENY


def _as_real(value: _Stored) -> float:
    if isinstance(value, bytes):
        match = _REAL.match(value)
        return float(match[1]) if match else 0.0
    return float(value or 0)


def _as_int64(value: _Stored) -> int:
    if isinstance(value, bytes):
        match = _INTEGER.match(value)
        value = int(match[1]) if match else 0
    least, most = _INT64
    if isinstance(value, float):
        # What is too large for a number of 64 bits is the nearest of them.
        return most if value >= most else least if value <= least else int(value)
    return min(max(value or 0, least), most)


def _as_text(value: _Stored) -> bytes:
    if value is None:
        return b""
    if isinstance(value, bytes):
        return value
    if isinstance(value, int):
        return b"%d" % value
    mantissa, sign, exponent = f"{value:.15g}".partition("e")
    whole = mantissa if "." in mantissa or not mantissa.lstrip("-").isdigit() else f"{mantissa}.0"
    return f"{whole}{sign}{exponent}".encode()


def _wrapped(value: _Stored, dtype: DType) -> Value:
    """The lowest bits of a number, as SQLite's numbers of 32 bits are made."""
    return np.int64(_as_int64(value)).astype(dtype.as_numpy_dtype)


_COLUMNS: Final[Mapping[DType, Callable[[_Stored], Value]]] = {
    dtypes.string: _as_text,
    dtypes.int64: lambda value: np.int64(_as_int64(value)),
    dtypes.float64: lambda value: np.float64(_as_real(value)),
    dtypes.bool_: lambda value: np.bool_(_wrapped(value, dtypes.int32) != 0),
    **{
        dtype: partial(_wrapped, dtype=dtype)
        for dtype in (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.uint8, dtypes.uint16)
    },
}
