"""Cells of a table's columns as the tensors that they feed.

A cell of text is a number, `true` or `false`, a text for a string tensor, or JSON's brackets for several
numbers. An empty one is NaN for a float and the empty text for a string; an integer has no value for it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from flowengine.cli.tables.reading import Cells, TextCells
from flowengine.core import dtypes
from flowengine.core.arrays import Array, is_same_number
from flowengine.core.dtypes import DType

_TRUTH: Final = {"true": True, "false": False}


class CellFault(Exception):
    """A cell that cannot be fed. `index` is that of its row in the batch."""

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index


def converted(name: str, cells: Cells, dtype: DType | None) -> Array:
    """Return a column as an array (N,) of a dtype, or (N, ...) where cells are lists; strings as bytes.

    dtype   None for float64 where all cells are numbers, and strings otherwise

    Raises CellFault for the first cell that has no such value, or another number of them than the first.
    """
    if dtype is None:
        try:
            return converted(name, cells, dtypes.float64)
        except CellFault:
            return converted(name, cells, dtypes.string)
    if isinstance(cells, np.ndarray):
        return _strings(cells.tolist()) if dtype is dtypes.string else _cast(name, cells, dtype, cells)
    kinds: set[Any] = {str} if type(cells) is TextCells else set(map(type, cells))
    if list in kinds:
        return _lists(name, cells, dtype)
    if dtype is dtypes.string:
        return _strings(cells)
    return _numbers(name, cells, dtype, kinds)


def _strings(cells: Sequence[Any]) -> Array:
    found = np.empty(len(cells), dtype=object)
    found[:] = [cell.encode() if isinstance(cell, str) else _bytes(cell) for cell in cells]
    return found


def _bytes(cell: Any) -> bytes:
    if cell is None:
        return b""
    return cell if isinstance(cell, bytes) else str(cell).encode()


def _numbers(name: str, cells: Sequence[Any], dtype: DType, kinds: set[type]) -> Array:
    quick = _quick(cells, dtype) if kinds == {str} else None
    if quick is not None:
        return _cast(name, quick, dtype, cells)
    values = []
    for index, cell in enumerate(cells):
        try:
            values.append(_number(cell, dtype))
        except ValueError as error:
            raise CellFault(index, f"column {name!r}: {error}") from None
    if any(isinstance(value, list) for value in values):
        return _lists(name, values, dtype)
    return _cast(name, np.array(values), dtype, cells)


def _quick(cells: Sequence[str], dtype: DType) -> Array | None:
    """The numbers of texts that are all plain ones; None for others."""
    parse: type = int if dtype.is_integer else float
    if dtype.is_complex or dtype.is_bool:
        return None
    if "_" in "".join(cells):  # which Python takes for a part of a number
        return None
    try:
        return np.fromiter(map(parse, cells), np.int64 if dtype.is_integer else np.float64, len(cells))
    except (ValueError, OverflowError):
        return None


def _number(cell: Any, dtype: DType) -> Any:
    """The value of a cell, or the list of them that JSON's brackets hold; ValueError for none."""
    if isinstance(cell, str):
        cell = cell.strip()
    if cell is None or cell == "":
        if dtype.is_floating or dtype.is_complex:
            return math.nan
        raise ValueError(f"it is empty, and {dtype} has no value for that")
    if not isinstance(cell, str):
        return cell
    if cell.lower() in _TRUTH:
        return _TRUTH[cell.lower()]
    if cell.startswith("["):
        found: list[Any] = json.loads(cell)
        return found
    parses: tuple[type, ...] = (int, float, complex) if dtype.is_complex else (int, float)
    for parse in parses:
        if "_" in cell:
            break
        try:
            return parse(cell)
        except ValueError:
            continue
    raise ValueError(f"{cell!r} is no {dtype}")


def _lists(name: str, cells: Sequence[Any], dtype: DType) -> Array:
    """Cells that are lists, each with as many values as the first."""
    rows: list[Array] = []
    for index, cell in enumerate(cells):
        try:
            row = np.array(cell, dtype=object if dtype is dtypes.string else None)
        except ValueError:
            raise CellFault(index, f"column {name!r}: its rows differ in length") from None
        if rows and row.shape != rows[0].shape:
            raise CellFault(
                index, f"column {name!r}: its shape is {list(row.shape)}, and before it {list(rows[0].shape)}"
            )
        rows.append(row)
    stacked = np.stack(rows)
    if dtype is dtypes.string:
        return _strings(stacked.reshape(-1).tolist()).reshape(stacked.shape)
    return _cast(name, stacked, dtype, cells)


def _cast(name: str, values: Array, dtype: DType, cells: Cells) -> Array:
    """Numbers in a dtype; CellFault for the first that it does not hold."""
    if values.dtype.kind not in "biufc" or (values.dtype.kind == "c" and not dtype.is_complex):
        flat = values.reshape(len(values), -1).tolist()
        at = next((i for i, row in enumerate(flat) if not all(map(_is_real, row))), 0)
        raise CellFault(at, f"column {name!r}: {cells[at]!r} is no {dtype}")
    with np.errstate(over="ignore", invalid="ignore"):
        found: Array = values.astype(dtype.as_numpy_dtype)
    if not (dtype.is_floating or dtype.is_complex) and not is_same_number(values, found):
        different = np.argwhere(values != found)
        at = int(different[0][0]) if len(different) else int(np.argmax(values))
        raise CellFault(at, f"column {name!r}: {cells[at]} is no {dtype}")
    return found


def _is_real(value: Any) -> bool:
    """Whether it is a number of at most 64 bits."""
    return isinstance(value, float) or (isinstance(value, int) and -(2**63) <= value < 2**64)


__all__ = ["CellFault", "converted"]
