"""OpDef: an op's signature in TensorFlow's terms, and the registry of them.

A signature is written as TensorFlow's registry writes it:

    MAT_MUL = OpDef.build(
        "MatMul",
        inputs=["a: T", "b: T"],
        outputs=["product: T"],
        attrs=["transpose_a: bool = false", "transpose_b: bool = false", "T: {float, double, int32}"],
        shape=mat_mul_shape,
    )

Argument forms: `x: T`, `x: float`, `x: Ref(T)`, `xs: N * T` (N tensors of one type), `xs: Tlist` (a list
of types). Attribute forms: `name: type`, `name: {a, b}` (allowed types, or strings in quotes),
`name: int >= 1`, `name: list(int) >= 2`, each with an optional ` = default`: `3`, `true`, `"text"`, `half`,
`[1, 2]`, a shape `[2, -1]` or `unknown`, a tensor `uint8[255, 0]`. Groups of types: `numbertype`,
`realnumbertype`, `floattype`, `quantizedtype`.
"""

from __future__ import annotations

import ast
import functools
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from flowengine.core import dtypes
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.core.shapes import TensorShape
from flowengine.ir.attrs import AttrValue, FuncAttr, TensorAttr


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


#: The default of an attribute that has none.
MISSING: Final = _Missing()


class HandleSource(Protocol):
    """A node that makes a resource: its op and attributes."""

    @property
    def op(self) -> str: ...

    @property
    def attrs(self) -> Mapping[str, AttrValue]: ...


class ShapeContext(Protocol):
    """What a shape function may ask of the node whose output shapes it infers."""

    #: The node's attributes, defaults applied.
    attrs: Mapping[str, AttrValue]
    #: The number of inputs, lists flattened.
    num_inputs: int
    #: The number of outputs, lists flattened.
    num_outputs: int
    #: The type of each output.
    output_types: Sequence[DType]
    #: The version of the program that wrote the graph (GraphDef.versions.producer).
    producer: int

    def input(self, index: int) -> TensorShape:
        """The shape of an input, as far as it is known."""

    def input_value(self, index: int) -> Any | None:
        """The value of an input that is constant (see `core.arrays`), else None."""

    def input_as_shape(self, index: int) -> TensorShape:
        """The shape that an integer vector input spells, known as far as the vector is."""

    def handle_shape(self, index: int) -> TensorShape:
        """The shape of the variable that a resource input names, as far as it is known."""

    def handle_source(self, index: int) -> HandleSource | None:
        """What made the resource or reference that an input names, if the graph leads to it."""


ShapeFunction = Callable[[ShapeContext], Sequence[TensorShape]]


@dataclass(frozen=True, slots=True)
class ArgDef:
    """One input or output: exactly one of `type`, `type_attr`, `type_list_attr` is set."""

    name: str
    type: DType | None = None
    type_attr: str | None = None
    number_attr: str | None = None
    type_list_attr: str | None = None
    is_ref: bool = False

    @property
    def is_list(self) -> bool:
        return self.number_attr is not None or self.type_list_attr is not None

    def types(self, attrs: Mapping[str, AttrValue]) -> tuple[DType, ...]:
        """The types of the tensors that this argument stands for, references as such."""
        if self.type_list_attr is not None:
            return tuple(attrs[self.type_list_attr])
        one: DType = self.type if self.type is not None else attrs[self.type_attr or ""]
        if self.is_ref:
            one = one.ref
        return (one,) * int(attrs[self.number_attr]) if self.number_attr is not None else (one,)


@dataclass(frozen=True, slots=True)
class AttrDef:
    """One attribute: its type, default, and what its values may be."""

    name: str
    #: "int", "float", "bool", "string", "type", "shape", "tensor", "func", or "list(...)" of one.
    type: str
    default: AttrValue = MISSING
    allowed: tuple[Any, ...] | None = None
    minimum: int | None = None

    @property
    def has_default(self) -> bool:
        return not isinstance(self.default, _Missing)


