"""Fields of protocol buffers of any type: what a descriptor says of them, and how they lie in bytes."""

from __future__ import annotations

import functools
import importlib
import os
import struct
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from flowengine.core.dtypes import DType
from flowengine.core.errors import DataLossError, InvalidArgumentError
from flowengine.ir.wire import read_varint, varint
from flowengine.kernels.common.file_access import require_reading, translated
from flowengine.kernels.context import KernelContext

_MASK32: Final = (1 << 32) - 1
_MASK64: Final = (1 << 64) - 1
#: Where our own messages are, and what TensorFlow calls their package.
_OWN: Final = ("example", "graph", "meta_graph", "tensor", "types")
_OWN_PACKAGE: Final = "flowengine.ir.proto."
_THEIR_PACKAGE: Final = "tensorflow."


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _unzigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


class FieldKind(NamedTuple):
    """How the values of one kind of field lie in bytes.

    dtypes   names of the types that hold them
    wire     0 varint, 1 eight bytes, 2 bytes with their length, 3 a group, 5 four bytes
    read     the value from a varint's number, or from the bytes
    write    the bytes of a value, without tag and length
    empty    what stands where there is no value
    """

    dtypes: tuple[str, ...]
    wire: int
    read: Callable[[Any], Any]
    write: Callable[[Any], bytes]
    empty: Any = 0


def _fixed(code: str, mask: int = 0) -> tuple[Callable[[Any], Any], Callable[[Any], bytes]]:
    pack = struct.Struct("<" + code)
    if not mask:
        return (lambda data: pack.unpack(data)[0]), (lambda value: pack.pack(value))
    bits = mask.bit_length()
    keep = (lambda v: _signed(v, bits)) if code.islower() else (lambda v: v & mask)
    return (lambda data: pack.unpack(data)[0]), (lambda value: pack.pack(keep(int(value))))


def _varints(
    read: Callable[[int], int], write: Callable[[int], int]
) -> tuple[Callable[[Any], Any], Callable[[Any], bytes]]:
    return read, lambda value: varint(write(int(value)) & _MASK64)


def _number(width: int) -> tuple[Callable[[Any], Any], Callable[[Any], bytes]]:
    return _varints(lambda v: _signed(v, width), lambda v: _signed(v, width))


def _zigzag(width: int) -> tuple[Callable[[Any], Any], Callable[[Any], bytes]]:
    def write(value: int) -> int:
        kept = _signed(value, width)
        return kept << 1 if kept >= 0 else (-kept << 1) - 1

    return _varints(lambda v: _unzigzag(v & ((1 << width) - 1)), write)


def _text() -> tuple[Callable[[Any], Any], Callable[[Any], bytes]]:
    return bytes, bytes


_INT32: Final = ("int32", "int64")
_UINT32: Final = ("uint32", "uint64")
#: {number of the type in a descriptor: its kind}
KINDS: Final[dict[int, FieldKind]] = {
    1: FieldKind(("float64",), 1, *_fixed("d"), 0.0),
    2: FieldKind(("float32", "float64"), 5, *_fixed("f"), 0.0),
    3: FieldKind(("int64",), 0, *_number(64)),
    4: FieldKind(("uint64",), 0, *_varints(lambda v: v & _MASK64, lambda v: v)),
    5: FieldKind(_INT32, 0, *_number(32)),
    6: FieldKind(("uint64",), 1, *_fixed("Q", _MASK64)),
    7: FieldKind(_UINT32, 5, *_fixed("I", _MASK32)),
    8: FieldKind(("bool",), 0, *_varints(bool, bool), False),
    9: FieldKind(("string",), 2, *_text(), b""),
    10: FieldKind(("string",), 3, *_text(), b""),
    11: FieldKind(("string",), 2, *_text(), b""),
    12: FieldKind(("string",), 2, *_text(), b""),
    13: FieldKind(_UINT32, 0, *_varints(lambda v: v & _MASK32, lambda v: v & _MASK32)),
    14: FieldKind(("int32",), 0, *_number(32)),
    15: FieldKind(_INT32, 5, *_fixed("i", _MASK32)),
    16: FieldKind(("int64",), 1, *_fixed("q", _MASK64)),
    17: FieldKind(_INT32, 0, *_zigzag(32)),
    18: FieldKind(("int64",), 0, *_zigzag(64)),
}


class ProtoField(NamedTuple):
    """One field of a message, as far as tensors are made of it.

    default    what stands where a message has none, or fewer than others
    """

    name: str
    number: int
    kind: FieldKind
    repeated: bool
    packed: bool
    default: Any

    @classmethod
    def of(cls, described: Any) -> ProtoField:
        kind = KINDS[described.type]
        repeated = bool(described.is_repeated) if hasattr(described, "is_repeated") else described.label == 3
        default = kind.empty
        if described.type == 14:
            default = described.enum_type.values[0].number if repeated else described.default_value
        elif not repeated and described.cpp_type != described.CPPTYPE_MESSAGE:
            default = described.default_value
        if isinstance(default, str):
            default = default.encode()
        return cls(described.name, described.number, kind, repeated, bool(described.is_packed), default)

    def check(self, dtype: DType) -> None:
        """InvalidArgumentError where a tensor of this type does not hold the field's values."""
        if dtype.name not in self.kind.dtypes:
            raise InvalidArgumentError(
                f"Incompatible type for field {self.name}. Saw dtype: {dtype.name} but the field's values "
                f"are held by {' or '.join(self.kind.dtypes)}"
            )


