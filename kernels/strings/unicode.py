"""Unicode: strings to code points and back, and from one encoding into another."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.registry import kernel
from flowengine.kernels.strings import encodings
from flowengine.kernels.strings.formatting import strings_like
from flowengine.kernels.strings.scripts import script_codes

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
    """Where each string's code points begin, and the end; and the code points of all (int32)."""
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
