"""An overview of a graph: placeholders, outputs, variables, parameters, missing kernels."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from flowengine.cli.digits import widened
from flowengine.cli.function_bodies import CalledFunction, library_of
from flowengine.core.arrays import to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import OpError
from flowengine.core.shapes import TensorShape
from flowengine.ir.attrs import TensorAttr, exported_shape
from flowengine.ir.graph import Node, OutputPort
from flowengine.ir.names import ARGUMENT, FUNCTION_CALL_OPS
from flowengine.ir.traits import Constant, ExternalValue, GivesVariable

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph

#: Before this version of producers, a Placeholder's shape [] meant that nothing is known of it.
_SCALAR_PLACEHOLDER_PRODUCER: Final = 24

#: What runs without a kernel: calls, and what stands for a body's argument.
SERVED_BY_ENGINE: Final = FUNCTION_CALL_OPS | {ARGUMENT}
#: A constant with no more floats than this is an operand rather than a parameter.
_SMALL_CONSTANT: Final = 8


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """A tensor by name, with its dtype ("?" if the op is not known here) and partial shape."""

    name: str
    dtype: str
    shape: TensorShape
    node: str


def placeholders(graph: Graph, hidden: Collection[str] = ()) -> list[TensorFacts]:
    """The tensors that the graph wants to be fed, in the order of their construction.

    hidden   nodes that nobody but the engine feeds, such as a saver's
    """
    return [
        facts_of_port(graph, OutputPort(node.name, 0))
        for node in graph
        if node.is_placeholder and node.name not in hidden
    ]


def defaults(graph: Graph) -> list[str]:
    """Describe the tensors that may be fed and have a value where they are not, with that value."""
    found = []
    for node in graph:
        if not (node.has(ExternalValue) and node.inputs):
            continue
        facts = facts_of_port(graph, OutputPort(node.name, 0))
        value = graph.constant_value(graph.tensor(str(node.inputs[0])))
        size = None if value is None else to_array(value).size
        shown = (
            f" = {widened(to_array(value)).tolist()}" if size is not None and size <= _SMALL_CONSTANT else ""
        )
        found.append(f"{facts.name}  {facts.dtype} {facts.shape}{shown}, if it is not fed")
    return found


def shape_of(graph: Graph, port: OutputPort) -> TensorShape:
    """Return a tensor's known shape, of unknown rank if the node is opaque or its shapes contradict."""
    node = graph[port.node]
    fed = node.trait(ExternalValue)
    if fed is not None and not node.inputs:
        shape = node.attrs.get("shape")
        if not isinstance(shape, TensorShape) or shape.rank is None:
            return exported_shape(node.attrs)
        unsaid = shape.rank == 0 and not fed.is_exact and graph.producer < _SCALAR_PLACEHOLDER_PRODUCER
        return exported_shape(node.attrs) if unsaid else shape
    if node.op_def is None:
        return TensorShape(None)
    try:
        return graph.shape_of(port)
    except OpError:
        return TensorShape(None)


def dtype_of(graph: Graph, port: OutputPort) -> DType | None:
    """The dtype that a feed of this tensor has; None where the node is opaque."""
    types = graph[port.node].output_types
    return types[port.slot].base if port.slot < len(types) else None


def facts_of_port(graph: Graph, port: OutputPort) -> TensorFacts:
    """Collect what is known of a tensor."""
    dtype = dtype_of(graph, port)
    shape = shape_of(graph, port)
    return TensorFacts(str(port), "?" if dtype is None else dtype.name, shape, port.node)


@dataclass(frozen=True, slots=True)
class VariableFacts:
    """A variable; `elements` is None where its shape is not fully known."""

    name: str
    dtype: str
    shape: TensorShape
    elements: int | None


def variables(graph: Graph) -> list[VariableFacts]:
    """Every variable, in the order of construction."""
    found = []
    for node in graph:
        variable = node.trait(GivesVariable)
        if variable is not None:
            shape = node.attrs.get("shape")
            shape = shape if isinstance(shape, TensorShape) else TensorShape(None)
            dtype = str(node.attrs.get(variable.dtype, "?"))
            found.append(VariableFacts(node.name, dtype, shape, shape.num_elements()))
    return found


def constant_parameters(graph: Iterable[Node]) -> tuple[int, int]:
    """(floats, constants that hold them): constants of more than a few elements, of the graph or a body."""
    counts = [tensor.shape.num_elements() or 0 for _, tensor in large_constants(graph)]
    return sum(counts), len(counts)


def large_constants(graph: Iterable[Node]) -> Iterator[tuple[str, TensorAttr]]:
    """Yield the name and value of each constant of more than a few floats."""
    for node in graph:
        constant = node.trait(Constant)
        value = None if constant is None else node.attrs.get(constant.value)
        if not isinstance(value, TensorAttr) or not value.dtype.is_floating:
            continue
        if (value.shape.num_elements() or 0) > _SMALL_CONSTANT:
            yield node.name, value


def op_counts(graph: Iterable[Node]) -> dict[str, int]:
    """{op: nodes}, the most frequent first."""
    counts: dict[str, int] = {}
    for node in graph:
        counts[node.op] = counts.get(node.op, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def ops_without_kernel(graph: Graph, functions: Sequence[CalledFunction]) -> dict[str, int]:
    """{op: nodes} of what cannot run here: unknown, without a kernel, or with types that none serves.

    Nodes in bodies of functions count as well, and a function whose body cannot be made.
    """
    from flowengine.kernels.load import registry as kernel_registry

    registry, library = kernel_registry(), library_of(graph)
    missing: dict[str, int] = {}
    for nodes in (graph, *(each.body for each in functions if each.body is not None)):
        for node in nodes:
            calls = node.op in SERVED_BY_ENGINE or (library is not None and node.op in library)
            if not calls and not _is_served(registry, node):
                missing[node.op] = missing.get(node.op, 0) + 1
    unmade = [each for each in functions if each.body is None]
    for each in unmade:
        if not each.unknown:
            missing[each.name] = missing.get(each.name, 0) + 1
    # Two functions that cannot be made may lead to the same third.
    for unknown in dict.fromkeys(unknown for each in unmade for unknown in each.unknown):
        missing[unknown.op] = missing.get(unknown.op, 0) + 1
    return dict(sorted(missing.items()))


def _is_served(registry: Any, node: Node) -> bool:
    if node.op_def is None:
        return False
    try:
        registry.find(node)
    except OpError:
        return False
    return True
