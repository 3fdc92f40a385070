"""Text: encodings of characters, and values written as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from flowengine.core.abandonment import each
from flowengine.core.accounting import ask_for, is_asked, text_bytes
from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.dtypes import DType, string
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.registry import kernel
from flowengine.kernels.strings import encodings
from flowengine.kernels.strings.scripts import script_codes

# Unicode: strings to code points and back, and from one encoding into another.

_LAST_CODE_POINT: int = 0x10FFFF


def _cost(strings: Any, *_: Any) -> float:
    """Microseconds: about 1 an element."""
    return float(getattr(strings, "size", 1))


def _replacement(code: int) -> int:
    """The attribute `replacement_char`; InvalidArgumentError where it is no code point."""
    if not 0 <= code <= _LAST_CODE_POINT:
        raise InvalidArgumentError(f"replacement_char out of unicode codepoint range: {code}")
    return code


def _mended(
    decoded: encodings.DecodedText, errors: bytes, replacement_char: int, replace_control_characters: bool
) -> tuple[encodings.DecodedText, Array]:
    """Code points after what `errors` says of malformed parts, and of controls; and those that are kept.

    Raises InvalidArgumentError for a malformed part where `errors` is strict.
    """
    replacement = _replacement(replacement_char)
    if errors == b"strict" and decoded.malformed.any():
        row = int(np.searchsorted(decoded.splits, decoded.malformed.argmax(), side="right")) - 1
        raise InvalidArgumentError(f"Invalid formatting on input string (string {row} of the input)")
    wrong = decoded.malformed
    if replace_control_characters:
        wrong = wrong | (decoded.codes <= 0x1F)
    if not wrong.any():
        return decoded, np.ones(wrong.shape, np.bool_)
    kept = ~wrong if errors == b"ignore" else np.ones(wrong.shape, np.bool_)
    codes = np.where(wrong, np.int32(replacement), decoded.codes)[kept]
    before = np.zeros(kept.size + 1, np.int64)
    np.cumsum(kept, out=before[1:])
    mended = encodings.DecodedText(codes, decoded.widths, decoded.malformed, before[decoded.splits])
    return mended, kept


@kernel("UnicodeDecode", fresh=True, heavy=_cost)
def unicode_decode(
    strings: Value,
    *,
    input_encoding: bytes,
    errors: bytes,
    replacement_char: int,
    replace_control_characters: bool,
    Tsplits: DType,
) -> tuple[Array, Array]:
    """Return the start of each string's code points, and the end; and the code points of all (int32)."""
    decoded = encodings.decoder(input_encoding)(to_array(strings).reshape(-1).tolist())
    mended, _ = _mended(decoded, errors, replacement_char, replace_control_characters)
    return mended.splits.astype(Tsplits.as_numpy_dtype), mended.codes


@kernel("UnicodeDecodeWithOffsets", fresh=True, heavy=_cost)
def unicode_decode_with_offsets(
    strings: Value,
    *,
    input_encoding: bytes,
    errors: bytes,
    replacement_char: int,
    replace_control_characters: bool,
    Tsplits: DType,
) -> tuple[Array, Array, Array]:
    """As UnicodeDecode, and the byte at which each code point begins in its string (int64)."""
    decoded = encodings.decoder(input_encoding)(to_array(strings).reshape(-1).tolist())
    mended, kept = _mended(decoded, errors, replacement_char, replace_control_characters)
    ends = np.zeros(decoded.widths.size + 1, np.int64)
    np.cumsum(decoded.widths, out=ends[1:])
    starts = ends[:-1] - ends[decoded.splits[:-1]].repeat(np.diff(decoded.splits))
    return mended.splits.astype(Tsplits.as_numpy_dtype), mended.codes, starts[kept]


