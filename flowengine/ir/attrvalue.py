"""AttrValue to Python and back; see `ir.attrs` for what becomes what.

Reading never fails: a value that cannot be read becomes `UnreadableAttr`, which says why and keeps the
proto, because a graph may hold parts that never run. Where the op is known, `ir.validate` makes a fault
of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.ir import tensorproto
from flowengine.ir.attrs import AttrValue, FuncAttr, PlaceholderAttr, TensorAttr
from flowengine.ir.proto import AttrValue as AttrValueProto
from flowengine.ir.proto import NameAttrList, TensorProto, TensorShapeProto


@dataclass(frozen=True, slots=True)
class UnreadableAttr:
    """A value that no graph can use: an unknown type, a damaged tensor, a shape that overflows."""

    reason: str
    proto: object


_TYPES: Final = {d.number: d for base in dtypes.ALL for d in (base, base.ref)}
_EMPTY: Final[tuple[AttrValue, ...]] = ()


def _type(number: int) -> AttrValue:
    dtype = _TYPES.get(number)
    return UnreadableAttr(f"{number} is not the number of a data type", number) if dtype is None else dtype


def _shape(proto: TensorShapeProto) -> AttrValue:
    try:
        return tensorproto.shape_from_proto(proto)
    except InvalidArgumentError as error:
        return UnreadableAttr(error.message, proto)


def _tensor(proto: TensorProto) -> AttrValue:
    try:
        return tensorproto.tensor_attr(proto)
    except InvalidArgumentError as error:
        return UnreadableAttr(error.message, proto)


def _func(proto: NameAttrList) -> FuncAttr:
    return FuncAttr(proto.name, {key: decode_attr(value) for key, value in proto.attr.items()})


def _same(value: Any) -> Any:
    return value


_LIST_FIELDS: Final[tuple[tuple[str, Callable[[Any], AttrValue]], ...]] = (
    ("s", _same),
    ("i", _same),
    ("type", _type),
    ("f", _same),
    ("b", _same),
    ("shape", _shape),
    ("tensor", _tensor),
    ("func", _func),
)


def _list(proto: AttrValueProto.ListValue) -> AttrValue:
    for field, decode in _LIST_FIELDS:
        values = getattr(proto, field)
        if values:
            return tuple(values) if decode is _same else tuple(decode(v) for v in values)
    return _EMPTY


_READERS: Final[dict[str | None, Callable[[AttrValueProto], AttrValue]]] = {
    "type": lambda proto: _TYPES.get(proto.type) or _type(proto.type),
    "s": lambda proto: proto.s,
    "i": lambda proto: proto.i,
    "f": lambda proto: proto.f,
    "b": lambda proto: proto.b,
    "shape": lambda proto: _shape(proto.shape),
    "tensor": lambda proto: _tensor(proto.tensor),
    "list": lambda proto: _list(proto.list),
    "func": lambda proto: _func(proto.func),
    "placeholder": lambda proto: PlaceholderAttr(proto.placeholder),
    None: lambda proto: None,
}


def decode_attr(proto: AttrValueProto) -> AttrValue:
    """The Python value; `UnreadableAttr` for what has none. Tensors refer to the proto."""
    return _READERS[proto.WhichOneof("value")](proto)


def encode_attr(value: AttrValue) -> AttrValueProto:
    """The AttrValue of a Python value; InvalidArgumentError for an object of another kind."""
    proto = AttrValueProto()
    write_attr(proto, value)
    return proto


def write_attr(proto: AttrValueProto, value: AttrValue) -> None:
    """Set an AttrValue that is empty to a Python value; errors as `encode_attr`."""
    if isinstance(value, tuple | list):
        proto.list.SetInParent()
        for item in value:
            _append(proto.list, item)
    elif value is None:
        return
    elif isinstance(value, PlaceholderAttr):
        proto.placeholder = value.name
    elif isinstance(value, UnreadableAttr):
        _write_unreadable(proto, value)
    else:
        field, encoded = _encode_one(value)
        if isinstance(encoded, int | float | bytes):
            setattr(proto, field, encoded)
        else:
            getattr(proto, field).CopyFrom(encoded)


def _append(proto: AttrValueProto.ListValue, item: AttrValue) -> None:
    field: str
    if isinstance(item, UnreadableAttr):
        copy = AttrValueProto()
        _write_unreadable(copy, item)
        field = str(copy.WhichOneof("value"))
        encoded = getattr(copy, field)
    else:
        field, encoded = _encode_one(item)
    getattr(proto, field).append(encoded)


def _encode_one(value: AttrValue) -> tuple[str, Any]:
    """(field of the AttrValue, what to put there)."""
    if isinstance(value, bool | np.bool_):
        return "b", bool(value)
    if isinstance(value, int | np.integer):
        if not -(2**63) <= value < 2**63:
            raise InvalidArgumentError(f"the integer {value} does not fit an attribute's 64 bits")
        return "i", int(value)
    if isinstance(value, float | np.floating):
        return "f", float(value)
    if isinstance(value, bytes):
        return "s", value
    if isinstance(value, str):
        return "s", value.encode()
    if isinstance(value, DType):
        return "type", value.number
    if isinstance(value, TensorShape):
        return "shape", tensorproto.shape_to_proto(value)
    if isinstance(value, TensorAttr):
        return "tensor", tensor_proto(value)
    if isinstance(value, FuncAttr):
        return "func", _encode_func(value)
    raise InvalidArgumentError(f"a {type(value).__name__} cannot be the value of an attribute")


def tensor_proto(attr: TensorAttr) -> TensorProto:
    """The constant as a proto: the one that it was read from, or made from its value."""
    if isinstance(attr.source, TensorProto):
        return attr.source
    return tensorproto.encode_tensor(attr.value(), attr.dtype)


def _encode_func(value: FuncAttr) -> NameAttrList:
    proto = NameAttrList(name=value.name)
    write_attrs(proto.attr, value.attrs)
    return proto


def write_attrs(target: Any, attrs: Mapping[str, AttrValue]) -> None:
    """Fill a map<string, AttrValue>."""
    for name, value in attrs.items():
        write_attr(target[name], value)


def _write_unreadable(proto: AttrValueProto, value: UnreadableAttr) -> None:
    kept = value.proto
    if isinstance(kept, int):
        tensorproto.set_type(proto, kept, "type")
    elif isinstance(kept, TensorShapeProto):
        proto.shape.CopyFrom(kept)
    elif isinstance(kept, TensorProto):
        proto.tensor.CopyFrom(kept)
