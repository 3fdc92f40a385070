"""Columns of many CSV records at once, with a few operations on all of them instead of Python for each field.

Records of one file are usually alike: as many fields in each, no quotes. `columns_of` parses this form. If a
record has another form, or an error, the kernel parses field by field instead, and raises the error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.abandonment import check_wanted
from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.io.byte_runs import alike, common_lengths
from flowengine.kernels.io.turns import parsing_turn
from flowengine.kernels.strings.elements import FLOAT_BYTES_MAX, to_number

#: Records that are looked at together: their fields are as many objects, and one call of Python's makes them.
_TOGETHER: Final = 1024
_DIGITS: Final = b"0123456789,"
#: Of so many digits every number has 64 bits.
_DIGITS_MAX: Final = 18
_INTEGERS: Final = re.compile(rb"-?[0-9]+(?:,-?[0-9]+)*\Z")
_FLOATS: Final = re.compile(
    rb"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
    rb"(?:,[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)*\Z"
)


class Uneven(Exception):
    """The records are not of the usual form, or one of them is wrong."""


def columns_of(
    texts: Sequence[bytes],
    types: Sequence[DType],
    defaults: Sequence[Sequence[Any]],
    delimiter: bytes,
    na_value: bytes,
    chosen: Sequence[int],
    *,
    has_quotes: bool,
) -> list[Array] | None:
    """An array (records,) of each column, or None where the records have to be looked at one by one.

    chosen     the places of the columns, none for all
    defaults   of each column, in a list, which is empty for one that is required
    """
    parts: list[list[Array]] = []
    try:
        for begin in range(0, len(texts), _TOGETHER):
            check_wanted()
            some = texts[begin : begin + _TOGETHER]
            with parsing_turn():
                rows = _EvenRecords(some, delimiter, chosen, len(types), has_quotes=has_quotes)
                parts.append(_part(rows, types, defaults, na_value))
    except Uneven:
        return None
    return parts[0] if len(parts) == 1 else [np.concatenate(each) for each in zip(*parts, strict=True)]


def _part(
    rows: _EvenRecords, types: Sequence[DType], defaults: Sequence[Sequence[Any]], na_value: bytes
) -> list[Array]:
    """An array of each column of some records."""
    found: dict[int, Array] = {}
    if not na_value:
        numbers = [index for index, dtype in enumerate(types) if dtype.is_integer]
        found = rows.integers(numbers, types, defaults)
        found.update(
            rows.strings([index for index, dtype in enumerate(types) if dtype is dtypes.string], defaults)
        )
    others = [index for index in range(len(types)) if index not in found]
    for index, fields in zip(others, rows.fields(others), strict=True):
        found[index] = _column(fields, types[index], defaults[index], na_value)
    return [found[index] for index in range(len(types))]


class _EvenRecords:
    """Records of one form: as many fields in each, without quotes and ends of lines.

    Raises Uneven for records that are not. Fields become objects of Python only where they are asked for.
    """

    def __init__(
        self, texts: Sequence[bytes], delimiter: bytes, chosen: Sequence[int], count: int, *, has_quotes: bool
    ) -> None:
        self._texts = texts
        self._delimiter = delimiter
        joined = b"\n".join((*texts, b""))
        if b"\r" in joined or (has_quotes and b'"' in joined) or not all(texts):
            raise Uneven
        if joined.count(b"\n") != len(texts) or delimiter == b"\n":
            raise Uneven
        self._width = texts[0].count(delimiter) + 1
        self._places = list(chosen) or list(range(self._width))
        if len(self._places) != count or self._places[-1] >= self._width:
            raise Uneven
        self._joined = joined
        self._data = np.frombuffer(joined, np.uint8)
        #: Where fields begin, and how long they are: (fields of each, records).
        self._starts, self._lengths = self._bounds()

    def _bounds(self) -> tuple[Array, Array]:
        data = self._data
        is_end = data == self._delimiter[0]
        is_end |= data == ord("\n")
        ends = np.flatnonzero(is_end)
        if len(ends) != len(self._texts) * self._width:
            raise Uneven
        of_rows: Array = ends.reshape(-1, self._width)
        # As many as there are records: none of them is elsewhere.
        if (data[of_rows[:, -1]] != ord("\n")).any():
            raise Uneven
        places = np.ascontiguousarray(of_rows.T)
        starts = np.empty_like(places)
        starts[1:] = places[:-1]
        starts[0, 0] = -1
        starts[0, 1:] = places[-1, :-1]
        starts += 1
        places -= starts
        return starts, places

    def fields(self, columns: Sequence[int]) -> list[list[bytes]]:
        """The fields of each of these columns."""
        if not columns:
            return []
        every = self._delimiter.join(self._texts).split(self._delimiter)
        return [every[self._places[column] :: self._width] for column in columns]

    def integers(
        self, columns: Sequence[int], types: Sequence[DType], defaults: Sequence[Sequence[Any]]
    ) -> dict[int, Array]:
        """The arrays of those of these columns whose fields are all missing or decimal numbers that fit."""
        if not columns:
            return {}
        places = [self._places[column] for column in columns]
        starts, lengths = self._starts[places], self._lengths[places]
        values, is_number = _decimals(self._data, starts, lengths)
        found: dict[int, Array] = {}
        for row, column in enumerate(columns):
            limits = np.iinfo(types[column].as_numpy_dtype)
            if not is_number[row] or values[row].min() <= limits.min or values[row].max() >= limits.max:
                continue
            missing = lengths[row] == 0
            numbers = values[row].astype(types[column].as_numpy_dtype)
            if missing.any():
                if not defaults[column]:
                    raise Uneven
                numbers[missing] = defaults[column][0]
            found[column] = numbers
        return found

    def strings(self, columns: Sequence[int], defaults: Sequence[Sequence[Any]]) -> dict[int, Array]:
        """The arrays of those of these columns whose fields have few lengths."""
        found: dict[int, Array] = {}
        for column in columns:
            lengths = self._lengths[self._places[column]]
            common = common_lengths(lengths)
            if not common:
                continue
            found[column] = texts = alike(self._joined, self._starts[self._places[column]], lengths, common)
            if not common[0]:
                if not defaults[column]:
                    raise Uneven
                texts[lengths == 0] = defaults[column][0]
        return found


def _decimals(data: Array, starts: Array, lengths: Array) -> tuple[Array, Array]:
    """int64 (columns, records) of what is written in decimal digits, with a minus or without; 0 of nothing.

    And for each column whether its fields are nothing but that, of no more digits than 64 bits hold.
    """
    negative = (data[starts] == ord("-")) & (lengths > 1)
    digits = lengths - negative
    longest = digits.max(axis=1)
    is_number = longest <= _DIGITS_MAX
    values = np.zeros(starts.shape, np.int64)
    place, worth = starts + lengths, 1
    for number in range(min(int(longest.max()), _DIGITS_MAX)):
        place -= 1
        digit = data.take(place, mode="clip")
        digit -= ord("0")
        digit *= digits > number
        is_number &= digit.max(axis=1) <= 9
        values += digit * np.int64(worth)
        worth *= 10
    np.negative(values, out=values, where=negative)
    return values, is_number


def _column(fields: Sequence[bytes], dtype: DType, default: Sequence[Any], na_value: bytes) -> Array:
    missing = None
    if not all(fields) or (na_value and na_value in fields):
        if not default:
            raise Uneven
        missing = np.fromiter((not field or field == na_value for field in fields), np.bool_, len(fields))
    if dtype is dtypes.string:
        out = np.empty(len(fields), object)
        out[:] = fields
    else:
        # Those that are missing must be numbers, too, until they get their default.
        if missing is not None:
            fields = [
                b"0" if is_missing else field for field, is_missing in zip(fields, missing, strict=True)
            ]
        out = _numbers(fields, dtype)
    if missing is not None:
        out[missing] = default[0]
    return out


def _numbers(fields: Sequence[bytes], dtype: DType) -> Array:
    joined = b",".join(fields)
    if dtype.is_integer and (not joined.translate(None, _DIGITS) or _INTEGERS.match(joined)):
        found = np.fromstring(joined.decode(), np.int64, sep=",")
        bounds = np.iinfo(dtype.as_numpy_dtype)
        # What is beyond 64 bits is read as the last number within them.
        if found.min() <= bounds.min or found.max() >= bounds.max:
            found = _one_by_one(fields, dtype)
    elif dtype.is_floating and _FLOATS.match(joined) and max(map(len, fields)) < FLOAT_BYTES_MAX:
        found = np.fromstring(joined.decode(), np.float64, sep=",")
    else:
        found = _one_by_one(fields, dtype)
    if len(found) != len(fields):
        raise Uneven  # there are commas in fields, which something else separates
    with np.errstate(over="ignore"):
        return found.astype(dtype.as_numpy_dtype, copy=False)


def _one_by_one(fields: Sequence[bytes], dtype: DType) -> Array:
    try:
        with np.errstate(over="ignore"):
            return np.array([to_number(field, dtype, "") for field in fields], dtype.as_numpy_dtype)
    except InvalidArgumentError as error:
        raise Uneven from error