@kernel("UnicodeTranscode", fresh=True, heavy=_cost)
def unicode_transcode(
    strings: Value,
    *,
    input_encoding: bytes,
    output_encoding: bytes,
    errors: bytes,
    replacement_char: int,
    replace_control_characters: bool,
) -> Value:
    """Each string in another encoding."""
    array = to_array(strings)
    decoded = encodings.decoder(input_encoding)(array.reshape(-1).tolist())
    mended, _ = _mended(decoded, errors, replacement_char, replace_control_characters)
    return strings_like(encodings.encode(mended.codes, mended.splits, output_encoding), array.shape)


@kernel("UnicodeEncode", fresh=True, heavy=_cost)
def unicode_encode(
    values: Array,
    splits: Array,
    *,
    errors: bytes,
    output_encoding: bytes,
    replacement_char: int,
) -> Value:
    """The code points between every two splits as a string (values int32 (n,), splits (strings + 1,)).

    Raises InvalidArgumentError for bad splits, and where `errors` is strict for what is no character.
    """
    codes, bounds = np.asarray(values), np.asarray(splits)
    replacement = _replacement(replacement_char)
    _check_splits(bounds, codes.size)
    wrong = (codes < 0) | (codes > _LAST_CODE_POINT) | ((codes >= 0xD800) & (codes <= 0xDFFF))
    if wrong.any():
        if errors == b"strict":
            code = int(codes[wrong.argmax()])
            raise InvalidArgumentError(f"Code point is out of range for Unicode, or a noncharacter: {code}")
        if errors == b"ignore":
            before = np.zeros(codes.size + 1, np.int64)
            np.cumsum(~wrong, out=before[1:])
            codes, bounds = codes[~wrong], before[bounds]
        else:
            codes = np.where(wrong, np.int32(replacement), codes)
    return strings_like(encodings.encode(codes, bounds, output_encoding), (bounds.size - 1,))


def _check_splits(splits: Array, count: int) -> None:
    if splits.ndim != 1 or not splits.size:
        raise InvalidArgumentError(
            f"input_splits should be a vector of at least one, not {list(splits.shape)}"
        )
    if splits[0] != 0:
        raise InvalidArgumentError(f"First value in input_splits must be zero, got {splits[0]}")
    if (splits[1:] < splits[:-1]).any():
        raise InvalidArgumentError("Values in input_splits must be equal or in ascending order")
    if splits[-1] != count:
        raise InvalidArgumentError(
            f"Last value in input_splits must be equal to the {count} input values, got {splits[-1]}"
        )


@kernel("UnicodeScript", fresh=True)
def unicode_script(codes: Array) -> Array:
    """The script that each code point belongs to, by ICU's numbers; -1 for what is no code point (int32)."""
    return script_codes(np.asarray(codes))


# Strings from numbers, and from other strings.


def strings_like(values: Sequence[bytes], shape: tuple[int, ...]) -> Value:
    """Strings as a tensor of this shape: `bytes` for rank 0, else an object array."""
    if not shape:
        return values[0]
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array.reshape(shape)


@lru_cache(maxsize=256)
def _formatter(
    dtype: DType, precision: int, scientific: bool, shortest: bool, width: int, fill: bytes, is_finite: bool
) -> Callable[[Any], bytes]:
    """How one element is written; InvalidArgumentError for a combination that means nothing.

    is_finite   whether no float is infinite or a NaN
    """
    fractional = dtype.is_floating or dtype.is_complex
    is_whole = not fractional and dtype is not string
    if is_whole and (scientific or shortest):
        raise InvalidArgumentError(f"scientific and shortest format not supported for datatype {dtype}")
    if is_whole and precision >= 0:
        raise InvalidArgumentError(f"precision not supported for datatype {dtype}")
    if scientific and shortest:
        raise InvalidArgumentError("Cannot select both scientific and shortest notation")
    if len(fill) > 1:
        raise InvalidArgumentError(f"Fill string must be one or fewer characters, not {fill!r}")
    if fill and fill not in (b" ", b"+", b"-", b"0", b"#"):
        raise InvalidArgumentError(f"Fill argument not supported: {fill!r}")
    if dtype.is_bool:
        return lambda value: b"true" if value else b"false"
    if dtype is string:
        return (lambda value: value.ljust(width)) if fill == b"-" else lambda value: value.rjust(width)
    # C writes no sign of a type that has none, and leaves no room for one.
    has_sign = dtype.as_numpy_dtype.kind != "u"
    spec = b"%" + (fill if has_sign or fill not in (b" ", b"+") else b"")
    if width >= 0:
        spec += b"%d" % width
    if precision >= 0:
        spec += b".%d" % precision
    spec += (b"e" if scientific else b"g" if shortest else b"f") if fractional else b"d"
    if dtype.is_complex:
        return lambda value: b"(" + _float(spec, value.real) + b"," + _float(spec, value.imag) + b")"
    if dtype.is_floating and not is_finite:
        return lambda value: _float(spec, value)
    return spec.__mod__


