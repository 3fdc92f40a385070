"""Numbers and tensors out of strings of bytes, and tensors into them; rows of CSV."""

from __future__ import annotations

import itertools
import sys
import zlib
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.accounting import ask_for, is_asked
from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import DataLossError, InvalidArgumentError, ResourceExhaustedError
from flowengine.ir.proto import TensorProto
from flowengine.ir.tensorproto import decode_tensor, encode_tensor
from flowengine.kernels.io.csv_columns import columns_of
from flowengine.kernels.registry import kernel
from flowengine.kernels.strings.elements import mapped, shown, to_number
from flowengine.kernels.strings.text import strings_like

#: Bytes that one compressed string may become.
DECOMPRESSED_MAX: Final = 2**31
#: So many strings are looked at to say what they will take; more of them are enough to do.
_FEW: Final = 64
#: From so many records of CSV on, looking at all of them together is quicker than at one after another.
_FEW_ROWS: Final = 8
#: Decompressed at a time where memory is bounded.
_PIECE: Final = 1 << 20


def _cost(strings: Any, *_: Any) -> float:
    """Microseconds: about 1 an element."""
    return float(getattr(strings, "size", 1))


def _ordered(dtype: DType, little_endian: bool) -> np.dtype[Any]:
    """The NumPy type with this order of bytes."""
    numpy_dtype: np.dtype[Any] = np.dtype(dtype.as_numpy_dtype)
    native = little_endian == (sys.byteorder == "little")
    return (
        numpy_dtype if native or dtype.size == 1 else numpy_dtype.newbyteorder("<" if little_endian else ">")
    )


