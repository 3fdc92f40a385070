"""OpDef from and to its proto: the signatures of a library's functions, and of a SavedModel's own ops.

A graph may call a function of its library by using its name for an op; the signature that stands in
the library then is the op's definition.
"""

from __future__ import annotations

from typing import Final

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.argdef import MISSING, ArgDef, AttrDef
from flowengine.ir.attrs import AttrValue
from flowengine.ir.attrvalue import UnreadableAttr, decode_attr, write_attr
from flowengine.ir.opdef import OpDef
from flowengine.ir.proto import OpDef as OpDefProto
from flowengine.ir.tensorproto import set_type

_ATTR_TYPES: Final = frozenset({"int", "float", "bool", "string", "type", "shape", "tensor", "func"})


def op_def_from_proto(proto: OpDefProto) -> OpDef:
    """The signature, without shape function; InvalidArgumentError where it makes no sense."""
    attrs = tuple(_attr_def(proto, attr) for attr in proto.attr)
    kinds = {attr.name: attr.type for attr in attrs}
    return OpDef(
        proto.name,
        tuple(_arg_def(proto, arg, kinds) for arg in proto.input_arg),
        tuple(_arg_def(proto, arg, kinds) for arg in proto.output_arg),
        attrs,
        proto.is_stateful,
        proto.is_commutative,
        proto.is_aggregate,
        proto.allows_uninitialized_input,
    )


def _arg_def(op: OpDefProto, proto: OpDefProto.ArgDef, kinds: dict[str, str]) -> ArgDef:
    expected = {proto.type_attr: "type", proto.number_attr: "int", proto.type_list_attr: "list(type)"}
    for attr, kind in expected.items():
        if attr and kinds.get(attr) != kind:
            raise InvalidArgumentError(
                f"the signature of '{op.name}': argument '{proto.name}' needs an attribute '{attr}' ({kind})"
            )
    if proto.type_list_attr:
        return ArgDef(proto.name, type_list_attr=proto.type_list_attr, is_ref=proto.is_ref)
    number = proto.number_attr or None
    if proto.type_attr:
        return ArgDef(proto.name, type_attr=proto.type_attr, number_attr=number, is_ref=proto.is_ref)
    dtype = dtypes.from_number(proto.type)
    return ArgDef(proto.name, type=dtype.base, number_attr=number, is_ref=proto.is_ref or dtype.is_ref)


def _attr_def(op: OpDefProto, proto: OpDefProto.AttrDef) -> AttrDef:
    inner = proto.type[5:-1] if proto.type.startswith("list(") else proto.type
    if inner not in _ATTR_TYPES:
        raise InvalidArgumentError(
            f"the signature of '{op.name}': attribute '{proto.name}' has the unknown type '{proto.type}'"
        )
    default: AttrValue = decode_attr(proto.default_value) if proto.HasField("default_value") else MISSING
    allowed: AttrValue = decode_attr(proto.allowed_values) if proto.HasField("allowed_values") else None
    for value in (default, allowed):
        if isinstance(value, UnreadableAttr):
            raise InvalidArgumentError(
                f"the signature of '{op.name}': attribute '{proto.name}': {value.reason}"
            )
    minimum = proto.minimum if proto.has_minimum else None
    return AttrDef(proto.name, proto.type, default, allowed or None, minimum)


def op_def_to_proto(op_def: OpDef) -> OpDefProto:
    """The signature as a proto; shape functions have no written form."""
    proto = OpDefProto(
        name=op_def.name,
        is_stateful=op_def.is_stateful,
        is_commutative=op_def.is_commutative,
        is_aggregate=op_def.is_aggregate,
        allows_uninitialized_input=op_def.allows_uninitialized_input,
    )
    for args, target in ((op_def.inputs, proto.input_arg), (op_def.outputs, proto.output_arg)):
        for arg in args:
            written = target.add(
                name=arg.name,
                type_attr=arg.type_attr or "",
                number_attr=arg.number_attr or "",
                type_list_attr=arg.type_list_attr or "",
                is_ref=arg.is_ref,
            )
            if arg.type is not None:
                set_type(written, arg.type, "type")
    for attr in op_def.attrs:
        entry = proto.attr.add(name=attr.name, type=attr.type)
        if attr.minimum is not None:
            entry.has_minimum, entry.minimum = True, attr.minimum
        if attr.has_default:
            write_attr(entry.default_value, attr.default)
        if attr.allowed is not None:
            write_attr(entry.allowed_values, attr.allowed)
    return proto