def _float(spec: bytes, value: float) -> bytes:
    """C shows the sign of a NaN, and puts spaces in front of what is not finite; Python does not."""
    if not math.isfinite(value):
        spec = spec.replace(b"%0", b"%")
    if value != value and math.copysign(1.0, value) < 0:
        return (spec % -math.inf).replace(b"inf", b"nan")
    return spec % value


def _written_cost(values: Any, *_: Any) -> float:
    """Microseconds: about 0.5 an element."""
    return 0.5 * float(getattr(values, "size", 1))


@kernel("AsString", fresh=True, heavy=_written_cost)
def as_string(
    values: Any, *, T: DType, precision: int, scientific: bool, shortest: bool, width: int, fill: bytes
) -> Value:
    """Each number as C's printf writes it (string, of the input's shape); text only gets its width."""
    array = to_array(values)
    is_finite = T.is_floating and bool(np.isfinite(array).all())
    write = _formatter(T, precision, scientific, shortest, width, fill, is_finite)
    ask_for(array.size * (text_bytes(b"") + max(width, precision, 1)))
    return strings_like(each(write, array.reshape(-1).tolist()), array.shape)


def _join_cost(inputs: tuple[Value, ...], *_: Any) -> float:
    """Microseconds: about 0.3 an element, and 1 each 5 kB of scalars."""
    scalars = sum(_length(value) for value in inputs if isinstance(value, bytes) or not value.ndim)
    return 0.3 * max((getattr(value, "size", 1) for value in inputs), default=0) + scalars / 5000


@kernel("StringJoin", fresh=True, heavy=_join_cost)
def string_join(inputs: tuple[Value, ...], *, separator: bytes) -> Value:
    """Strings of several tensors joined element by element; those of rank 0 go with all others."""
    shape: tuple[int, ...] = ()
    for tensor in inputs:
        own = getattr(tensor, "shape", ())
        if own and shape and own != shape:
            raise InvalidArgumentError(f"Input shapes do not match: {list(shape)} vs. {list(own)}")
        shape = own or shape
    count = int(np.multiply.reduce(shape, dtype=np.int64))
    if is_asked():
        joined = sum(_length(tensor) * (1 if getattr(tensor, "shape", ()) else count) for tensor in inputs)
        ask_for(joined + count * text_bytes(separator * max(len(inputs) - 1, 0)))
    columns = []
    for tensor in inputs:
        array = to_array(tensor)
        columns.append(array.reshape(-1).tolist() if array.ndim else [array[()]] * count)
    return strings_like([separator.join(row) for row in zip(*columns, strict=True)], shape)


def _length(strings: Value) -> int:
    """How long all strings of a tensor are together."""
    if isinstance(strings, bytes):
        return len(strings)
    return sum(map(len, to_array(strings).reshape(-1).tolist()))


#: A number is hardly ever written longer.
_NUMBER_CHARACTERS: Final = 24

#: Bytes within a quoted string that are written in another way.
_ESCAPES: Final = [bytes([byte]).decode() if 0x20 <= byte < 0x7F else f"\\{byte:03o}" for byte in range(256)]
for _byte, _text in ((10, "\\n"), (13, "\\r"), (9, "\\t"), (34, '\\"'), (39, "\\'"), (92, "\\\\")):
    _ESCAPES[_byte] = _text


