"""Ops that a random graph was told to draw: which types, inputs and attributes they get there.

    graphs(ops=["Halve", DrawnOp("Clip", attrs={"low": st.floats(-1, 0)})], registry=my_ops)

An op takes values of the block that it stands in, of one shape, or of any shapes that its shape function
accepts. What it gives is used by later statements where type and shape are known, and can be fetched in any
case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from hypothesis import strategies as st

from flowengine.core import dtypes as dt
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.ir.argdef import ArgDef, AttrDef
from flowengine.ir.opdef import OpDef

Kind: TypeAlias = tuple[DType, tuple[int, ...]]

#: Of what random graphs can make a constant, the usual ones first.
_USUAL: Final = (dt.float32, dt.int32, dt.bool_)
_TYPES: Final = (*_USUAL, dt.float64, dt.int64, dt.uint8, dt.int8, dt.int16, dt.uint16)
_SHAPES: Final[tuple[tuple[int, ...], ...]] = ((), (3,), (2, 3))
_LIST_MAX: Final = 3
#: Larger values are fetched, but not computed with.
_ELEMENTS_MAX: Final = 64


@dataclass(frozen=True)
class DrawnOp:
    """An op for random graphs.

    name    of the op: stateless, from numbers and truth values, on any values of its types
    attrs   {attribute: its value, or a strategy of values}, of those that inputs do not determine; without
            an entry an attribute has its default, or is drawn if it is a truth value or a type
    """

    name: str
    attrs: Mapping[str, Any] = field(default_factory=dict)


class DrawnBlock(Protocol):
    """The interface of the block that an op stands in: see `random_graphs`."""

    @property
    def values(self) -> list[tuple[Tensor, Kind]]: ...

    def add(self, tensor: Tensor, kind: Kind) -> None: ...

    def anchored(self) -> AbstractContextManager[None]: ...


class OpChoice:
    """Writes one of the ops, each time anew.

    pick   gives a block's value of a kind, made if there is none
    ends   names of tensors that no later statement can use
    """

    def __init__(
        self,
        graph: Graph,
        draw: st.DrawFn,
        ops: Sequence[str | DrawnOp],
        pick: Callable[[Any, Kind], Tensor],
    ) -> None:
        """Raises NotFoundError for an unknown op, InvalidArgumentError for one that cannot be drawn."""
        if not ops:
            raise InvalidArgumentError("graphs(ops=[]) names no op: leave it out, or name one")
        self.ends: list[str] = []
        self._graph = graph
        self._draw = draw
        self._pick = pick
        self._ops: list[tuple[OpDef, Mapping[str, Any]]] = []
        for each in ops:
            drawn = each if isinstance(each, DrawnOp) else DrawnOp(each)
            definition = graph.registry[drawn.name]
            _check(definition, drawn.attrs)
            self._ops.append((definition, drawn.attrs))

    def write(self, block: DrawnBlock, *, is_root: bool) -> None:
        """Add a node to the block, unless the op's shape function refuses what was drawn for it."""
        definition, given = self._draw(st.sampled_from(self._ops))
        attrs = {
            name: self._draw(value) if isinstance(value, st.SearchStrategy) else value
            for name, value in given.items()
        }
        self._choose(definition, attrs)
        alike = definition.shape is None or self._draw(st.booleans())
        made = self._made(block, definition, attrs, alike=alike)
        if made is None and not alike:
            made = self._made(block, definition, attrs, alike=True)
        for tensor in () if made is None else made.outputs:
            dims = tensor.shape.as_tuple()
            if tensor.dtype in _TYPES and dims is not None and _elements(dims) <= _ELEMENTS_MAX:
                block.add(tensor, (tensor.dtype, dims))
            elif is_root:
                self.ends.append(tensor.name)

    def _choose(self, definition: OpDef, attrs: dict[str, Any]) -> None:
        """Draw what is not given: types, lengths of lists, truth values."""
        lists = {arg.number_attr for arg in definition.inputs}
        type_lists = {arg.type_list_attr for arg in definition.inputs}
        inputs = {arg.type_attr for arg in definition.inputs}
        for attr in definition.attrs:
            if attr.name in attrs:
                continue
            if attr.name in lists:
                attrs[attr.name] = self._draw(st.integers(max(1, attr.minimum or 0), _length_max(attr)))
            elif attr.name in type_lists:
                length = st.integers(max(1, attr.minimum or 0), _length_max(attr))
                types = st.sampled_from(_types_for(attr))
                attrs[attr.name] = [self._draw(types) for _ in range(self._draw(length))]
            elif attr.name in inputs or (attr.type == "type" and not attr.has_default):
                attrs[attr.name] = self._draw(st.sampled_from(_types_for(attr)))
            elif attr.type == "bool" and not attr.has_default:
                attrs[attr.name] = self._draw(st.booleans())

    def _made(
        self, block: DrawnBlock, definition: OpDef, attrs: Mapping[str, Any], *, alike: bool
    ) -> Operation | None:
        """The node on values of the block, all of one shape or not; None where shapes do not fit."""
        shape = self._draw(st.sampled_from(_SHAPES)) if alike else None
        inputs = [self._argument(block, arg, attrs, shape) for arg in definition.inputs]
        try:
            with block.anchored():
                return self._graph.create_op(definition.name, inputs, dict(attrs))
        except InvalidArgumentError:
            if definition.shape is None:
                raise
            return None

    def _argument(
        self, block: DrawnBlock, arg: ArgDef, attrs: Mapping[str, Any], shape: tuple[int, ...] | None
    ) -> Any:
        values = [self._value(block, dtype, shape) for dtype in arg.types(attrs)]
        return values if arg.is_list else values[0]

    def _value(self, block: DrawnBlock, dtype: DType, shape: tuple[int, ...] | None) -> Tensor:
        if shape is None:
            fitting = [tensor for tensor, kind in block.values if kind[0] is dtype]
            if fitting:
                return self._draw(st.sampled_from(fitting))
            shape = self._draw(st.sampled_from(_SHAPES))
        return self._pick(block, (dtype, shape))


