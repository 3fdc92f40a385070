"""Types of a node's inputs and outputs, worked out once for all nodes that agree in what decides them.

A graph of thousands of nodes has a handful of signatures. What an attribute may claim is bounded: a
list output with `N` = 10**12 must not make a tuple of that length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from flowengine.core.dtypes import DType
from flowengine.ir.argdef import ArgDef
from flowengine.ir.attrs import AttrValue
from flowengine.ir.opdef import OpDef

#: Inputs or outputs of one node. The largest seen in real graphs are some thousands (Unpack, ConcatV2).
PORTS_MAX: Final = 2**16

Types: TypeAlias = tuple[DType, ...]


class SignatureCache:
    """A cache; make one for each graph that is read or checked."""

    def __init__(self) -> None:
        self._known: dict[object, tuple[Types, Types] | None] = {}
        #: id of an OpDef -> it, so that the id is not given to another, and its deciding attributes.
        self._deciding: dict[int, tuple[OpDef, tuple[str, ...]]] = {}

    def types(self, op_def: OpDef, attrs: Mapping[str, AttrValue]) -> tuple[Types, Types] | None:
        """The types of the inputs and of the outputs, lists flattened; None where attributes do not say."""
        identity = id(op_def)
        deciding = self._deciding.get(identity)
        if deciding is None:
            deciding = self._deciding[identity] = (op_def, _attr_names((*op_def.inputs, *op_def.outputs)))
        key = (identity, *[attrs.get(name) for name in deciding[1]])
        try:
            return self._known[key]
        except KeyError:
            inputs, outputs = _types(op_def.inputs, attrs), _types(op_def.outputs, attrs)
            both = None if inputs is None or outputs is None else (inputs, outputs)
            self._known[key] = both
            return both
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
