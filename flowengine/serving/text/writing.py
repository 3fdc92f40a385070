"""Values as JSON text, in pieces: floats with the shortest digits of their own type, `NaN` and `Infinity`."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.work_pieces import Pieces

#: Elements that are written at a time: about a millisecond.
_ELEMENTS: Final = 1024
#: (significant digits that any decimal of a type keeps, those that tell any two values apart, the exponent
#: below which it keeps fewer)
_DIGITS: Final = {"float32": (6, 9, -37), "float16": (3, 5, -4), "bfloat16": (2, 4, -37)}
#: So few numbers are written one by one, which takes less time than a dozen operations on arrays.
_FEW: Final = 32
#: Powers of ten that a float64 holds exactly, so that scaling by them rounds once.
_EXACT: Final = 22


def written(value: Any, *, as_base64: bool = False) -> Pieces[list[bytes]]:
    """Write an array, or a scalar of one, as nested lists; return the pieces of text.

    as_base64   whether strings are written as `{"b64": ...}`
    """
    array = np.asarray(value)
    flat = array.reshape(-1)
    if not array.size:
        return [_empty(array.shape)]
    row = array.shape[-1] if array.ndim else 1
    texts: list[bytes] = []
    for begin in range(0, flat.size, _ELEMENTS):
        part = flat[begin : begin + _ELEMENTS]
        elements = _elements(part, as_base64)
        text = _in_rows(elements, begin, row, array.shape) if array.ndim else elements[0]
        texts.append(text.encode("utf-8", "surrogateescape"))
        yield
    texts.append(b"]" * array.ndim)
    return texts


def _in_rows(elements: list[str], begin: int, row: int, shape: tuple[int, ...]) -> str:
    """Elements from a place on, with the brackets and commas that stand before each."""
    pieces = []
    place = 0
    while place < len(elements):
        index = begin + place
        until = min(len(elements), place + row - index % row)
        if index == 0:
            before = "[" * len(shape)
        elif index % row:
            before = ","
        else:
            closed, count = 0, index
            for size in reversed(shape):
                if count % size:
                    break
                closed += 1
                count //= size
            before = "]" * closed + "," + "[" * closed
        pieces.append(before + ",".join(elements[place:until]))
        place = until
    return "".join(pieces)


def _empty(shape: tuple[int, ...]) -> bytes:
    text = b"[]"
    for size in reversed(shape[: shape.index(0)]):
        text = b"[" + b",".join([text] * size) + b"]"
    return text


def _elements(part: Array, as_base64: bool) -> list[str]:
    """Return the text of each element."""
    if part.dtype == object or part.dtype.kind in "SU":
        strings = [each if isinstance(each, bytes) else str(each).encode() for each in part.tolist()]
        if as_base64:
            return [f'{{"b64":"{base64.b64encode(each).decode()}"}}' for each in strings]
        return [json.dumps(each.decode("utf-8", "surrogateescape"), ensure_ascii=False) for each in strings]
    if part.dtype.name in _DIGITS:
        if part.size <= _FEW and part.dtype.name == "float32":
            return [json.dumps(float(str(each))) for each in part]
        part = _shortest(part)
    return json.dumps(part.tolist(), separators=(",", ":"))[1:-1].split(",")


def _shortest(values: Array) -> Array:
    """The float64 values whose shortest digits are those of narrower floats.

    Each is rounded to so many significant digits that it reads back as the same; what cannot be scaled
    exactly is rounded as text.
    """
    least, most, normal = _DIGITS[values.dtype.name]
    wide = values.astype(np.float64)
    result = wide.copy()
    todo = np.isfinite(wide) & (wide != 0)
    with np.errstate(all="ignore"):
        exponents = np.floor(np.log10(np.abs(np.where(todo, wide, 1.0)))).astype(np.int64)
        exact = (exponents >= max(most - 1 - _EXACT, normal)) & (exponents <= _EXACT)
        for digits in range(least, most + 1):
            places = digits - 1 - exponents
            scale = np.power(10.0, np.abs(places))
            rounded = np.where(places >= 0, np.rint(wide * scale) / scale, np.rint(wide / scale) * scale)
            same = todo & exact & (rounded.astype(values.dtype) == values)
            result[same] = rounded[same]
            todo &= ~same
            if not todo.any():
                return result
        for place in np.flatnonzero(todo):
            rounded_ones = (float(f"{wide[place]:.{digits - 1}e}") for digits in range(1, most + 1))
            result[place] = next(
                each for each in rounded_ones if np.float64(each).astype(values.dtype) == values[place]
            )
    return result


__all__ = ["written"]
