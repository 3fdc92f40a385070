"""How a region writes one kernel call: as a call, as an operator, or into the buffer of an operand.

    t0 = k0(a0, t1)          any kernel
    t0 = t1 + t2             numbers of rank 0: NumPy's operators take a tenth of its functions' time
    t0 = k1(t1, a0, t1)      an elementwise function of a small array that nobody else can see

An operator is written only if the kernel defines one (`Kernel.inline`), every operand is known to be of rank
0 or the kernel allows any rank, and its type is one of NumPy's scalar types: tests compare operator and
function bit by bit.

A buffer is written to again only if a ufunc made it in this region, it dies here, all its users were kernels
that keep nothing and return new memory, and it certainly has the dtype and shape of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.dtypes import DType, resource, variant
from flowengine.ir.graph import Node, OutputPort
from flowengine.ir.names import MERGE_OPS, SWITCH_OPS
from flowengine.ir.traits import HandsOn
from flowengine.kernels.registry import Kernel, KernelRegistry
from flowengine.passes.blocks.codegen_stacks import StackSourceWriter
from flowengine.passes.blocks.program import Program
from flowengine.passes.blocks.region_units import Unit

#: Types whose NumPy scalars compute the same as NumPy's functions.
INLINE_TYPES: Final = frozenset(
    d for d in dtypes.COMPUTED if d.is_bool or ((d.is_integer or d.is_floating) and d.name != "bfloat16")
)

#: NumPy takes the buffer of these by keyword, which costs more than it saves.
_NO_POSITIONAL_OUT: Final = frozenset({np.maximum, np.minimum})
#: Types whose values may be kept, or may not be arrays of numbers.
_OBJECTS: Final = frozenset({resource, variant, dtypes.string}) | frozenset(
    d.ref for d in (*dtypes.ALL, resource, variant)
)
#: Attributes of which equal ones are the same. Floats are not: -0.0 equals 0.0.
_SHARED: Final = (bool, int, bytes, DType)


class CallSourceWriter(StackSourceWriter):
    """The part of the region writer that knows kernels."""

    program: Program
    kernels: KernelRegistry
    #: Whether a written call passes `ctx` on.
    takes_context: bool
    #: {value: the name that holds it}
    _constant_names: dict[Any, str]
    _kernel_of: dict[str, Kernel]
    #: Origins that a node takes which may pass them on, or keep them.
    _held: set[OutputPort]
    #: Origins that some call takes as NumPy scalars.
    _wanted_scalars: set[OutputPort]
    _constant: Callable[[Any, Any], str]
    _value: Callable[..., str]
    _argument: Callable[..., str]

    # -- analysis -----------------------------------------------------------------------------------

    def _look_at_uses(self, units: Iterable[Unit]) -> None:
        """Find the values that nodes keep, and the numbers that are needed as scalars."""
        program = self.program
        for unit in units:
            if unit.loop is not None:
                self._look_at_uses((*unit.loop.top, *unit.loop.body))
                self._held.update(program.uses(unit))
                self._wanted_scalars.update(program.origin(v.enter.inputs[0]) for v in unit.loop.variables)
            elif unit.node is not None and not program.is_silent(unit):
                if self._keeps(unit.node):
                    self._held.update(program.origin(port) for port in unit.inputs)
                if program.scalars.issuperset(unit.inputs):
                    self._wanted_scalars.update(program.origin(port) for port in unit.inputs)

    def _keeps(self, node: Node) -> bool:
        """Return whether a node may pass its inputs on, or keep them beyond its call."""
        if node.op in MERGE_OPS or node.op in SWITCH_OPS or node.has(HandsOn):
            return True
        kernel = self._kernel(node)
        if not kernel.fresh or kernel.takes_context or not node.output_types:
            return True
        return not (_OBJECTS.isdisjoint(node.input_types()) and _OBJECTS.isdisjoint(node.output_types))

    def _kernel(self, node: Node) -> Kernel:
        kernel = self._kernel_of.get(node.name)
        if kernel is None:
            kernel = self._kernel_of[node.name] = self.kernels.find(node)
        return kernel

    # -- a call -------------------------------------------------------------------------------------

    def _call(self, node: Node, dying: Collection[OutputPort] = ()) -> tuple[str, list[str]]:
        """Return the expression of a node, and the unchanged expressions of its inputs.

        dying   origins, made in this scope, that this node is the last to take
        """
        method = self._method_call(node)
        if method is not None:
            return method, [self._value(port) for port in node.inputs]
        kernel = self._kernel(node)
        op_def = node.op_def
        assert op_def is not None
        scalar = self.program.scalars.issuperset(node.inputs)
        plain = [self._value(port, scalar) for port in node.inputs]
        parts = [
            self._argument(port, wanted.is_ref, scalar)
            for port, wanted in zip(node.inputs, node.input_types(), strict=True)
        ]
        arguments = parts
        if any(arg.is_list for arg in op_def.inputs):
            lengths = [len(arg.types(node.attrs)) if arg.is_list else None for arg in op_def.inputs]
            arguments = _grouped(parts, lengths)
        if kernel.inline is not None and (scalar or kernel.inline_any_rank) and _is_inline(node):
            function = self._function(kernel, node) if "{f}" in kernel.inline else ""
            return kernel.inline.format(*parts, f=function), plain
        if dying and isinstance(kernel.function, np.ufunc) and kernel.function not in _NO_POSITIONAL_OUT:
            buffer = self._buffer(node, dying)
            if buffer is not None:
                arguments = [*arguments, self._value(buffer)]
        if kernel.takes_context:
            self.takes_context = True
            arguments = [*arguments, "ctx=ctx"]
        return f"{self._function(kernel, node)}({', '.join(arguments)})", plain

    def _function(self, kernel: Kernel, node: Node) -> str:
        """Return the name of a kernel bound to a node's attributes; equal ones share a name."""
        values = tuple(node.attrs.get(name) for name in kernel.attr_names)
        # The result of a kernel from outside is checked for each node by itself.
        shared = not kernel.is_foreign and all(isinstance(value, _SHARED) for value in values)
        key = (kernel.function, values) if shared else ("kernel", node.name)
        return self._constant_names.get(key) or self._constant(kernel.bind(node), key)

    def _buffer(self, node: Node, dying: Collection[OutputPort]) -> OutputPort | None:
        """Return the operand into whose memory the result may be written."""
        extents = self.program.extents
        if not extents:
            return None
        origins = [self.program.origin(port) for port in node.inputs]
        shapes = [extents.get(origin) for origin in origins]
        (result,) = node.output_types if len(node.output_types) == 1 else (None,)
        if result is None or any(shape is None for shape in shapes):
            return None
        for origin, shape in zip(origins, shapes, strict=True):
            if origin not in dying or origin in self._held or not shape or self._dtype(origin) != result:
                continue
            if not self._made_by_ufunc(origin):
                continue
            if all(_fits(shape, other) for other in shapes):
                return origin
        return None

    def _made_by_ufunc(self, port: OutputPort) -> bool:
        node = self.program.nodes[port.node]
        return isinstance(self._kernel(node).function, np.ufunc)

    def _dtype(self, port: OutputPort) -> DType:
        return self.program.nodes[port.node].output_types[port.slot]


def _grouped(parts: Sequence[str], lengths: Sequence[int | None]) -> list[str]:
    """Return the arguments, with those of each list argument as one tuple."""
    arguments: list[str] = []
    position = 0
    for length in lengths:
        if length is None:
            arguments.append(parts[position])
            position += 1
            continue
        found = parts[position : position + length]
        position += length
        arguments.append(f"({', '.join(found)}{',' if length == 1 else ''})")
    return arguments


def _is_inline(node: Node) -> bool:
    return all(t in INLINE_TYPES for t in node.input_types())


def _fits(shape: Sequence[int | None], other: Sequence[int | None] | None) -> bool:
    """Return whether an operand of shape `other` leaves the result's shape and its layout as of `shape`.

    Of two matrices, the one that is written to could have the other order in memory: the sums of later
    kernels would then be computed in another order.
    """
    if other is None:
        return False
    if other is shape:
        return True
    if len(other) > 1 or len(other) > len(shape):
        return False
    return not other or other[0] == 1 or (other[0] is not None and other[0] == shape[-1])
