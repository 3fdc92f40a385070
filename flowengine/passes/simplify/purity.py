"""Which nodes are nothing but a function of their inputs, so that a pass may compute or merge them."""

from __future__ import annotations

from typing import Final

from flowengine.core import dtypes
from flowengine.core.dtypes import DType
from flowengine.ir.attrs import AttrValue, FuncAttr
from flowengine.ir.frames import ENTER_OPS, EXIT_OPS, MERGE_OPS, NEXT_ITERATION_OPS, SWITCH_OPS
from flowengine.ir.graph import Node
from flowengine.ir.opdef import OpDef
from flowengine.kernels.registry import KernelRegistry

#: Control flow, places where values come in, and ops that touch the world although no definition says so.
_NEVER: Final = (
    ENTER_OPS
    | EXIT_OPS
    | MERGE_OPS
    | NEXT_ITERATION_OPS
    | SWITCH_OPS
    | frozenset({"LoopCond", "ControlTrigger", "NoOp", "Assert", "Print"})
    | frozenset({"Placeholder", "PlaceholderV2", "PlaceholderWithDefault", "_Arg", "_Retval"})
    | frozenset({"Send", "Recv", "_Send", "_Recv", "_HostSend", "_HostRecv"})
    | frozenset({"ReadFile", "MatchingFiles", "ImmutableConst"})
)

#: The second version of TensorArrays names them by plain strings; Debug ops are there to be seen.
_NEVER_FAMILIES: Final = ("TensorArray", "Debug")

_HANDLES: Final = frozenset({dtypes.resource, dtypes.variant})

#: Types of attributes that may say that a node is not pure.
_TELLING: Final = frozenset({DType, tuple, FuncAttr})


class Purity:
    """Tells whether two runs of a node with equal inputs cannot be told from one.

    That is never so for an op that is unknown, stateful, asynchronous or control flow, that calls a
    function, or that takes or yields a reference, a resource or a variant. What depends on the op alone
    is found out once, so keep one of these for a whole pass.
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
        # Types that the op leaves open are attributes, so these tell of all inputs and outputs.
        return not [v for v in node.attrs.values() if type(v) in _TELLING and _forbids(v)]

    def _allows(self, op_def: OpDef) -> bool:
        if op_def.is_stateful or op_def.name in _NEVER or op_def.name.startswith(_NEVER_FAMILIES):
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
