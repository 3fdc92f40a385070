"""Definitions of ops as text: how it is written, and how it is read.

    Conv(input, filter: T, sizes: N * int32) -> output: T      the signature
    T: floattype; N: int >= 1; strides: list(int) = [1, 1]     attributes

Argument: `x: T`, `x: float`, `x: Ref(T)`, `xs: N * T` (N tensors of one type), `xs: Tlist` (a list of
types). Attribute: `name: type`, `name: {a, b}` (allowed types, or strings in quotes), `name: int >= 1`,
`name: list(int) >= 2`, each with an optional ` = default`: `3`, `true`, `"text"`, `half`, `[1, 2]`, a shape
`[2, -1]` or `unknown`, a tensor `uint8[255, 0]`. A set of types may go by its name: see `type_sets`. Names
that share what is said of them stand together: `x, y: T`, `container, shared_name: string = ""`. A word alone
among the attributes says what the op is: `stateful`, `commutative`, `aggregate`, or `takes_uninitialized`.
"""

from __future__ import annotations

import ast
import functools
import re
import struct
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.ir.argdef import MISSING, ArgDef, AttrDef
from flowengine.ir.attrs import AttrValue, FuncAttr, TensorAttr
from flowengine.ir.type_sets import named_types

_NAMES: Final = r"\s*(\w+(?:\s*,\s*\w+)*)\s*:\s*"
_ARGS: Final = re.compile(_NAMES + r"(?:(\w+)\s*\*\s*)?(?:Ref\(\s*(\w+)\s*\)|(\w+))\s*(?:,(?=\s*\w)|\Z)")
_KIND: Final = r"(list\(\s*(?:\{[^}]*\}|\w+)\s*\)|\{[^}]*\}|\w+)"
_ATTRS: Final = re.compile(_NAMES + _KIND + r"\s*(?:>=\s*(-?\d+))?\s*(?:=\s*(.*?))?\s*\Z", re.S)
#: {word among the attributes: the field of OpDef that it sets}
FLAGS: Final[dict[str, str]] = {
    "stateful": "is_stateful",
    "commutative": "is_commutative",
    "aggregate": "is_aggregate",
    "takes_uninitialized": "allows_uninitialized_input",
}
#: Declarations of attributes end at semicolons, elements of lists at commas, outside of quotes and brackets.
_DECLARATIONS: Final = re.compile(r"(?:\"[^\"]*\"|'[^']*'|[^;])+")
_ELEMENTS: Final = re.compile(r"(?:\[[^\]]*\]|\{[^}]*\}|\"[^\"]*\"|'[^']*'|[^,])+")

#: In a string: what ends it, or means something else. And a list of integers.
_UNPLAIN: Final = re.compile(r"[\\'\"\n]")
_INTEGERS: Final = re.compile(r"\[\s*(?:-?\d+\s*(?:,\s*-?\d+\s*)*,?\s*)?\]\Z")


def split_signature(text: str) -> tuple[str, str, str]:
    """`Name(inputs) -> outputs` -> Name, inputs, outputs; an op without outputs has no arrow."""
    head, arrow, outputs = text.partition("->")
    name, _, inputs = head.strip().partition("(")
    if not name or not inputs.endswith(")") or (arrow and not outputs.strip()):
        raise InvalidArgumentError(f"cannot read the signature {text!r} of an op definition")
    return name, inputs[:-1], outputs


def read_arguments(text: str, attr_types: Mapping[str, str]) -> tuple[ArgDef, ...]:
    """The arguments of `x, y: T, z: float`.

    attr_types   {attribute: its type}: whether a name is an attribute's, and which kind of one
    """
    return tuple([_make_arg(*parts, attr_types.get(parts[2])) for parts in _split_arguments(text)])


# A thousand ops share most of their arguments and attributes, so each text is read once.
@functools.cache
def _split_arguments(text: str) -> tuple[tuple[str, str | None, str, bool], ...]:
    """(name, count or None, type or attribute, whether by reference) of each"""
    found: list[tuple[str, str | None, str, bool]] = []
    at = 0
    while at < len(text) or not found:
        match = _ARGS.match(text, at)
        if match is None:
            raise InvalidArgumentError(f"cannot read the argument {text[at:]!r} of an op definition")
        names, number, referred, kind = match.groups()
        found += [(name.strip(), number, referred or kind, bool(referred)) for name in names.split(",")]
        at = match.end()
    return tuple(found)


