"""How a region uses stacks and TensorArrays: by their methods, where it is certain what a handle is.

    t1.push(t4)                    StackPushV2
    t5 = t1.pop()                  StackPopV2
    t6 = t2.get(int(t0))           TensorArrayReadV3
    t7 = t2.write(int(t0), t4) or t3    TensorArrayWriteV3, whose result is the flow that it was given

A kernel looks at what it is handed: whether that is a stack at all, of the type that the node expects, and
whether the index is a scalar. All of it is known beforehand if the node that made the handle is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from flowengine.core.dtypes import DType
from flowengine.ir.graph import Node, OutputPort
from flowengine.ir.names import ENTER_OPS
from flowengine.passes.blocks.program import Program

#: Nodes on the way of a handle further than this are not followed.
_HOPS_MAX: Final = 100
#: {op: the attribute that says of which type the elements are}
_TYPE_WANTED: Final = {
    "StackPopV2": "elem_type",
    "StackPushV2": "T",
    "TensorArrayReadV3": "dtype",
    "TensorArrayWriteV3": "T",
}


class StackWriting:
    """The part of the region writer that knows stacks and TensorArrays."""

    program: Program
    _value: Callable[..., str]
    _argument: Callable[..., str]

    def _method_call(self, node: Node) -> str | None:
        """The expression of a node as a call of its handle's method, if that is the same."""
        handle, *rest = node.inputs or (None,)
        if handle is None or not self._is_certain(node, handle):
            return None
        name = self._value(handle)
        if node.op == "StackPopV2":
            return f"{name}.pop()"
        if node.op == "StackPushV2":
            return f"{name}.push({self._argument(rest[0], False)})"
        index = f"int({self._argument(rest[0], False, True)})"
        if node.op == "TensorArrayReadV3":
            return f"{name}.get({index})"
        value, flow = (self._argument(port, False) for port in rest[1:])
        return f"{name}.write({index}, {value}) or {flow}"

    def _is_certain(self, node: Node, handle: OutputPort) -> bool:
        """Whether what the kernel would look at is known."""
        wanted = _TYPE_WANTED.get(node.op)
        if wanted is None:
            return False
        if node.op in ("StackPushV2", "StackPopV2"):
            held = self._type_held(handle, "StackV2", "elem_type")
        else:
            held = self._type_of_array(handle) if node.inputs[1] in self.program.scalars else None
        return held is not None and held is node.attrs[wanted].base

    def _type_of_array(self, port: OutputPort) -> DType | None:
        """The type of a TensorArray, or of that whose gradient it is."""
        maker = self._maker(port)
        if maker is not None and maker.op == "TensorArrayGradV3":
            port = maker.inputs[0]
        return self._type_held(port, "TensorArrayV3", "dtype")

    def _type_held(self, port: OutputPort, op: str, attr: str) -> DType | None:
        """The type that a handle's object holds, if a node of this op made it."""
        maker = self._maker(port)
        held: Any = maker.attrs[attr].base if maker is not None and maker.op == op else None
        return held if isinstance(held, DType) else None

    def _maker(self, port: OutputPort) -> Node | None:
        """The node whose first output a handle is, wherever it has come through."""
        program = self.program
        for _ in range(_HOPS_MAX):
            if port in program.feeds:
                return None
            node = program.nodes.get(port.node)
            if node is None:
                return None
            if node.op in ENTER_OPS or node.op in ("Identity", "Switch"):
                port = node.inputs[0]
            else:
                return node if port.slot == 0 else None
        return None
