"""Method calls for stacks, TensorArrays and variables in a region, if the handle is certain.

    t1.push(t4)                    StackPushV2
    t5 = t1.pop()                  StackPopV2
    t6 = t2.get(int(t0))           TensorArrayReadV3
    t7 = t2.write(int(t0), t4) or t3    TensorArrayWriteV3, whose result is the flow that it got
    t8 = a0.value_of(k1)                ReadVariableOp

A kernel checks its inputs: whether the object is a stack at all, of the type that the node expects, and
whether the index is a scalar. All of this is known beforehand if the node that made the handle is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from flowengine.core.dtypes import DType
from flowengine.ir.graph import Node, OutputPort
from flowengine.ir.names import ENTER_OPS, SWITCH_OPS
from flowengine.ir.traits import HandleOf, HandsOn, Method
from flowengine.passes.blocks.program import Program

#: The longest path of a handle, in nodes, that is followed.
_HOPS_MAX: Final = 100


class StackSourceWriter:
    """The part of the region writer that knows objects behind handles."""

    program: Program
    _constant: Callable[[Any, Any], str]
    _value: Callable[..., str]
    _argument: Callable[..., str]

    def _method_call(self, node: Node) -> str | None:
        """Return the expression of a node as a call of its handle's method, if it is equivalent."""
        method = node.trait(Method)
        if method is None or not self._is_certain(node, method):
            return None
        handle, *rest = node.inputs
        parts = [self._value(handle)]
        parts += [self._argument(port, False, place in method.places) for place, port in enumerate(rest, 1)]
        if "{dtype}" not in method.call:
            return method.call.format(*parts)
        wanted = node.attrs[method.dtype]
        return method.call.format(*parts, dtype=self._constant(wanted, ("dtype", wanted)))

    def _is_certain(self, node: Node, method: Method) -> bool:
        """Return whether everything that the kernel would check is known."""
        if any(node.inputs[place] not in self.program.scalars for place in method.places):
            return False
        held = self._type_held(node.inputs[0], method.family)
        return held is not None and held is node.attrs[method.dtype].base

    def _type_held(self, port: OutputPort, family: str) -> DType | None:
        """Return the type that a handle's object holds, if the node that made it is known."""
        maker = self._maker(port)
        holds = None if maker is None else maker.trait(HandleOf)
        if maker is None or holds is None or holds.family != family:
            return None
        if holds.like:
            return self._type_held(maker.inputs[holds.places[0]], family)
        held = maker.attrs[holds.dtype].base
        return held if isinstance(held, DType) else None

    def _maker(self, port: OutputPort) -> Node | None:
        """Return the node whose first output a handle is, through all nodes that forward it."""
        program = self.program
        for _ in range(_HOPS_MAX):
            if port in program.feeds:
                return None
            node = program.nodes.get(port.node)
            if node is None:
                return None
            if node.op in ENTER_OPS or node.op in SWITCH_OPS or node.has(HandsOn):
                port = node.inputs[0]
            else:
                return node if port.slot == 0 else None
        return None
