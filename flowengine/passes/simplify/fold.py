"""Fold constants: compute values once, while planning, that every step would compute alike.

    f(c1, ..., cn), all ci Const, f pure  ->  Const with f's name, control inputs of f and of all ci

A node with several outputs becomes one Const for each output, which its consumers then use. Prune removes the
nodes that nothing needs any more. Folding is never more than a saving: if a kernel is missing, raises, or
returns a value that its op does not promise, the step computes the node. It only works on small values:
before a kernel is called, the op's shape function must know the shape of the result, so that a Fill of a
terabyte is not tried. A kernel that asks for more, such as one that writes text of a width that the graph
gives, is stopped.

Each node is examined once, in topological order: linear time, without kernels. A plan can be interrupted
between any two of them, and an op whose kernels take long is left to the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import thread_time
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.accounting import call_for
from flowengine.core.arrays import Value, to_array, unchangeable
from flowengine.core.dtypes import DType
from flowengine.core.errors import ResourceExhaustedError
from flowengine.core.shapes import TensorShape
from flowengine.core.work_pieces import Pieces, at_once
from flowengine.ir import make, traverse
from flowengine.ir.attrs import TensorAttr
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.traits import Constant
from flowengine.kernels.registry import KernelRegistry
from flowengine.ops.concrete import ConcreteInputs
from flowengine.ops.load import registry as op_registry
from flowengine.passes.context import PassContext
from flowengine.passes.simplify.purity import Purity

#: Neither inputs nor outputs of a folded node take more. A larger constant costs more memory, for as long as
#: the plan lives, than computing it again costs time.
FOLDED_BYTES_MAX: Final = 10_000_000

#: A limit on all results of one pass, also intermediate ones: planning has a bounded cost, too.
FOLDED_BYTES_TOTAL_MAX: Final = 10 * FOLDED_BYTES_MAX

#: A kernel that announces a longer time is left to the step: planning blocks the host's event loop, whereas a
#: step would use another thread.
FOLDED_MICROSECONDS_MAX: Final = 10_000.0

#: An op is left to the step after so many of its folds took longer than that unannounced: matching many
#: strings, for example. One fold may have had to import a library.
SLOW_FOLDS_MAX: Final = 2

#: Nodes that are examined before the pass may be interrupted; after a fold it may be at once.
_NODES_A_PIECE: Final = 256


def fold_constants(graph: NodeGraph, context: PassContext) -> NodeGraph:
    """Return the graph with pure nodes of constant inputs replaced; the same graph if there are none."""
    return at_once(folding_constants(graph, context))


def folding_constants(graph: NodeGraph, context: PassContext) -> Pieces[NodeGraph]:
    """Fold as `fold_constants` does, in pieces."""
    if context.kernels is None:
        return graph
    return (yield from _ConstantFolder(graph, context, context.kernels).run())


class _ConstantFolder:
    def __init__(self, graph: NodeGraph, context: PassContext, kernels: KernelRegistry) -> None:
        self._graph = graph
        self._feeds = frozenset(context.feeds)
        self._fetches = frozenset(context.fetches)
        self._kernels = kernels
        self._is_pure = Purity(kernels)
        #: {name: (constant, its value)}: those of the graph that no feed replaces, and new ones.
        self._constants: dict[str, tuple[Node, TensorAttr]] = {}
        #: {output of a node with several: the Const that has its value}.
        self._moved: dict[OutputPort, OutputPort] = {}
        #: {name: the node that replaces it}.
        self._replaced: dict[str, list[Node]] = {}
        self._bytes_left = FOLDED_BYTES_TOTAL_MAX
        if context.memory_bytes_max is not None:
            self._bytes_left = min(self._bytes_left, context.memory_bytes_max)
        #: {op: the number of its folds that took long}.
        self._slow: dict[str, int] = {}

    def run(self) -> Pieces[NodeGraph]:
        if not self._has_something_to_fold():
            return self._graph
        yield
        for number, name in enumerate(traverse.topological_order(self._graph.nodes)):
            if not number % _NODES_A_PIECE:
                yield
            node = self._graph.nodes[name]
            constant = node.trait(Constant)
            if constant is not None:
                value = node.attrs[constant.value]
                if OutputPort(name, 0) not in self._feeds and isinstance(value, TensorAttr):
                    self._constants[name] = node, value
            elif node.inputs and self._visit(node):
                yield
        yield
        if not self._replaced:
            return self._graph
        return self._graph.rewritten(
            new for node in self._graph for new in self._replaced.get(node.name, (self._rewired(node),))
        )

    def _has_something_to_fold(self) -> bool:
        """Return whether any node has only constants for inputs; if none has, the walk is unnecessary."""
        constants = {node.name for node in self._graph if node.has(Constant)}
        if not constants:
            return False
        return any(
            node.inputs and all(port.node in constants for port in node.inputs) for node in self._graph
        )

    def _visit(self, node: Node) -> bool:
        """Fold a node if allowed; return whether its kernel was run."""
        known: list[tuple[Node, TensorAttr]] = []
        for port in node.inputs:
            constant = self._constant(port)
            if constant is None or self._bytes_left < 0:
                return False
            known.append(constant)
        if not self._is_pure(node) or any(
            OutputPort(node.name, slot) in self._feeds for slot in range(len(node.output_types))
        ):
            return False
        if self._slow.get(node.op, 0) >= SLOW_FOLDS_MAX:
            return False
        inputs = [value for _, value in known]
        started = thread_time()
        values = _evaluate(node, inputs, self._kernels, self._graph.producer)
        if (thread_time() - started) * 1e6 > FOLDED_MICROSECONDS_MAX:
            self._slow[node.op] = self._slow.get(node.op, 0) + 1
        if values is None:
            return True
        self._bytes_left -= sum(map(_stored_bytes, values))
        if self._bytes_left >= 0:
            self._replace(node, [constant for constant, _ in known], values)
        return True

    def _constant(self, port: OutputPort) -> tuple[Node, TensorAttr] | None:
        port = self._moved.get(port, port)
        return None if port in self._feeds else self._constants.get(port.node)

    def _replace(self, node: Node, constants: Sequence[Node], values: Sequence[Value]) -> None:
        controls = dict.fromkeys(node.control_inputs)
        for constant in constants:
            controls.update(dict.fromkeys(constant.control_inputs))
        kept = {name: value for name, value in node.attrs.items() if name.startswith("_")}
        new: list[Node] = []
        for slot, (value, dtype) in enumerate(zip(values, node.output_types, strict=True)):
            single = len(values) == 1
            constant = make.const(
                op_registry(),
                node.name if single else f"_folded/{node.name}/{slot}",
                TensorAttr.of(value, dtype),
                controls=tuple(controls),
                device=node.device,
                creation_site=node.creation_site,
                **kept,
            )
            if constant.name in self._graph and not single:
                return
            new.append(constant)
        for slot, constant in enumerate(new):
            self._constants[constant.name] = constant, constant.attrs["value"]
            if len(new) > 1:
                self._moved[OutputPort(node.name, slot)] = OutputPort(constant.name, 0)
        if len(new) > 1:
            # Fetches and waiting nodes name the node itself; prune drops the node if there are none.
            new.insert(0, self._rewired(node))
        self._replaced[node.name] = new

    def _rewired(self, node: Node) -> Node:
        if not self._moved or not any(port in self._moved for port in node.inputs):
            return node
        return replace(node, inputs=tuple(self._moved.get(port, port) for port in node.inputs))


class FoldingAccount:
    """The memory of folded kernels, which ask it if no shape tells: no more than a folded node may take."""

    def check(self, wanted: int = 0) -> None:
        if wanted > FOLDED_BYTES_MAX:
            raise ResourceExhaustedError(f"{wanted} bytes are too many to be folded")

    def book(self, owner: Any, size: int, holder: str) -> None:
        """Ignore the booking: a kernel does not keep the values that it makes while folding."""


_FOLDING: Final = FoldingAccount()


def _evaluate(
    node: Node, inputs: Sequence[TensorAttr], kernels: KernelRegistry, producer: int
) -> Sequence[Value] | None:
    """Return the outputs of the node, read-only; None if they cannot be computed cheaply."""
    if sum(_bytes(attr.dtype, attr.shape) for attr in inputs) > FOLDED_BYTES_MAX:
        return None
    shape_function = None if node.op_def is None else node.op_def.shape
    kernel = next((k for k in kernels.candidates(node.op) if k.serves(node)), None)
    if shape_function is None or kernel is None:
        return None
    # If a damaged constant, a shape function or a kernel raises, the step will raise the same if it ever gets
    # there, with a proper message.
    try:
        values = [attr.value() for attr in inputs]
        if any(attr.dtype is dtypes.string for attr in inputs) and (
            sum(map(_stored_bytes, values)) > FOLDED_BYTES_MAX
        ):
            return None
        shapes = shape_function(ConcreteInputs(node, values, producer))
    except Exception:
        return None
    if len(shapes) != len(node.output_types) or not shapes:
        return None
    promised = zip(node.output_types, shapes, strict=True)
    if sum(_bytes(dtype, shape) for dtype, shape in promised) > FOLDED_BYTES_MAX:
        return None
    arguments = _grouped(node, values)
    try:
        if callable(kernel.heavy) and kernel.heavy(*arguments) > FOLDED_MICROSECONDS_MAX:
            return None
        with np.errstate(all="ignore"):
            returned = call_for(_FOLDING, kernel.bind(node), *arguments)
    except Exception:
        return None
    outputs = returned if len(shapes) != 1 and isinstance(returned, tuple) else (returned,)
    if len(outputs) != len(shapes):
        return None
    checked = [_settled(value, dtype) for value, dtype in zip(outputs, node.output_types, strict=True)]
    found = [value for value in checked if value is not None]
    total = sum(_stored_bytes(value) for value in found)
    return found if len(found) == len(checked) and total <= FOLDED_BYTES_MAX else None


def _grouped(node: Node, values: Sequence[Value]) -> list[Any]:
    """Return the inputs as a kernel takes them: a list argument is one tuple."""
    assert node.op_def is not None
    grouped: list[Any] = []
    position = 0
    for arg in node.op_def.inputs:
        if arg.is_list:
            count = len(arg.types(node.attrs))
            grouped.append(tuple(values[position : position + count]))
            position += count
        else:
            grouped.append(values[position])
            position += 1
    return grouped


def _settled(value: Value, dtype: DType) -> Value | None:
    """Return the value, to be shared by all steps; None if it is not of the type that the op promises."""
    if isinstance(value, bytes):
        return value if dtype is dtypes.string else None
    if not isinstance(value, np.ndarray | np.generic) or value.dtype != dtype.as_numpy_dtype:
        return None
    if isinstance(value, np.ndarray) and value.flags.writeable:
        value = unchangeable(value.view())
    return value


def _bytes(dtype: DType, shape: TensorShape) -> int:
    """Return the minimum bytes of a tensor; more than is ever folded if the shape is unknown."""
    elements = shape.num_elements()
    return FOLDED_BYTES_MAX + 1 if elements is None else elements * (dtype.size or 8)


def _stored_bytes(value: Value) -> int:
    array = to_array(value)
    if array.dtype.hasobject:
        return sum(8 + len(item) for item in array.ravel() if isinstance(item, bytes))
    return int(array.nbytes)
