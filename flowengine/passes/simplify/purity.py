"""Pure nodes, which are nothing but a function of their inputs, so that a pass may compute or merge them."""

from __future__ import annotations

from typing import Final

from flowengine.core import dtypes
from flowengine.core.dtypes import DType
from flowengine.ir.attrs import AttrValue, FuncAttr
from flowengine.ir.graph import Node
from flowengine.ir.names import CONTROL_FLOW_OPS, CONTROL_TRIGGER, LOOP_COND
from flowengine.ir.opdef import OpDef
from flowengine.ir.traits import ExternalValue, Impure, Names, Orders
from flowengine.kernels.registry import KernelRegistry

#: Ops for feeds, ops that exist to be waited for, and ops that affect the world, or name a part of it,
#: although no type says so.
_NEVER: Final = (ExternalValue, Orders, Impure, Names)
_CONTROL: Final = CONTROL_FLOW_OPS | {LOOP_COND, CONTROL_TRIGGER}

_HANDLES: Final = frozenset({dtypes.resource, dtypes.variant})

#: Types of attributes that may say that a node is not pure.
_CHECKED_TYPES: Final = frozenset({DType, tuple, FuncAttr})


class Purity:
    """A test whether two runs of a node with equal inputs are indistinguishable.

    They never are for an op that is unknown, stateful, asynchronous or control flow, that calls a function,
    or that takes or returns a reference, a resource or a variant. The facts of an op are computed once, so
    keep one of these for a whole pass.
    """

    def __init__(self, kernels: KernelRegistry | None) -> None:
        self._kernels = kernels
        self._ops: dict[int, tuple[OpDef, bool]] = {}

    def __call__(self, node: Node) -> bool:
        op_def = node.op_def
        if op_def is None:
            return False
        known = self._ops.get(id(op_def))
        if known is None:
            known = self._ops[id(op_def)] = (op_def, self._allows(op_def))
        if not known[1]:
            return False
        # Types that the op leaves open are attributes, so these determine the types of all inputs and
        # outputs.
        return not [v for v in node.attrs.values() if type(v) in _CHECKED_TYPES and _forbids(v)]

    def _allows(self, op_def: OpDef) -> bool:
        if op_def.is_stateful or op_def.name in _CONTROL or any(kind in op_def.traits for kind in _NEVER):
            return False
        if any(arg.is_ref or arg.type in _HANDLES for arg in (*op_def.inputs, *op_def.outputs)):
            return False
        return self._kernels is None or not any(
            kernel.is_async or kernel.takes_context for kernel in self._kernels.candidates(op_def.name)
        )


def _forbids(value: AttrValue) -> bool:
    if type(value) is DType:
        return value in _HANDLES
    if isinstance(value, tuple):
        return any(_forbids(item) for item in value)
    return isinstance(value, FuncAttr)