def _check(definition: OpDef, attrs: Mapping[str, Any]) -> None:
    """Raise InvalidArgumentError, saying why, for an op that a random graph cannot hold."""
    name = definition.name
    if definition.is_stateful or any(arg.is_ref for arg in (*definition.inputs, *definition.outputs)):
        raise InvalidArgumentError(
            f"{name} has state: which values it gives would depend on the order of steps"
        )
    for arg in definition.inputs:
        if arg.type is not None and arg.type not in _TYPES:
            raise InvalidArgumentError(f"{name} takes a {arg.type} ('{arg.name}'): random graphs have none")
    implied = {
        attr
        for arg in definition.inputs
        for attr in (arg.type_attr, arg.number_attr, arg.type_list_attr)
        if attr is not None
    }
    for attr in definition.attrs:
        if attr.name in attrs:
            continue
        if attr.name in implied or (attr.type == "type" and not attr.has_default):
            if attr.type in ("type", "list(type)") and not _types_for(attr):
                raise InvalidArgumentError(
                    f"{name}: random graphs have no value of a type that {attr.name} may be"
                )
        elif not attr.has_default and attr.type != "bool":
            raise InvalidArgumentError(
                f"{name}: attribute '{attr.name}' ({attr.type}) has no default: say "
                f"DrawnOp({name!r}, attrs={{{attr.name!r}: ...}}), a value or a strategy"
            )
    unknown = attrs.keys() - {attr.name for attr in definition.attrs}
    if unknown:
        raise InvalidArgumentError(f"{name} has no attribute {', '.join(sorted(unknown))}")


def _types_for(attr: AttrDef) -> list[DType]:
    """The types that an attribute may be: the usual ones, or if none of them is allowed any other."""
    allowed = [dtype for dtype in _TYPES if attr.allowed is None or dtype in attr.allowed]
    return [dtype for dtype in allowed if dtype in _USUAL] or allowed


def _length_max(attr: AttrDef) -> int:
    return max(_LIST_MAX, attr.minimum or 0)


def _elements(dims: tuple[int, ...]) -> int:
    count = 1
    for side in dims:
        count *= side
    return count


__all__ = ["DrawnBlock", "DrawnOp", "OpChoice"]