@kernel("StringFormat", heavy=_written_cost)
def string_format(inputs: tuple[Value, ...], *, template: bytes, placeholder: bytes, summarize: int) -> bytes:
    """The template with each placeholder replaced by the next input, written out with brackets.

    summarize   elements shown at both ends of each dimension, with `...` between; below 0: all
    Raises InvalidArgumentError unless there are as many placeholders as inputs, ResourceExhaustedError where
    a step's limit does not hold the text.
    """
    if placeholder:
        ask_for((template.count(placeholder) + 1) * text_bytes(b"") + len(template))
    pieces = template.split(placeholder) if placeholder else [b""] * (len(template) + 1)
    if len(pieces) - 1 != len(inputs):
        raise InvalidArgumentError(
            f"num placeholders in template and num inputs must match: {len(pieces) - 1} vs. {len(inputs)}"
        )
    out = [pieces[0]]
    made = len(template)
    for value, piece in zip(inputs, pieces[1:], strict=True):
        array = to_array(value)
        ask_for(made + _summary_bytes(array, summarize))
        out += [_summary(array, summarize).encode(), piece]
        made += len(out[-2])
    ask_for(2 * made)
    return b"".join(out)


def _summary_bytes(array: Array, summarize: int) -> int:
    """About what `_summary` takes: a text an element that is shown, and what they are joined to."""
    if not is_asked():
        return 0
    ends = array.size if summarize < 0 else summarize
    count = math.prod(min(size, 2 * ends + 1) for size in array.shape)
    if not array.dtype.hasobject:
        return count * (2 * text_bytes(b"") + 2 * _NUMBER_CHARACTERS)
    shown = array
    for axis, size in enumerate(array.shape):
        if size > 2 * ends:
            shown = np.take(shown, [*range(ends), *range(size - ends, size)], axis=axis)
    # A byte is four characters where it is not printable.
    return count * text_bytes(b"") + 8 * sum(map(len, shown.reshape(-1).tolist()))


def _summary(array: Array, summarize: int) -> str:
    at_ends = array.size if summarize < 0 else min(summarize, array.size)
    write = _element_writer(array)

    def rows(part: Array) -> Iterator[str]:
        ends = min(at_ends, len(part))
        yield from (render(part[i]) for i in range(ends))
        if len(part) > 2 * at_ends:
            yield "..."
        yield from (render(part[i]) for i in range(max(ends, len(part) - ends), len(part)))

    def render(part: Array) -> str:
        if part.ndim > 1:
            between = "\n" * (part.ndim - 1) + " " * (array.ndim - part.ndim + 1)
            shown = rows(part)
        else:
            between = " "
            left = part[:at_ends].tolist()
            right = part[max(len(left), len(part) - at_ends) :].tolist()
            middle = ["..."] if len(part) > 2 * at_ends else []
            shown = iter([*map(write, left), *middle, *map(write, right)])
        # Where nothing of a dimension is shown, the gap before the dots is.
        return f"[{'' if at_ends or not len(part) else between}{between.join(shown)}]"

    return render(array) if array.ndim else write(array.item())


def _element_writer(array: Array) -> Callable[[Any], str]:
    """How an element is written: strings quoted, floats as short as they are still told apart."""
    kind = array.dtype.kind
    if kind == "O":
        return _quoted
    if kind in "biu":
        return lambda value: str(int(value))
    if kind == "c":
        return lambda value: "?"
    if array.dtype == np.float64:
        return lambda value: _shortest(value, 15, 17, float)
    return lambda value: _shortest(float(value), 6, 9, lambda text: float(np.float32(text)))


def _shortest(value: float, digits: int, more: int, read: Callable[[str], float]) -> str:
    if value != value:
        return "nan"
    text = f"{value:.{digits}g}"
    return text if read(text) == value else f"{value:.{more}g}"


def _quoted(text: Any) -> str:
    return '"' + "".join([_ESCAPES[byte] for byte in text]) + '"' if isinstance(text, bytes) else "?"