@dataclass(frozen=True, slots=True)
class OpDef:
    """One op's signature. Attributes that only give types or counts stand in `attrs` too."""

    name: str
    inputs: tuple[ArgDef, ...] = ()
    outputs: tuple[ArgDef, ...] = ()
    attrs: tuple[AttrDef, ...] = ()
    is_stateful: bool = False
    is_commutative: bool = False
    is_aggregate: bool = False
    allows_uninitialized_input: bool = False
    shape: ShapeFunction | None = None

    @classmethod
    def build(
        cls,
        name: str,
        *,
        inputs: Iterable[str] = (),
        outputs: Iterable[str] = (),
        attrs: Iterable[str] = (),
        is_stateful: bool = False,
        is_commutative: bool = False,
        is_aggregate: bool = False,
        allows_uninitialized_input: bool = False,
        shape: ShapeFunction | None = None,
    ) -> OpDef:
        """Make an OpDef from signature strings; InvalidArgumentError for one that does not parse."""
        attr_defs = tuple(map(_parse_attr, attrs))
        types = {a.name: a.type for a in attr_defs}
        return cls(
            name,
            tuple([_parse_arg(text, types) for text in inputs]),
            tuple([_parse_arg(text, types) for text in outputs]),
            attr_defs,
            is_stateful,
            is_commutative,
            is_aggregate,
            allows_uninitialized_input,
            shape,
        )

    def attr(self, name: str) -> AttrDef | None:
        return next((a for a in self.attrs if a.name == name), None)

    def with_defaults(self, attrs: Mapping[str, AttrValue]) -> dict[str, AttrValue]:
        """The attributes with every missing one that has a default filled in."""
        result = {a.name: a.default for a in self.attrs if a.has_default}
        result.update(attrs)
        return result

    def input_types(self, attrs: Mapping[str, AttrValue]) -> tuple[DType, ...]:
        """The type of each input, lists flattened; attrs must be complete."""
        return tuple(t for arg in self.inputs for t in arg.types(attrs))

    def output_types(self, attrs: Mapping[str, AttrValue]) -> tuple[DType, ...]:
        return tuple(t for arg in self.outputs for t in arg.types(attrs))


_ARG = re.compile(r"\s*(\w+)\s*:\s*(?:(\w+)\s*\*\s*)?(Ref\(\s*(\w+)\s*\)|\w+)\s*\Z")
_ATTR = re.compile(
    r"\s*(\w+)\s*:\s*(list\(\s*(?:\{[^}]*\}|\w+)\s*\)|\{[^}]*\}|\w+)\s*(?:>=\s*(-?\d+))?\s*(?:=\s*(.*?))?\s*\Z",
    re.S,
)
_GROUPS: Final[dict[str, tuple[DType, ...]]] = {
    "numbertype": tuple(
        d
        for d in dtypes.ALL
        if d.is_floating or d.is_integer or d.is_complex or d in (dtypes.qint8, dtypes.quint8, dtypes.qint32)
    ),
    "realnumbertype": tuple(d for d in dtypes.ALL if d.is_floating or d.is_integer),
    "quantizedtype": tuple(d for d in dtypes.ALL if d.is_quantized),
    "floattype": tuple(d for d in dtypes.ALL if d.is_floating),
}


def _parse_arg(text: str, attr_types: Mapping[str, str]) -> ArgDef:
    name, number, kind, is_ref = _split_arg(text)
    return _make_arg(name, number, kind, is_ref, attr_types.get(kind))


# A thousand ops share most of their arguments and attributes, so each text is parsed once.
@functools.cache
def _split_arg(text: str) -> tuple[str, str | None, str, bool]:
    match = _ARG.match(text)
    if match is None:
        raise InvalidArgumentError(f"cannot read the argument {text!r} of an op definition")
    name, number, kind, referred = match.groups()
    return name, number, referred or kind, referred is not None


@functools.cache
def _make_arg(name: str, number: str | None, kind: str, is_ref: bool, attr_type: str | None) -> ArgDef:
    if attr_type is None:
        return ArgDef(name, type=dtypes.as_dtype(kind), number_attr=number, is_ref=is_ref)
    if attr_type == "list(type)":
        return ArgDef(name, type_list_attr=kind, is_ref=is_ref)
    return ArgDef(name, type_attr=kind, number_attr=number, is_ref=is_ref)


