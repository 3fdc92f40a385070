"""Types of a node's inputs and outputs, worked out once for all nodes that agree in what decides them.

A graph of thousands of nodes has a handful of signatures. What an attribute may claim is bounded: a
list output with `N` = 10**12 must not make a tuple of that length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from flowengine.core.dtypes import DType
from flowengine.ir.attrs import AttrValue
from flowengine.ir.opdef import ArgDef, OpDef

#: Inputs or outputs of one node. The largest seen in real graphs are some thousands (Unpack, ConcatV2).
PORTS_MAX: Final = 2**16

Types: TypeAlias = tuple[DType, ...]


class Signatures:
    """A cache; make one for each graph that is read or checked."""

    def __init__(self) -> None:
        self._inputs: dict[object, Types | None] = {}
        self._outputs: dict[object, Types | None] = {}
        self._deciding: dict[int, tuple[OpDef, tuple[str, ...], tuple[str, ...]]] = {}

    def inputs(self, op_def: OpDef, attrs: Mapping[str, AttrValue]) -> Types | None:
        """The type of each input, lists flattened; None where the attributes do not say."""
        deciding = self._deciding.get(id(op_def)) or self._decide(op_def)
        return _lookup(self._inputs, op_def, op_def.inputs, deciding[1], attrs)

    def outputs(self, op_def: OpDef, attrs: Mapping[str, AttrValue]) -> Types | None:
        """The type of each output, lists flattened; None where the attributes do not say."""
        deciding = self._deciding.get(id(op_def)) or self._decide(op_def)
        return _lookup(self._outputs, op_def, op_def.outputs, deciding[2], attrs)

    def _decide(self, op_def: OpDef) -> tuple[OpDef, tuple[str, ...], tuple[str, ...]]:
        # The OpDef is kept, so that its id is not given to another.
        found = (op_def, _attr_names(op_def.inputs), _attr_names(op_def.outputs))
        self._deciding[id(op_def)] = found
        return found


def _lookup(
    known: dict[object, Types | None],
    op_def: OpDef,
    args: Sequence[ArgDef],
    deciding: tuple[str, ...],
    attrs: Mapping[str, AttrValue],
) -> Types | None:
    key = (id(op_def), *[attrs.get(name) for name in deciding])
    try:
        return known[key]
    except KeyError:
        types = known[key] = _types(args, attrs)
        return types
    except TypeError:  # a function or an unreadable value where a type or a number should be
        return None


def _attr_names(args: Sequence[ArgDef]) -> tuple[str, ...]:
    found = (name for arg in args for name in (arg.type_attr, arg.number_attr, arg.type_list_attr))
    return tuple(dict.fromkeys(name for name in found if name is not None))


def _types(args: Sequence[ArgDef], attrs: Mapping[str, AttrValue]) -> Types | None:
    types: list[DType] = []
    for arg in args:
        one: AttrValue = arg.type if arg.type is not None else attrs.get(arg.type_attr or "")
        count: AttrValue = 1 if arg.number_attr is None else attrs.get(arg.number_attr)
        if arg.type_list_attr is not None:
            several: AttrValue = attrs.get(arg.type_list_attr)
            if not isinstance(several, tuple) or not all(isinstance(t, DType) for t in several):
                return None
            types.extend(several)
        elif not isinstance(one, DType) or type(count) is not int or not 0 <= count <= PORTS_MAX:
            return None
        else:
            types.extend((one.ref if arg.is_ref else one,) * count)
        if len(types) > PORTS_MAX:
            return None
    return tuple(types)
