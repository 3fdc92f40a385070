"""Filling lookup tables from the lines of text files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.file_access import path_of, read_lines
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel
from flowengine.kernels.state.tables import as_hash_table

#: What a column index below 0 means.
_WHOLE_LINE: Final = -2
_LINE_NUMBER: Final = -1


def _check_column(index: int, dtype: DType, what: str) -> None:
    if index == _LINE_NUMBER and dtype is not dtypes.int64:
        raise InvalidArgumentError(
            f"{what} index for line number requires table {what.lower()} dtype of int64, got {dtype}"
        )
    if index == _WHOLE_LINE and not dtype.is_integer and dtype is not dtypes.string:
        raise InvalidArgumentError(
            f"{what} index for whole line requires string or integer table {what.lower()}, got {dtype}"
        )


def _converter(dtype: DType, path: str) -> Callable[[bytes, int], Any]:
    """From a token to an element: the same token twice gives the same Python object's value."""
    if dtype is dtypes.string:
        return lambda token, line: token
    numpy_dtype = dtype.as_numpy_dtype
    limits = np.iinfo(numpy_dtype) if dtype.is_integer else None

    def convert(token: bytes, line: int) -> Any:
        try:
            if limits is None:
                return numpy_dtype.type(float(token)).item()
            number = int(token)
            if limits.min <= number <= limits.max:
                return number
        except ValueError:
            pass
        raise InvalidArgumentError(
            f"Field {token.decode('utf-8', 'replace')} in line {line} of {path} is not a valid {dtype}."
        )

    return convert


def _column(index: int, dtype: DType, path: str, offset: int) -> Callable[[bytes, list[bytes], int], Any]:
    if index == _LINE_NUMBER:
        return lambda line, tokens, number: number + offset
    convert = _converter(dtype, path)
    if index == _WHOLE_LINE:
        return lambda line, tokens, number: convert(line, number)
    return lambda line, tokens, number: convert(tokens[index], number)


def _entries(
    lines: list[bytes],
    path: str,
    delimiter: bytes,
    columns: tuple[int, int],
    types: tuple[DType, DType],
    offset: int,
) -> Iterator[tuple[Any, Any]]:
    last = max(columns)
    key_of = _column(columns[0], types[0], path, offset)
    value_of = _column(columns[1], types[1], path, offset)
    for number, line in enumerate(lines):
        if not line:
            raise InvalidArgumentError(f"Invalid content in {path}: empty line found at line {number}.")
        tokens = line.split(delimiter) if last >= 0 else []
        if last >= len(tokens) and last >= 0:
            raise InvalidArgumentError(
                f"Invalid number of columns in {path} line {number} "
                f"({line.decode('utf-8', 'replace')}) : expected {last + 1} got {len(tokens)}"
            )
        yield key_of(line, tokens, number), value_of(line, tokens, number)


@kernel("InitializeTableFromTextFile", "InitializeTableFromTextFileV2")
async def initialize_table_from_text_file(
    table_handle: Any,
    filename: Any,
    *,
    ctx: KernelContext,
    key_index: int,
    value_index: int,
    vocab_size: int,
    delimiter: bytes,
    offset: int,
) -> None:
    """Fill a table from a file, a line an entry; nothing happens where it is filled already.

    A column index of -1 stands for the line's number plus `offset`, of -2 for the whole line. `vocab_size`
    lines are read, all of them for -1. Raises InvalidArgumentError for lines that do not fit, and as
    reading does.
    """
    table = as_hash_table(table_handle)
    _check_column(key_index, table.key_dtype, "Key")
    _check_column(value_index, table.value_dtype, "Value")
    if len(delimiter) != 1:
        raise InvalidArgumentError(f"delimiter should be only 1 char, not {delimiter!r}")
    path = path_of(filename)
    lines = await read_lines(ctx, path)
    if vocab_size != -1:
        if len(lines) < vocab_size:
            raise InvalidArgumentError(
                f"Invalid vocab_size in {path}: expected {vocab_size} but got {len(lines)}"
            )
        lines = lines[:vocab_size]
    if not table.is_initialized:
        columns = (key_index, value_index)
        types = (table.key_dtype, table.value_dtype)
        table.initialize(_entries(lines, path, delimiter, columns, types, offset), len(lines))