# --------------------------------------------------------------------------- descriptors


@functools.lru_cache(maxsize=64)
def _pool(described: bytes) -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool
    from google.protobuf.message import DecodeError

    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(described)
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            pool.AddSerializedFile(file.SerializeToString())
    except (DecodeError, TypeError) as error:
        raise InvalidArgumentError(
            f"Source does not represent serialized file descriptor set proto: {len(described)} bytes, {error}"
        ) from error
    return pool


def _own_pool() -> Any:
    from google.protobuf import descriptor_pool

    for name in _OWN:
        importlib.import_module(f"flowengine.ir.proto.{name}_pb2")
    return descriptor_pool.Default()


def message_of(source: bytes, name: bytes, ctx: KernelContext) -> Any:
    """The descriptor of a message.

    source   `local://` for messages of this program, among them TensorFlow's; `bytes://` and a serialised
             FileDescriptorSet; or the name of a file that holds one

    Raises InvalidArgumentError where source or message is none, PermissionDeniedError where the file may not
    be read.
    """
    wanted = name.decode("utf-8", "replace")
    names = [wanted]
    if source in (b"", b"local://"):
        pool = _own_pool()
        if wanted.startswith(_THEIR_PACKAGE):
            names.append(_OWN_PACKAGE + wanted.removeprefix(_THEIR_PACKAGE))
    elif source.startswith(b"bytes://"):
        pool = _pool(source.removeprefix(b"bytes://"))
    else:
        pool = _pool(_file(source, ctx))
    for each in names:
        try:
            return pool.FindMessageTypeByName(each)
        except (KeyError, TypeError):
            continue
    raise InvalidArgumentError(f"No descriptor found for message type {wanted}")


def _file(source: bytes, ctx: KernelContext) -> bytes:
    path = os.fsdecode(source).removeprefix("file://")
    require_reading(ctx, path)
    try:
        with ctx.files.open(path) as file:
            return file.read()
    except FileNotFoundError as error:
        raise InvalidArgumentError(
            f"descriptor_source {path!r} is no file; `local://`, `bytes://...` or a file is wanted"
        ) from error
    except OSError as error:
        raise translated(error, path) from error


def field_of(message: Any, name: bytes) -> ProtoField:
    """A field by its name, or an extension by its full name; InvalidArgumentError where there is none."""
    wanted = name.decode("utf-8", "replace")
    found = message.fields_by_name.get(wanted)
    if found is None:
        raise InvalidArgumentError(f"Unknown field: {wanted} in message type {message.full_name}")
    return ProtoField.of(found)


# --------------------------------------------------------------------------- bytes


def _next_number(data: bytes, at: int) -> tuple[int, int]:
    try:
        return read_varint(data, at)
    except ValueError:
        raise DataLossError(f"a number that begins at byte {at} of a message does not end") from None


def parts(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """(number, wire, what it holds) of each field; DataLossError where the bytes are no message."""
    at = 0
    while at < len(data):
        key, at = _next_number(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _next_number(data, at)
            yield number, wire, value
            continue
        if wire == 2:
            size, at = _next_number(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        elif wire == 3:
            size = _group_size(data, at, number)
        else:
            raise DataLossError(f"byte {at} of a message begins no field")
        if at + size > len(data):
            raise DataLossError(f"a field of {size} bytes that begins at byte {at} of {len(data)} is cut off")
        yield number, wire, data[at : at + size]
        at += size + (len(varint(number << 3 | 4)) if wire == 3 else 0)


def _group_size(data: bytes, start: int, number: int) -> int:
    """Bytes from the beginning of a group to the mark of its end."""
    end = varint(number << 3 | 4)
    at = start
    while True:
        if data.startswith(end, at):
            return at - start
        key, after = _next_number(data, at)
        wire = key & 7
        if wire == 0:
            _, at = _next_number(data, after)
        elif wire == 2:
            size, at = _next_number(data, after)
            at += size
        elif wire in (1, 5):
            at = after + (8 if wire == 1 else 4)
        elif wire == 3:
            at = after + _group_size(data, after, key >> 3) + len(varint(key | 4))
        else:
            raise DataLossError(f"byte {at} of a message begins no field")
        if at > len(data):
            raise DataLossError(f"a group that begins at byte {start} does not end")


def unpacked(kind: FieldKind, data: bytes) -> Iterator[Any]:
    """The values of a packed field; DataLossError where its bytes are no whole number of them."""
    at = 0
    if kind.wire == 0:
        while at < len(data):
            number, at = _next_number(data, at)
            yield kind.read(number)
        return
    size = 8 if kind.wire == 1 else 4
    if len(data) % size:
        raise DataLossError(f"a packed field of {len(data)} bytes is no whole number of values")
    for at in range(0, len(data), size):
        yield kind.read(data[at : at + size])


def written(field: ProtoField, values: list[Any]) -> bytes:
    """A field with all of its values."""
    kind = field.kind
    tag = varint(field.number << 3 | kind.wire)
    if field.packed:
        content = b"".join(map(kind.write, values))
        return varint(field.number << 3 | 2) + varint(len(content)) + content
    if kind.wire == 2:
        return b"".join(tag + varint(len(value)) + value for value in values)
    end = varint(field.number << 3 | 4) if kind.wire == 3 else b""
    return b"".join(tag + kind.write(value) + end for value in values)
