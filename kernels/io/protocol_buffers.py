"""Protocol buffers of any type: fields as tensors, and tensors as fields, by a descriptor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import DataLossError, InvalidArgumentError
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.context import KernelContext
from flowengine.kernels.io.proto_fields import ProtoField, field_of, message_of, parts, unpacked, written
from flowengine.kernels.registry import kernel


def _fields(message: Any, names: Sequence[bytes], types: Sequence[DType]) -> list[ProtoField]:
    if len(names) != len(types):
        raise InvalidArgumentError(
            f"there must be a type for each of the field names: {len(names)} names and {len(types)} types"
        )
    fields = [field_of(message, name) for name in names]
    for field, dtype in zip(fields, types, strict=True):
        field.check(dtype)
    return fields


def _binary(text: bytes, message: Any, message_format: bytes, sanitize: bool) -> bytes:
    """A message in the binary format; `sanitize` leaves unknown fields away."""
    from google.protobuf import message_factory, text_format
    from google.protobuf.message import DecodeError

    made = message_factory.GetMessageClass(message)()
    try:
        if message_format == b"text":
            text_format.Parse(text, made)
        else:
            made.ParseFromString(text)
    except (text_format.ParseError, DecodeError, UnicodeDecodeError) as error:
        raise DataLossError(f"Unable to parse {message_format.decode()} protobuf: {error}") from error
    if sanitize:
        made.DiscardUnknownFields()
    return bytes(made.SerializeToString(deterministic=True))


def _values(data: bytes, fields: Sequence[ProtoField]) -> list[list[Any]]:
    """The values of each field; of a field that is named twice the first gets them."""
    found: list[list[Any]] = [[] for _ in fields]
    places: dict[int, int] = {}
    for place, field in enumerate(fields):
        places.setdefault(field.number, place)
    for number, wire, content in parts(data):
        at = places.get(number)
        if at is None:
            continue
        field = fields[at]
        if wire == field.kind.wire:
            values = [field.kind.read(content)]
        elif wire == 2 and field.repeated and field.kind.wire in (0, 1, 5):
            values = list(unpacked(field.kind, content))
        else:
            continue
        found[at] = found[at] + values if field.repeated else values
    return found


def _filled(column: list[list[Any]], field: ProtoField, dtype: DType) -> Array:
    """(messages, most of one) values, with the default where a message has less."""
    width = max([len(values) for values in column], default=0)
    width = width if field.repeated else max(width, 1)
    out = np.empty((len(column), width), dtype.as_numpy_dtype)
    for row, values in zip(out, column, strict=True):
        row[: len(values)] = values
        row[len(values) :] = field.default
    return out


@kernel("DecodeProtoV2", fresh=True)
def decode_proto(
    texts: Value,
    *,
    message_type: bytes,
    field_names: tuple[bytes, ...],
    output_types: tuple[DType, ...],
    descriptor_source: bytes,
    message_format: bytes,
    sanitize: bool,
    ctx: KernelContext,
) -> Any:
    """How many values each message has of each field (int32 [..., fields]), and the values of each field.

    A message without a field has its default, and messages with fewer values than others are filled up. A
    message within a message is its bytes. Raises DataLossError for what is no message.
    """
    if message_format not in (b"binary", b"text"):
        raise InvalidArgumentError(
            f"message_format must be one of binary or text, not {message_format.decode(errors='replace')}"
        )
    message = message_of(descriptor_source, message_type, ctx)
    fields = _fields(message, field_names, output_types)
    array = to_array(texts)
    if not array.size:
        raise InvalidArgumentError(
            f"bytes must contain at least one message, but has shape {brackets(array.shape)}"
        )
    data: list[bytes] = array.reshape(-1).tolist()
    if sanitize or message_format == b"text":
        data = [_binary(text, message, message_format, sanitize) for text in data]
    rows = [_values(text, fields) for text in data]
    sizes = np.array([[len(values) for values in row] for row in rows], np.int32)
    columns = [
        _filled([row[place] for row in rows], field, dtype)
        for place, (field, dtype) in enumerate(zip(fields, output_types, strict=True))
    ]
    shaped = [column.reshape(*array.shape, column.shape[1]) for column in columns]
    found = (sizes.reshape(*array.shape, len(fields)), *shaped)
    return found if shaped else found[0]


def _check_values(sizes: Array, values: Sequence[Array], fields: Sequence[ProtoField]) -> None:
    for value, field in zip(values, fields, strict=True):
        if value.ndim < 2:
            raise InvalidArgumentError(
                f"Invalid shape for field {field.name}. Saw shape {brackets(value.shape)} but it should be "
                "at least a matrix."
            )
        if value.shape[:-1] != values[0].shape[:-1]:
            raise InvalidArgumentError(
                f"Values must match up to the last dimension: {brackets(values[0].shape)} and "
                f"{brackets(value.shape)} (field {field.name})"
            )
    wanted = (*values[0].shape[:-1], len(fields))
    if sizes.shape != wanted:
        raise InvalidArgumentError(
            f"sizes should be batch_size + [len(field_names)]. Saw: {brackets(sizes.shape)} but expected: "
            f"{brackets(wanted)}"
        )
    limits = np.array([value.shape[-1] for value in values])
    over = np.argwhere(sizes.reshape(-1, len(fields)) > limits)
    if over.size:
        row, place = over[0].tolist()
        raise InvalidArgumentError(
            "Size to write must not be larger than value tensor; but saw: "
            f"{sizes.reshape(-1, len(fields))[row, place]} > {limits[place]} at message {row} field {place}"
        )


@kernel("EncodeProto", fresh=True)
def encode_proto(
    sizes: Array,
    values: tuple[Value, ...],
    *,
    field_names: tuple[bytes, ...],
    message_type: bytes,
    descriptor_source: bytes,
    Tinput_types: tuple[DType, ...],
    ctx: KernelContext,
) -> Any:
    """Serialised messages (string [...]), with as many values of each field as `sizes` says."""
    message = message_of(descriptor_source, message_type, ctx)
    fields = _fields(message, field_names, Tinput_types)
    arrays = [to_array(value) for value in values]
    _check_values(sizes, arrays, fields)
    flat = [array.reshape(-1, array.shape[-1]) for array in arrays]
    order = sorted(range(len(fields)), key=lambda place: fields[place].number)
    out = np.empty(arrays[0].shape[:-1], object)
    messages = []
    for row, counts in enumerate(sizes.reshape(-1, len(fields)).tolist()):
        pieces = [
            written(fields[place], flat[place][row, : max(counts[place], 0)].tolist())
            for place in order
            if counts[place]
        ]
        messages.append(b"".join(pieces))
    out.reshape(-1)[...] = messages
    return out
