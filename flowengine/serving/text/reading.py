"""JSON text as Python values, in pieces; nested lists of numbers as arrays.

TensorFlow Serving's grammar: `NaN`, `Inf` and `Infinity` are numbers, the text may go on behind the value,
and lists may be nested to any depth. Errors are worded as there, since clients look for them. What it lets
pass and is refused here: a key that an object has twice.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.work_pieces import Pieces

#: The bytes of text that are read at a time: about a millisecond of numbers.
SLICE_BYTES: Final = 32 * 1024
#: Tokens that are read at a time outside of arrays of numbers.
_TOKENS: Final = 2000
#: A list of fewer bytes is read as any other value.
_NUMBERS_MIN: Final = 512
#: Dimensions of an array of numbers; deeper lists stay lists.
_RANK_MAX: Final = 32

_SPACE: Final = re.compile(rb"[ \t\n\r]*")
_STRING: Final = re.compile(rb'"([^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*)"', re.DOTALL)
_NUMBER: Final = re.compile(rb"-?(?:0|[1-9][0-9]*)((?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)")
_NUMERIC: Final = re.compile(rb"[-+0-9.eE,\s\[\]]*")
_WORDS: Final = {
    b"true": True,
    b"false": False,
    b"null": None,
    b"NaN": float("nan"),
    b"Infinity": float("inf"),
    b"-Infinity": float("-inf"),
    b"Inf": float("inf"),
    b"-Inf": float("-inf"),
}
_WORD: Final = re.compile(rb"true|false|null|NaN|-?Inf(?:inity)?")
_LARGE_EXPONENT: Final = re.compile(rb"[eE][-+]?0*[0-9]{3}")
_HALF_PAIR: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_DIGITS_TO_ZEROS: Final = bytes.maketrans(b"123456789", b"0" * 9)
_BRACKETS_TO_SPACES: Final = bytes.maketrans(b"[]", b"  ")
_NOT_STRUCTURE: Final = bytes(each for each in range(256) if each not in b"[],")


def reading(data: bytes, *, whole: bool = False) -> Pieces[Any]:
    """Read the JSON value at the beginning of a text in UTF-8.

    whole   whether nothing may follow it

    Lists that hold only numbers, in lists of equal lengths, may come as arrays of int64 or float64. Whole
    numbers are ints, all others floats. Raises InvalidArgumentError with the place of what is wrong.
    """
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    if len(data) <= SLICE_BYTES and not _is_unlike(data):
        try:
            return json.loads(data.decode("utf-8", "surrogateescape"), object_pairs_hook=_object)
        except (ValueError, RecursionError):
            pass  # it may go on behind the value, be nested deeply, or be wrong: read below
    text = _JsonText(data)
    value, end = yield from text.read()
    if whole:
        text.check_end(end)
    return value


def _is_unlike(data: bytes) -> bool:
    """Whether the standard library may read a text otherwise: large numbers, `Inf`, halves of pairs.

    One expression for all would take as long as reading a text that is mostly digits.
    """
    return bool(
        b"Inf" in data
        or (b"\\u" in data and _HALF_PAIR.search(data))
        or _LARGE_EXPONENT.search(data)
        or b"0" * 20 in data.translate(_DIGITS_TO_ZEROS)
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise _twice(next(name for name in names if names.count(name) > 1))
    return found


def _twice(name: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"JSON Parse error: an object has the key {json.dumps(name)[:100]} twice")


class _JsonText:
    """One text that is read from its beginning on."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        #: Up to here no list is an array of numbers: it was tried.
        self._tried = 0

    def read(self) -> Pieces[tuple[Any, int]]:
        """The value and the place behind it."""
        data, stack, keys = self._data, [], []  # type: ignore[var-annotated]
        place = self._skip(0)
        if place == len(data):
            raise InvalidArgumentError("JSON Parse error: The document is empty. at offset: 0")
        tokens = 0
        while True:
            tokens += 1
            if not tokens % _TOKENS:
                yield
            opening = data[place : place + 1]
            value: Any
            if opening == b"[":
                found = (yield from self._numbers(place)) if place >= self._tried else None
                if found is not None:
                    value, place = found
                else:
                    place = self._skip(place + 1)
                    if data[place : place + 1] != b"]":
                        stack.append([])
                        continue
                    value, place = [], place + 1
            elif opening == b"{":
                place = self._skip(place + 1)
                if data[place : place + 1] != b"}":
                    stack.append({})
                    name, place = self._key(place)
                    keys.append(name)
                    continue
                value, place = {}, place + 1
            else:
                value, place = self._scalar(place)
            while stack:
                tokens += 1
                if not tokens % _TOKENS:
                    yield
                holder = stack[-1]
                place = self._skip(place)
                after = data[place : place + 1]
                if type(holder) is list:
                    holder.append(value)
                    if after == b",":
                        place = self._skip(place + 1)
                        break
                    if after != b"]":
                        raise self._wrong("Missing a comma or ] after an array element.", place)
                else:
                    name = keys.pop()
                    if name in holder:
                        raise _twice(name)
                    holder[name] = value
                    if after == b",":
                        name, place = self._key(self._skip(place + 1))
                        keys.append(name)
                        break
                    if after != b"}":
                        raise self._wrong("Missing a comma or } after an object member.", place)
                place += 1
                value = stack.pop()
            else:
                return value, place

    def check_end(self, place: int) -> None:
        """InvalidArgumentError if more than white space follows a place."""
        if self._skip(place) < len(self._data):
            raise self._wrong("The document root must not be followed by other values.", place)

    def _skip(self, place: int) -> int:
        return _SPACE.match(self._data, place).end()  # type: ignore[union-attr]

    def _wrong(self, what: str, place: int) -> InvalidArgumentError:
        return InvalidArgumentError(f"JSON Parse error: {what} at offset: {place}")

    def _key(self, place: int) -> tuple[str, int]:
        if self._data[place : place + 1] != b'"':
            raise self._wrong("Missing a name for object member.", place)
        name, place = self._string(place)
        place = self._skip(place)
        if self._data[place : place + 1] != b":":
            raise self._wrong("Missing a colon after a name of object member.", place)
        return name, self._skip(place + 1)

    def _scalar(self, place: int) -> tuple[Any, int]:
        data = self._data
        if data[place : place + 1] == b'"':
            return self._string(place)
        number = _NUMBER.match(data, place)
        if number is not None:
            return self._number(number)
        word = _WORD.match(data, place)
        if word is None:
            raise self._wrong("Invalid value.", place)
        return _WORDS[word[0]], word.end()

    def _number(self, number: re.Match[bytes]) -> tuple[Any, int]:
        end = number.end()
        after = self._data[end : end + 1]
        if after == b".":
            raise self._wrong("Miss fraction part in number.", end)
        if after in (b"e", b"E"):
            raise self._wrong("Miss exponent in number.", end)
        text = number[0]
        if not number[1] and len(text) <= 20:
            whole = int(text)
            if -(2**63) <= whole < 2**64:
                return whole, end
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise self._wrong("Number too big to be stored in double.", number.start())
        return value, end

    def _string(self, place: int) -> tuple[str, int]:
        found = _STRING.match(self._data, place)
        if found is None:
            control = re.compile(rb"[\x01-\x1f]").search(self._data, place)
            quote = self._data.find(b'"', place + 1)
            if control is not None and (quote < 0 or control.start() < quote):
                raise self._wrong("Invalid encoding in string.", control.start())
            raise self._wrong("Missing a closing quotation mark in string.", place)
        text = found[1].decode("utf-8", "surrogateescape")
        if "\\" in text:
            try:
                text = json.loads(f'"{text}"')
            except ValueError as error:
                reason = (
                    "Incorrect hex digit after \\u escape in string."
                    if "\\u" in str(error) or "\\uXXXX" in str(error)
                    else "Invalid escape character in string."
                )
                raise self._wrong(reason, place) from None
            if re.search("[\ud800-\udfff]", text) and re.search(rb"\\u[dD][89a-fA-F]", found[1]):
                raise self._wrong("The surrogate pair in string is invalid.", place)
        return text, found.end()

    def _numbers(self, place: int) -> Pieces[tuple[Array, int] | None]:
        """The array that begins here and the place behind it; None unless it is a large one of numbers."""
        data = self._data
        beginning = _NUMERIC.match(data, place, place + _NUMBERS_MIN)
        if beginning is None or beginning.end() - place < _NUMBERS_MIN:
            return None
        end = yield from self._end_of_numbers(place)
        if end is None:
            return None
        parts, structures = [], []
        while place < end:
            cut = min(place + SLICE_BYTES, end)
            if cut < end:
                cut = data.rfind(b",", place, cut) + 1 or end
            piece = data[place:cut]
            structures.append(piece.translate(None, _NOT_STRUCTURE))
            found = _parsed(piece.removesuffix(b",") if cut < end else piece)
            if found is None:
                self._tried = end
                return None
            parts.append(found)
            place = cut
            yield
        shape = _shape(b"".join(structures))
        values = np.concatenate(parts)
        if shape is None or values.size != np.prod(shape, dtype=object):
            self._tried = end
            return None
        return values.reshape(shape), end

    def _end_of_numbers(self, place: int) -> Pieces[int | None]:
        """The place behind the list that begins here, if it holds numbers and lists only."""
        data, depth = self._data, 0
        while place < len(data):
            found = _NUMERIC.match(data, place, place + SLICE_BYTES)
            assert found is not None
            piece = found[0]
            closing = piece.count(b"]")
            if depth - closing <= 0:
                for each in re.finditer(rb"[\[\]]", piece):
                    depth += 1 if each[0] == b"[" else -1
                    if depth == 0:
                        return place + each.end()
            else:
                depth += piece.count(b"[") - closing
            place = found.end()
            if len(piece) < SLICE_BYTES:
                break
            yield
        self._tried = place
        return None


def _parsed(piece: bytes) -> Array | None:
    """The numbers of a piece of nested lists; None for any that need a closer look."""
    try:
        values = np.array(json.loads(b"[" + piece.translate(_BRACKETS_TO_SPACES) + b"]"))
    except (ValueError, OverflowError):
        return None
    if values.dtype == np.int64:
        return values
    return values if values.dtype == np.float64 and np.isfinite(values).all() else None


def _shape(structure: bytes) -> tuple[int, ...] | None:
    """The shape of nested lists by their brackets and commas; None if lengths differ."""
    depth = len(structure) - len(structure.lstrip(b"["))
    if depth > _RANK_MAX:
        return None
    expected, shape = b"", [0] * depth
    for level in range(depth - 1, -1, -1):
        end = structure.find(b"]" * (depth - level))
        if end < 0:
            return None
        # The first list of this level, its brackets among it.
        length = end + depth - level - level
        shape[level], rest = divmod(length - 1, len(expected) + 1)
        if rest:
            return None
        expected = b"[" + b",".join([expected] * shape[level]) + b"]"
    return tuple(shape) if structure == expected else None


__all__ = ["SLICE_BYTES", "reading"]