@kernel("DecodeRaw", heavy=_cost)
def decode_raw(strings: Value, *, out_type: DType, little_endian: bool) -> Array:
    """The bytes of each string as numbers along a new last axis.

    Raises InvalidArgumentError where strings differ in length, or a length is no multiple of the type's.
    """
    numpy_dtype = _ordered(out_type, little_endian)
    texts = [strings] if isinstance(strings, bytes) else to_array(strings).reshape(-1).tolist()
    shape = () if isinstance(strings, bytes) else to_array(strings).shape
    if not texts:
        return np.empty((*shape, 0), out_type.as_numpy_dtype)
    length = len(texts[0])
    for index, text in enumerate(texts):
        if len(text) != length:
            raise InvalidArgumentError(
                "DecodeRaw requires input strings to all be the same size, but element "
                f"{index} has size {len(text)} != {length}"
            )
    if length % out_type.size:
        raise InvalidArgumentError(
            f"Input to DecodeRaw has length {length} that is not a multiple of {out_type.size}, "
            f"the size of {out_type}"
        )
    ask_for(0 if len(texts) == 1 and out_type is not dtypes.bool_ else 2 * length * len(texts))
    flat = np.frombuffer(texts[0] if len(texts) == 1 else b"".join(texts), numpy_dtype)
    if out_type is dtypes.bool_:
        flat = flat.view(np.uint8) != 0
    return flat.astype(out_type.as_numpy_dtype, copy=False).reshape(*shape, length // out_type.size)


@kernel("DecodePaddedRaw", fresh=True, heavy=_cost)
def decode_padded_raw(strings: Value, fixed_length: Any, *, out_type: DType, little_endian: bool) -> Array:
    """As DecodeRaw, with each string cut, or filled with zeros, to `fixed_length` bytes."""
    length = int(fixed_length)
    if length <= 0 or length % out_type.size:
        raise InvalidArgumentError(
            f"fixed_length ({length}) must be a positive multiple of the size of {out_type} ({out_type.size})"
        )
    ask_for(2 * length * (1 if isinstance(strings, bytes) else to_array(strings).size))
    padded = mapped(strings, lambda text: text[:length].ljust(length, b"\0"))
    return decode_raw(padded, out_type=out_type, little_endian=little_endian)


@kernel("ParseTensor")
def parse_tensor(serialized: Value, *, out_type: DType) -> Value:
    """The tensor that a serialised TensorProto holds.

    Raises InvalidArgumentError for bytes that are none, and for one of another type.
    """
    data = to_array(serialized)
    if data.ndim:
        raise InvalidArgumentError(f"Expected `serialized` to be a scalar, got shape: {list(data.shape)}")
    proto = TensorProto()
    try:
        proto.ParseFromString(data.item())
    except Exception as error:  # protobuf's DecodeError, which is not worth importing for
        raise InvalidArgumentError(f"Could not parse `serialized` as TensorProto: {error}") from error
    if proto.dtype != out_type.number:
        has = dtypes.from_number(proto.dtype)
        raise InvalidArgumentError(f"Type mismatch between parsed tensor ({has}) and dtype ({out_type})")
    return decode_tensor(proto)


@kernel("SerializeTensor", fresh=True)
def serialize_tensor(tensor: Value, *, T: DType) -> bytes:
    """The tensor as a serialised TensorProto."""
    data: bytes = encode_tensor(tensor, T).SerializeToString(deterministic=True)
    return data


def _decompressing_cost(strings: Any, *_: Any) -> float:
    """Microseconds: 20 a string, and 1 each 5 bytes of a few: a thousand times as many may come of them."""
    array = to_array(strings)
    held = sum(map(len, array.reshape(-1).tolist())) if 0 < array.size <= _FEW else 0
    return 20.0 * array.size + held / 5


@kernel("DecodeCompressed", fresh=True, heavy=_decompressing_cost)
def decode_compressed(strings: Value, *, compression_type: bytes) -> Value:
    """Each string decompressed: "ZLIB", "GZIP", or "" for as it is.

    Raises DataLossError for damaged data. Raises ResourceExhaustedError, before it allocates the result, for
    more than `DECOMPRESSED_MAX`, or more than the memory left to the step.
    """
    if not compression_type:
        return strings
    if compression_type not in (b"ZLIB", b"GZIP"):
        raise InvalidArgumentError(
            f"Only ZLIB, GZIP or NONE are supported compressions, not {shown(compression_type)}"
        )
    window = 15 if compression_type == b"ZLIB" else 31
    done = 0

    def pieces(machine: Any, data: bytes) -> bytes:
        """As much as is allowed, a piece at a time where there is a bound."""
        nonlocal done
        if not is_asked():
            whole: bytes = machine.decompress(data, DECOMPRESSED_MAX)
            return whole
        parts: list[bytes] = []
        size = 0
        while data and size < DECOMPRESSED_MAX:
            parts.append(machine.decompress(data, min(_PIECE, DECOMPRESSED_MAX - size)))
            size += len(parts[-1])
            ask_for(done + 2 * size)  # the pieces, and what they are joined to
            data = machine.unconsumed_tail
        done += size
        return b"".join(parts)

    def decompressed(data: bytes) -> bytes:
        machine = zlib.decompressobj(window)
        try:
            out = pieces(machine, data)
        except zlib.error as error:
            raise DataLossError(
                f"{len(data)} bytes are no {compression_type.decode()} data: {error}"
            ) from error
        if machine.unconsumed_tail:
            raise ResourceExhaustedError(f"decompressed, {len(data)} bytes exceed {DECOMPRESSED_MAX}")
        if not machine.eof:
            raise DataLossError(f"{len(data)} bytes of {compression_type.decode()} data end too early")
        return out

    return mapped(strings, decompressed)


def _csv_cost(records: Any, *_: Any, **__: Any) -> float:
    """Microseconds: about 4 for a record."""
    return 4.0 * float(getattr(records, "size", 1))


@kernel("DecodeCSV", fresh=True, heavy=_csv_cost)
def decode_csv(
    records: Value,
    record_defaults: tuple[Value, ...],
    *,
    OUT_TYPE: tuple[DType, ...],
    field_delim: bytes,
    use_quote_delim: bool,
    na_value: bytes,
    select_cols: tuple[int, ...],
) -> Any:
    """Columns of CSV records, each of its default's type and the records' shape.

    An empty field, or one that is `na_value`, gives the default. Raises InvalidArgumentError for a field
    that its column cannot be, is required or is missing, and for quotes out of place.
    """
    check_csv(field_delim, select_cols, len(OUT_TYPE))
    defaults = csv_defaults(record_defaults)
    rows = to_array(records)
    texts: list[bytes] = rows.reshape(-1).tolist()
    if len(texts) >= _FEW_ROWS:
        found = columns_of(
            texts, OUT_TYPE, defaults, field_delim, na_value, select_cols, has_quotes=use_quote_delim
        )
        if found is not None:
            # A view would not be the caller's own array, and be copied where it is handed on.
            return _one_or_all(found if rows.ndim == 1 else [each.reshape(rows.shape) for each in found])
    columns: list[list[Any]] = [[] for _ in OUT_TYPE]
    for number, text in enumerate(texts):
        fields = csv_fields(text, field_delim, use_quote_delim, number)
        if select_cols:
            fields = [fields[c] for c in select_cols if c < len(fields)]
        if len(fields) != len(OUT_TYPE):
            raise InvalidArgumentError(
                f"Expect {len(OUT_TYPE)} fields but have {len(fields)} in record {number}"
            )
        for index, (field, dtype) in enumerate(zip(fields, OUT_TYPE, strict=True)):
            columns[index].append(csv_value(field, dtype, na_value, defaults[index], index, number))
    return _one_or_all(
        [_csv_column(values, dtype, rows.shape) for values, dtype in zip(columns, OUT_TYPE, strict=True)]
    )


def _one_or_all(columns: list[Value]) -> Any:
    """As a kernel returns them: one by itself."""
    return columns[0] if len(columns) == 1 else tuple(columns)


def check_csv(field_delim: bytes, select_cols: Sequence[int], width: int) -> None:
    """InvalidArgumentError for a delimiter of several bytes, and for columns that are out of order.

    width   how many columns are wanted, of all or of those selected
    """
    if len(field_delim) != 1:
        raise InvalidArgumentError("field_delim should be only 1 char")
    check_increasing(select_cols, "select_cols")
    if select_cols and len(select_cols) != width:
        raise InvalidArgumentError("select_cols should match output size")


def check_increasing(columns: Sequence[int], what: str) -> None:
    """InvalidArgumentError where the numbers of columns are negative or do not increase."""
    if any(b <= a for a, b in itertools.pairwise(columns)) or min(columns, default=0) < 0:
        raise InvalidArgumentError(f"{what} should be strictly increasing indices, not {tuple(columns)}")


def csv_defaults(record_defaults: Sequence[Value]) -> list[list[Any]]:
    """The default of each field in a list, an empty one for a field that is required."""
    defaults = []
    for index, default in enumerate(record_defaults):
        array = to_array(default)
        if array.ndim > 1 or array.size > 1:
            raise InvalidArgumentError(
                f"There should only be 1 default per field but field {index} has {array.size}"
            )
        defaults.append(array.reshape(-1).tolist())
    return defaults


def _csv_column(values: list[Any], dtype: DType, shape: tuple[int, ...]) -> Value:
    if dtype is dtypes.string:
        return strings_like(values, shape)
    with np.errstate(over="ignore"):  # what is too large for the type is infinite
        return np.array(values, dtype.as_numpy_dtype).reshape(shape)


def csv_value(
    field: bytes, dtype: DType, na_value: bytes, default: list[Any], index: int, record: int
) -> Any:
    """Convert a field to a value of its column. See `decode_csv`."""
    if not field or field == na_value:
        if not default:
            raise InvalidArgumentError(f"Field {index} is required but missing in record {record}!")
        return default[0]
    if dtype is dtypes.string:
        return field
    return to_number(field, dtype, f"Field {index} in record {record} is not a valid {dtype}: ")


def csv_fields(text: bytes, delimiter: bytes, quotes: bool, record: int) -> list[bytes]:
    """The fields of one record; a quoted one may hold delimiters and doubled quotes."""
    if not text:
        return []
    if not quotes or b'"' not in text:
        if b"\n" in text or b"\r" in text:
            raise _unquoted(record)
        return text.split(delimiter)
    fields: list[bytes] = []
    at = 0
    while True:
        if text.startswith(b'"', at):
            field, at = _quoted(text, at + 1, delimiter, record)
        else:
            end = text.find(delimiter, at)
            end = len(text) if end < 0 else end
            field, at = text[at:end], end
            if b'"' in field or b"\n" in field or b"\r" in field:
                raise _unquoted(record)
        fields.append(field)
        if at >= len(text):
            return fields
        at += 1


def _unquoted(record: int) -> InvalidArgumentError:
    return InvalidArgumentError(f"Unquoted fields cannot have quotes/CRLFs inside (record {record})")


def _quoted(text: bytes, at: int, delimiter: bytes, record: int) -> tuple[bytes, int]:
    """The field whose opening quote is before `at`, and where the delimiter after it is."""
    parts: list[bytes] = []
    while True:
        end = text.find(b'"', at)
        if end < 0:
            raise InvalidArgumentError(
                f"Quoted field has to end with quote followed by delim or end (record {record})"
            )
        parts.append(text[at:end])
        following = text[end + 1 : end + 2]
        if following == b'"':
            parts.append(b'"')
            at = end + 2
        elif not following or following == delimiter:
            return b"".join(parts), end + 1
        else:
            raise InvalidArgumentError(
                f"Quote inside a string has to be escaped by another quote (record {record})"
            )


@kernel("DecodeJSONExample", fresh=True, heavy=lambda texts: 20.0 * float(getattr(texts, "size", 1)))
def decode_json_example(texts: Value) -> Value:
    """Examples in JSON as serialised examples; InvalidArgumentError for text that is none."""
    from flowengine.ir.examplejson import example_from_json

    return mapped(texts, example_from_json)