@functools.cache
def _parse_attr(text: str) -> AttrDef:
    match = _ATTR.match(text)
    if match is None:
        raise InvalidArgumentError(f"cannot read the attribute {text!r} of an op definition")
    name, kind, minimum, default = match.groups()
    allowed: tuple[Any, ...] | None = None
    is_list = kind.startswith("list(")
    inner = kind[5:-1].strip() if is_list else kind
    if inner.startswith("{"):
        items = [item.strip() for item in inner[1:-1].split(",") if item.strip()]
        if items and items[0][0] in "'\"":
            inner, allowed = "string", tuple(ast.literal_eval(item).encode() for item in items)
        else:
            inner, allowed = "type", tuple(dtypes.as_dtype(item) for item in items)
    elif inner in _GROUPS:
        inner, allowed = "type", _GROUPS[inner]
    elif inner not in ("int", "float", "bool", "string", "type", "shape", "tensor", "func"):
        raise InvalidArgumentError(f"unknown attribute type {inner!r} in {text!r}")
    kind = f"list({inner})" if is_list else inner
    value: AttrValue = MISSING if default is None else _parse_default(default, kind)
    return AttrDef(name, kind, value, allowed, None if minimum is None else int(minimum))


def _parse_default(text: str, kind: str) -> AttrValue:
    if kind.startswith("list("):
        items = text.strip()[1:-1].strip()
        parts = _split_list(items) if items else []
        return tuple(_parse_default(part, kind[5:-1]) for part in parts)
    if kind == "type":
        return dtypes.as_dtype(text.removeprefix("DT_").lower() if text.startswith("DT_") else text)
    if kind == "bool":
        return text.strip().lower() == "true"
    if kind == "string":
        return str(ast.literal_eval(text)).encode()
    if kind == "shape":
        if text in ("{ unknown_rank: true }", "unknown"):
            return TensorShape(None)
        return TensorShape(ast.literal_eval(text) if text != "{}" else ())
    if kind == "float":
        # As a GraphDef holds it: an absent attribute equals one written with the same value.
        return struct.unpack("f", struct.pack("f", float(text)))[0]
    if kind == "func":
        return FuncAttr(str(ast.literal_eval(text)))
    if kind == "tensor":
        dtype_name, _, values = text.partition("[")
        dtype = dtypes.as_dtype(dtype_name)
        return TensorAttr.of(np.array(ast.literal_eval(f"[{values}"), dtype.as_numpy_dtype), dtype)
    return int(text)


def _split_list(text: str) -> list[str]:
    """Split at commas outside of brackets and quotes."""
    return [
        m.group(0).strip() for m in re.finditer(r"(?:\[[^\]]*\]|\{[^}]*\}|\"[^\"]*\"|'[^']*'|[^,])+", text)
    ]


class OpRegistry:
    """The ops that a graph may use, by name. A registry is an object: tests and users make their own."""

    def __init__(self, parent: OpRegistry | None = None) -> None:
        self._defs: dict[str, OpDef] = {}
        self._parent = parent

    def register(self, definition: OpDef) -> OpDef:
        """Add a definition; InvalidArgumentError if the name is taken."""
        if definition.name in self._defs:
            raise InvalidArgumentError(f"op '{definition.name}' is already defined in this registry")
        self._defs[definition.name] = definition
        return definition

    def get(self, name: str) -> OpDef | None:
        found = self._defs.get(name)
        return self._parent.get(name) if found is None and self._parent is not None else found

    def __getitem__(self, name: str) -> OpDef:
        """The definition; NotFoundError, with `missing_op` set, if there is none."""
        found = self.get(name)
        if found is None:
            error = NotFoundError(f"Op type not registered '{name}'")
            error.missing_op = name
            raise error
        return found

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        names = set(self._defs)
        if self._parent is not None:
            names |= set(self._parent)
        return iter(sorted(names))
