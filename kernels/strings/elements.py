"""Strings element by element, and their hashes."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Final

import numpy as np

from flowengine.core.abandonment import each
from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.checksums.hashing import fingerprint64, murmur64, siphash24
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.fingerprints import fingerprints64
from flowengine.kernels.registry import kernel
from flowengine.kernels.strings.text import strings_like

# Strings element by element: length, parts, case, base64, and numbers read from them.
#
# Positions and lengths count bytes or UTF-8 characters. A character is a byte that does not continue one,
# with the bytes that do; no text is checked for being UTF-8, as TensorFlow checks none.

_CONTINUATION: Final = bytes(range(0x80, 0xC0))
#: What numbers are made of whose text Python and TensorFlow read in the same way, or not at all.
_PLAIN_INTEGER: Final = b"0123456789-"
_PLAIN_FLOAT: Final = b"0123456789.+-eE"
#: An integer of more digits is read alone: Python's time for one grows with their square.
_DIGITS_MAX: Final = 64
#: TensorFlow converts floating-point numbers of fewer bytes than these, with the white space around them.
FLOAT_BYTES_MAX: Final = 32
_HEXADECIMAL: Final = re.compile(rb"[ \t\n\v\f\r]*[+-]?0x[0-9a-f]+[ \t\n\v\f\r]*\Z", re.IGNORECASE)
_SPACE: Final = b" \t\n\v\f\r"
_INTEGER: Final = re.compile(rb"[ \t\n\v\f\r]*-?[0-9]+[ \t\n\v\f\r]*\Z")
_FLOAT: Final = re.compile(
    rb"[ \t\n\v\f\r]*[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|nan)[ \t\n\v\f\r]*\Z",
    re.IGNORECASE,
)


def _cost(strings: Any, *_: Any) -> float:
    """Microseconds: about 0.3 an element."""
    return 0.3 * float(getattr(strings, "size", 1))


def lengths_of(values: Sequence[Any], measure: Callable[[Any], int] = len, dtype: Any = np.int64) -> Array:
    """(N,): how long each is."""
    return np.fromiter(map(measure, values), dtype, len(values))


def mapped(strings: Value, function: Callable[[bytes], bytes]) -> Value:
    """`function` of each string, in the same shape, as long as the step wants it."""
    if isinstance(strings, bytes):
        return function(strings)
    array = to_array(strings)
    return strings_like(each(function, array.reshape(-1).tolist()), array.shape)


def shown(text: bytes) -> str:
    """The beginning of a string, for an error message."""
    return repr(text[:60])[1:] + ("..." if len(text) > 60 else "")


def characters(text: bytes) -> int:
    """How many UTF-8 characters begin in these bytes."""
    return len(text.translate(None, _CONTINUATION))


@kernel("StringLength", fresh=True, heavy=_cost)
def string_length(strings: Value, *, unit: bytes) -> Any:
    """Bytes or characters of each string (int32, of the input's shape)."""
    measure: Callable[[bytes], int] = characters if unit == b"UTF8_CHAR" else len
    if isinstance(strings, bytes):
        return np.int32(measure(strings))
    array = to_array(strings)
    return lengths_of(array.reshape(-1).tolist(), measure, np.int32).reshape(array.shape)


@kernel("StringLower", fresh=True, heavy=_cost)
def string_lower(strings: Value, *, encoding: bytes) -> Value:
    """Small letters for capitals: of ASCII only, or of all Unicode where `encoding` is utf-8."""
    return mapped(strings, _recased(encoding, bytes.lower, str.lower))


@kernel("StringUpper", fresh=True, heavy=_cost)
def string_upper(strings: Value, *, encoding: bytes) -> Value:
    """Capitals for small letters: of ASCII only, or of all Unicode where `encoding` is utf-8."""
    return mapped(strings, _recased(encoding, bytes.upper, str.upper))


def _recased(
    encoding: bytes, of_bytes: Callable[[bytes], bytes], of_text: Callable[[str], str]
) -> Callable[[bytes], bytes]:
    if not encoding:
        return of_bytes
    if encoding != b"utf-8":
        raise InvalidArgumentError(f"encoding must be '' or 'utf-8', not {shown(encoding)}")
    return lambda text: of_text(text.decode("utf-8", "replace")).encode()


@kernel("StringStrip", fresh=True, heavy=_cost)
def string_strip(strings: Value) -> Value:
    """Each string without ASCII white space at its ends."""
    return mapped(strings, lambda text: text.strip(_SPACE))


@kernel("EncodeBase64", fresh=True, heavy=_cost)
def encode_base64(strings: Value, *, pad: bool) -> Value:
    """Base64 in its web-safe alphabet, with `=` at the end only if `pad`."""
    if pad:
        return mapped(strings, base64.urlsafe_b64encode)
    return mapped(strings, lambda text: base64.urlsafe_b64encode(text).rstrip(b"="))


@kernel("DecodeBase64", fresh=True, heavy=_cost)
def decode_base64(strings: Value) -> Value:
    """The bytes that web-safe base64 stands for, padded or not; InvalidArgumentError for anything else."""
    return mapped(strings, _decoded_base64)


def _decoded_base64(text: bytes) -> bytes:
    bare = text[:-1] if text.endswith(b"=") else text
    bare = bare[:-1] if bare.endswith(b"=") else bare
    if len(bare) % 4 == 1 or (len(bare) != len(text) and len(text) % 4):
        raise InvalidArgumentError(f"Base64 string length ({len(text)} characters) is not valid")
    if b"+" in bare or b"/" in bare or b"=" in bare:
        raise InvalidArgumentError(f"Invalid character found in base64: {shown(text)}")
    try:
        return base64.b64decode(bare + b"=" * (-len(bare) % 4), b"-_", validate=True)
    except binascii.Error as error:
        raise InvalidArgumentError(f"Invalid character found in base64: {shown(text)}") from error


@kernel("StringToNumber", fresh=True, heavy=_cost)
def string_to_number(strings: Value, *, out_type: DType) -> Any:
    """Each string as a number, of the input's shape.

    Raises InvalidArgumentError for text that is no number of the type, or is out of its range.
    """
    array = to_array(strings)
    texts: list[bytes] = array.reshape(-1).tolist()
    values = _plain_numbers(texts, out_type)
    if values is None:
        complaint = "StringToNumberOp could not correctly convert string: "
        values = [to_number(text, out_type, complaint) for text in texts]
    return np.array(values, out_type.as_numpy_dtype).reshape(array.shape)


def _plain_numbers(texts: Sequence[bytes], dtype: DType) -> Sequence[float | int] | None:
    """Read each text as `to_number` does, or return None.

    None is for a text that has other than digits, signs, points and exponents, or is no number of the type.
    """
    if b"".join(texts).translate(None, _PLAIN_FLOAT if dtype.is_floating else _PLAIN_INTEGER):
        return None
    try:
        if dtype.is_floating:
            return None if max(map(len, texts), default=0) >= FLOAT_BYTES_MAX else list(map(float, texts))
        if max(map(len, texts), default=0) >= _DIGITS_MAX:
            return None
        numbers = list(map(int, texts))
    except ValueError:
        return None
    fits = dtype.min <= min(numbers, default=0) and max(numbers, default=0) <= dtype.max
    # Where there are no negative numbers, minus zero is no number either.
    return numbers if fits and (dtype.min < 0 or not any(b"-" in text for text in texts)) else None


def to_number(text: bytes, dtype: DType, complaint: str) -> float | int:
    """One number, white space around it allowed; InvalidArgumentError beginning with `complaint`."""
    if dtype.is_floating:
        fits = len(text) < FLOAT_BYTES_MAX
        if fits and _FLOAT.match(text):
            return float(text)
        if fits and _HEXADECIMAL.match(text):
            return float(int(text, 16))
    elif _INTEGER.match(text) and len(text) < _DIGITS_MAX and not (dtype.min == 0 and b"-" in text):
        number = int(text)
        if dtype.min <= number <= dtype.max:
            return number
    raise InvalidArgumentError(f"{complaint}{shown(text)}")


@kernel("Substr", fresh=True, heavy=_cost)
def substr(strings: Value, pos: Any, length: Any, *, unit: bytes) -> Value:
    """`len` bytes or characters from `pos` on; a negative `pos` counts from the end.

    The three broadcast together. Raises InvalidArgumentError where `pos` is outside of its string, and
    where the shapes do not fit.
    """
    in_bytes = unit != b"UTF8_CHAR"
    array, starts, lengths = to_array(strings), np.asarray(pos), np.asarray(length)
    if starts.shape != lengths.shape:
        raise InvalidArgumentError(
            f"pos and len should have the same shape, got: {list(starts.shape)} vs. {list(lengths.shape)}"
        )
    if not starts.ndim and in_bytes and (parts := _same_bytes(array, starts.item(), lengths.item())):
        return strings_like(parts, array.shape)
    if array.shape != starts.shape:
        array, starts, lengths = _broadcast(array, starts, lengths)
    rows = zip(
        array.reshape(-1).tolist(), starts.reshape(-1).tolist(), lengths.reshape(-1).tolist(), strict=True
    )
    cut = _cut_bytes if in_bytes else _cut_characters
    return strings_like([cut(*row) for row in rows], array.shape)


def _same_bytes(array: Array, pos: int, length: int) -> list[bytes]:
    """The same bytes of every string, from one that all of them have; nothing where one has not."""
    texts = array.reshape(-1).tolist()
    least = min(map(len, texts), default=-1)
    if (pos if pos >= 0 else -pos) > least:
        return []
    # An end that is counted from a negative place may lie behind the string's end.
    end = None if length < 0 or (pos < 0 and pos + length >= 0) else pos + length
    return list(map(itemgetter(slice(pos, end)), texts))


def _broadcast(*arrays: Array) -> tuple[Array, ...]:
    try:
        return tuple(np.broadcast_arrays(*arrays))
    except ValueError:
        shapes = " vs. ".join(str(list(a.shape)) for a in arrays)
        raise InvalidArgumentError(f"Incompatible shapes: {shapes}") from None


def _cut_bytes(text: bytes, pos: int, length: int) -> bytes:
    start = pos if pos >= 0 else pos + len(text)
    if not 0 <= start <= len(text):
        raise InvalidArgumentError(f"pos {pos} out of range for string b'{shown(text)}")
    return text[start:] if length < 0 else text[start : start + length]


def _cut_characters(text: bytes, pos: int, length: int) -> bytes:
    starts = [i for i, byte in enumerate(text) if byte & 0xC0 != 0x80]
    start = pos if pos >= 0 else pos + len(starts)
    if not 0 <= start <= len(starts):
        raise InvalidArgumentError(f"pos {pos} out of range for string b'{shown(text)}")
    ends = [*starts, len(text)]
    return text[ends[start] : ends[min(start + max(length, 0), len(starts))]]


# Strings into buckets by hash. The hashes are TensorFlow's own: models depend on the very numbers.


def _hash_cost(strings: Any) -> float:
    """Microseconds: about 3 a short string. It holds the interpreter, but lets the loop breathe."""
    return 3.0 * float(getattr(strings, "size", 1))


def _check_buckets(num_buckets: int) -> None:
    if num_buckets <= 0:
        raise InvalidArgumentError(f"num_buckets must be at least 1, but is {num_buckets}")


def _buckets(strings: Any, num_buckets: int, hashed: Callable[[bytes], int]) -> Any:
    array = to_array(strings)
    _check_buckets(num_buckets)
    numbers = [hashed(string) % num_buckets for string in array.reshape(-1).tolist()]
    return np.array(numbers, dtype=np.int64).reshape(array.shape)


@kernel("StringToHashBucketFast", fresh=True, heavy=_hash_cost)
def string_to_hash_bucket_fast(strings: Any, *, num_buckets: int) -> Any:
    """FarmHash's fingerprint modulo `num_buckets` (int64, of the input's shape)."""
    array = to_array(strings)
    _check_buckets(num_buckets)
    hashes = fingerprints64(array.reshape(-1).tolist())
    return (hashes % np.uint64(num_buckets)).astype(np.int64).reshape(array.shape)


@kernel("StringToHashBucketStrong", fresh=True, heavy=_hash_cost)
def string_to_hash_bucket_strong(strings: Any, *, num_buckets: int, key: tuple[int, ...]) -> Any:
    """SipHash under a key of two integers, modulo `num_buckets` (int64, of the input's shape)."""
    if len(key) != 2:
        raise InvalidArgumentError(f"Key must have 2 elements, but has {len(key)}")
    halves = (key[0] % 2**64, key[1] % 2**64)
    return _buckets(strings, num_buckets, lambda string: siphash24(halves, string))


@kernel("StringToHashBucket", fresh=True, heavy=_hash_cost)
def string_to_hash_bucket(strings: Any, *, num_buckets: int) -> Any:
    """The Murmur hash modulo `num_buckets` (int64, of the input's shape)."""
    return _buckets(strings, num_buckets, murmur64)


@kernel("Fingerprint", fresh=True, heavy=_hash_cost)
def fingerprint(data: Any, method: Any) -> Any:
    """FarmHash's fingerprint of each row of the data (uint8 (rows, 8), the lowest byte first).

    A row of one string has the string's fingerprint; one of more, that of their fingerprints' bytes.
    """
    array, name = to_array(data), to_array(method)
    if name.ndim or name.item() != b"farmhash64":
        raise InvalidArgumentError(f"`method` must be the scalar 'farmhash64', got {name.tolist()!r}")
    if not array.ndim:
        raise InvalidArgumentError("`data` should have at least one dimension, got a scalar")
    rows = len(array)
    width = math.prod(array.shape[1:])
    if array.dtype.kind == "O":
        array = fingerprints64(array.reshape(-1).tolist())
        if width == 1:
            return array.astype("<u8").view(np.uint8).reshape(rows, 8)
        array = array.astype("<u8")
    raw, size = array.tobytes(), width * array.dtype.itemsize
    hashes = [fingerprint64(raw[i * size : (i + 1) * size]) for i in range(rows)]
    return np.array(hashes, "<u8").view(np.uint8).reshape(rows, 8)
