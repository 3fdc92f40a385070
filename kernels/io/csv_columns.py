"""Columns of many CSV records at once, with a few operations on all of them instead of Python for each field.

Records of one file are alike: as many fields in each, no quotes. `columns_of` follows this form, and gives up
where records are not quite of it, or where anything is an error: whoever looks at one field after the other
has his turn then, and knows what to say.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import methodcaller
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.strings.elements import to_number

#: Records that are looked at together: their fields are as many objects, and one call of Python's makes them.
_TOGETHER: Final = 1024
_DIGITS: Final = b"0123456789,"
_INTEGERS: Final = re.compile(rb"-?[0-9]++(?:,-?[0-9]++)*+\Z")
_FLOATS: Final = re.compile(
    rb"[-+]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][-+]?[0-9]++)?"
    rb"(?:,[-+]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][-+]?[0-9]++)?)*+\Z"
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
            some = texts[begin : begin + _TOGETHER]
            columns = _split(some, delimiter, chosen, len(types), has_quotes=has_quotes)
            parts.append(
                [
                    _column(column, dtype, default, na_value)
                    for column, dtype, default in zip(columns, types, defaults, strict=True)
                ]
            )
    except Uneven:
        return None
    return parts[0] if len(parts) == 1 else [np.concatenate(each) for each in zip(*parts, strict=True)]


def _split(
    texts: Sequence[bytes], delimiter: bytes, chosen: Sequence[int], count: int, *, has_quotes: bool
) -> list[list[bytes]]:
    """The fields of each column."""
    joined = delimiter.join(texts)
    if b"\n" in joined or b"\r" in joined or (has_quotes and b'"' in joined) or not all(texts):
        raise Uneven
    width = texts[0].count(delimiter) + 1
    places = chosen or range(width)
    if set(map(methodcaller("count", delimiter), texts)) != {width - 1}:
        raise Uneven
    if len(places) != count or places[-1] >= width:
        raise Uneven
    fields = joined.split(delimiter)
    return [fields[place::width] for place in places]


def _column(fields: list[bytes], dtype: DType, default: Sequence[Any], na_value: bytes) -> Array:
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


def _numbers(fields: list[bytes], dtype: DType) -> Array:
    joined = b",".join(fields)
    if dtype.is_integer and (not joined.translate(None, _DIGITS) or _INTEGERS.match(joined)):
        found = np.fromstring(joined.decode(), np.int64, sep=",")
        bounds = np.iinfo(dtype.as_numpy_dtype)
        # What is beyond 64 bits is read as the last number within them.
        if found.min() <= bounds.min or found.max() >= bounds.max:
            found = _one_by_one(fields, dtype)
    elif dtype.is_floating and _FLOATS.match(joined):
        found = np.fromstring(joined.decode(), np.float64, sep=",")
    else:
        found = _one_by_one(fields, dtype)
    if len(found) != len(fields):
        raise Uneven  # there are commas in fields, which something else separates
    with np.errstate(over="ignore"):
        return found.astype(dtype.as_numpy_dtype, copy=False)


def _one_by_one(fields: list[bytes], dtype: DType) -> Array:
    try:
        with np.errstate(over="ignore"):
            return np.array([to_number(field, dtype, "") for field in fields], dtype.as_numpy_dtype)
    except InvalidArgumentError as error:
        raise Uneven from error