@functools.cache
def _make_arg(name: str, number: str | None, kind: str, is_ref: bool, attr_type: str | None) -> ArgDef:
    if attr_type is None:
        return ArgDef(name, type=dtypes.as_dtype(kind), number_attr=number, is_ref=is_ref)
    if attr_type == "list(type)":
        return ArgDef(name, type_list_attr=kind, is_ref=is_ref)
    return ArgDef(name, type_attr=kind, number_attr=number, is_ref=is_ref)


@functools.cache
def read_attributes(text: str) -> tuple[tuple[AttrDef, ...], dict[str, bool]]:
    """The attributes of `stateful; T: type; N, M: int >= 1 = 2`, and {field of OpDef: True} for its words."""
    pieces = [piece.strip() for piece in _DECLARATIONS.findall(text)]
    attrs = [attr for piece in pieces if piece not in FLAGS for attr in _read_attribute(piece)]
    return tuple(attrs), {FLAGS[piece]: True for piece in pieces if piece in FLAGS}


@functools.cache
def _read_attribute(text: str) -> tuple[AttrDef, ...]:
    match = _ATTRS.match(text)
    if match is None:
        raise InvalidArgumentError(f"cannot read the attribute {text!r} of an op definition")
    names, kind, minimum, default = match.groups()
    allowed: tuple[Any, ...] | None = None
    is_list = kind.startswith("list(")
    inner = kind[5:-1].strip() if is_list else kind
    if inner.startswith("{"):
        items = [item.strip() for item in inner[1:-1].split(",") if item.strip()]
        if items and items[0][0] in "'\"":
            inner, allowed = "string", tuple(_read_literal(item).encode() for item in items)
        else:
            inner, allowed = "type", tuple(dtypes.as_dtype(item) for item in items)
    elif inner not in ("int", "float", "bool", "string", "type", "shape", "tensor", "func"):
        inner, allowed = "type", named_types(inner)
        if allowed is None:
            raise InvalidArgumentError(f"unknown attribute type {kind!r} in {text!r}")
    kind = f"list({inner})" if is_list else inner
    value: AttrValue = MISSING if default is None else _read_default(default, kind)
    least = None if minimum is None else int(minimum)
    return tuple([AttrDef(name.strip(), kind, value, allowed, least) for name in names.split(",")])


def _read_literal(text: str) -> Any:
    """Evaluate a Python literal: nearly always a plain string or a list of integers.

    For these its compiler is not asked, which would take a third of the time of reading all ops.
    """
    if (
        text[0] == text[-1]
        and text[0] in "'\""
        and len(text) > 1
        and not _UNPLAIN.search(text, 1, len(text) - 1)
    ):
        return text[1:-1]
    if _INTEGERS.match(text):
        return [int(each) for each in text[1:-1].split(",") if each.strip()]
    return ast.literal_eval(text)


def _read_default(text: str, kind: str) -> AttrValue:
    if kind.startswith("list("):
        items = text.strip()[1:-1].strip()
        return tuple(_read_default(part.strip(), kind[5:-1]) for part in _ELEMENTS.findall(items))
    if kind == "type":
        return dtypes.as_dtype(text.removeprefix("DT_").lower() if text.startswith("DT_") else text)
    if kind == "bool":
        return text.strip().lower() == "true"
    if kind == "string":
        return str(_read_literal(text)).encode()
    if kind == "shape":
        if text in ("{ unknown_rank: true }", "unknown"):
            return TensorShape(None)
        return TensorShape(_read_literal(text) if text != "{}" else ())
    if kind == "float":
        # As a GraphDef holds it: an absent attribute equals one written with the same value.
        return struct.unpack("f", struct.pack("f", float(text)))[0]
    if kind == "func":
        return FuncAttr(str(_read_literal(text)))
    if kind == "tensor":
        dtype_name, _, values = text.partition("[")
        dtype = dtypes.as_dtype(dtype_name)
        return TensorAttr.of(np.array(ast.literal_eval(f"[{values}"), dtype.as_numpy_dtype), dtype)
    return int(text)
