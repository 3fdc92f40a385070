"""An overview of a graph: placeholders, outputs, variables, parameters, missing kernels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from flowengine.cli.function_bodies import CalledFunction, library_of
from flowengine.core import dtypes
from flowengine.core.dtypes import DType
from flowengine.core.errors import OpError
from flowengine.core.shapes import TensorShape
from flowengine.ir.attrs import TensorAttr
from flowengine.ir.graph import Node, OutputPort
from flowengine.ir.names import ARGUMENT, FUNCTION_CALL_OPS
from flowengine.ir.traits import (
    Bookkeeping,
    Constant,
    Fed,
    GivesVariable,
    HandsOn,
    Impure,
    Names,
    OfOneStep,
    Orders,
    Uses,
    ValueOf,
)

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph

#: Before this version of producers, a Placeholder's shape [] meant that nothing is known of it.
_SCALAR_PLACEHOLDER_PRODUCER: Final = 24

#: What is known or given beforehand, or is there for what it does: nobody asks for its value.
_NO_OUTPUTS: Final = (Constant, Fed, Orders, Bookkeeping, Impure, OfOneStep, Uses, Names)
#: What runs without a kernel: calls, and what stands for a body's argument.
SERVED_BY_ENGINE: Final = FUNCTION_CALL_OPS | {ARGUMENT}
#: Types that refer to a thing, which is not what a user wants.
_REFERRING: Final = frozenset({dtypes.resource, dtypes.variant})

#: The scope in which TensorFlow builds derivatives, and its further ones.
_GRADIENTS: Final = re.compile(r"gradients(_\d+)?")

#: A constant with no more floats than this is an operand rather than a parameter.
_SMALL_CONSTANT: Final = 8


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """A tensor by name, with its dtype ("?" if the op is not known here) and partial shape."""

    name: str
    dtype: str
    shape: TensorShape
    node: str


def placeholders(graph: Graph) -> list[TensorFacts]:
    """The tensors that the graph wants to be fed, in the order of their construction."""
    return [_facts(graph, OutputPort(node.name, 0)) for node in graph if node.is_placeholder]


def shape_of(graph: Graph, port: OutputPort) -> TensorShape:
    """Return a tensor's known shape, of unknown rank if the node is opaque or its shapes contradict."""
    node = graph[port.node]
    fed = node.trait(Fed)
    if fed is not None and not node.inputs:
        shape = node.attrs.get("shape")
        if not isinstance(shape, TensorShape):
            return TensorShape(None)
        unsaid = shape.rank == 0 and not fed.is_exact and graph.producer < _SCALAR_PLACEHOLDER_PRODUCER
        return TensorShape(None) if unsaid else shape
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


def likely_outputs(graph: Graph, *, by_products: bool = True) -> list[TensorFacts]:
    """The tensors that nothing consumes and that are no mere effect, the likely first.

    Those that only read a variable or belong to a gradient come last, before them those that no placeholder
    reaches, where there are any. Of the others an outer scope's come before an inner one's, and the last
    constructed first.

    by_products   whether those that only read a variable or belong to a gradient are among them
    """
    consumed = {port.node for node in graph for port in node.inputs}
    found = [
        node
        for node in graph
        if node.name not in consumed and _gives_a_result(node) and not node.name.startswith("save/")
    ]
    if not by_products:
        found = [node for node in found if not _is_by_product(graph, node)]
    found.reverse()
    reached = _reached_from_placeholders(graph)
    found.sort(
        key=lambda node: (
            _is_by_product(graph, node),
            bool(reached) and node.name not in reached,
            node.name.count("/"),
        )
    )
    return [_facts(graph, OutputPort(node.name, 0)) for node in found]


def likely_predictions(graph: Graph) -> list[tuple[TensorFacts, list[str]]]:
    """Return a model's likely predictions, each with the placeholders that it needs.

    A prediction is a tensor that a loss later compares with labels.

    Tensors that variables and some placeholders lead to, and that are used only together with further
    placeholders: `pred` where `loss` is of `pred` and `y`. None in a graph that wants one thing fed. An outer
    scope's come first.
    """
    wanted = [node.name for node in graph if node.is_placeholder]
    bits = {name: 1 << number for number, name in enumerate(wanted)}
    everything = (1 << len(wanted)) - 1
    #: {node: the placeholders that lead to it, and a further bit for variables}
    found: dict[str, int] = {}
    used: dict[str, list[str]] = {}
    derived = {node.name for node in graph if _is_in_gradients(node)}
    for node in graph:
        own = bits.get(node.name, 0) | (node.has(GivesVariable) << len(wanted))
        for port in node.inputs:
            own |= found.get(port.node, 0)
            if port.node in derived:
                derived.add(node.name)
        found[node.name] = own
        if node.name not in derived:
            for port in node.inputs:
                used.setdefault(port.node, []).append(node.name)
    likely: list[tuple[int, Node]] = []
    for node in graph:
        fed, later = found[node.name] & everything, used.get(node.name, ())
        if fed in (0, everything, found[node.name]) or not later or not _gives_a_result(node):
            continue
        if node.name not in derived and all(found[name] & everything & ~fed for name in later):
            likely.append((fed, node))
    most = max((fed.bit_count() for fed, _ in likely), default=0)
    last = [(fed, node) for fed, node in reversed(likely) if fed.bit_count() == most]
    last.sort(key=lambda each: each[1].name.count("/"))
    return [
        (_facts(graph, OutputPort(node.name, 0)), [name for name in wanted if bits[name] & fed])
        for fed, node in last
    ]


def _gives_a_result(node: Node) -> bool:
    """Whether its value may be what the graph is for."""
    if not node.output_types or any(map(node.has, _NO_OUTPUTS)):
        return False
    if any(dtype.is_ref for dtype in node.input_types()):
        return False
    return not any(dtype.is_ref or dtype in _REFERRING for dtype in node.output_types)


def _reached_from_placeholders(graph: Graph) -> set[str]:
    """The nodes whose value depends on what is fed."""
    consumers: dict[str, list[str]] = {}
    for node in graph:
        for port in node.inputs:
            consumers.setdefault(port.node, []).append(node.name)
    reached = {node.name for node in graph if node.is_placeholder}
    waiting = list(reached)
    while waiting:
        for name in consumers.get(waiting.pop(), ()):
            if name not in reached:
                reached.add(name)
                waiting.append(name)
    return reached


def _is_by_product(graph: Graph, node: Node) -> bool:
    hands_on = node.has(HandsOn) or node.has(ValueOf)
    reads = hands_on and graph[node.inputs[0].node].has(GivesVariable)
    return reads or _is_in_gradients(node)


def _is_in_gradients(node: Node) -> bool:
    return any(_GRADIENTS.fullmatch(part) for part in node.name.split("/"))


def _facts(graph: Graph, port: OutputPort) -> TensorFacts:
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
    elements, constants = 0, 0
    for tensor in _float_constants(graph):
        count = tensor.shape.num_elements() or 0
        if count > _SMALL_CONSTANT:
            elements += count
            constants += 1
    return elements, constants


def _float_constants(graph: Iterable[Node]) -> Iterator[TensorAttr]:
    for node in graph:
        constant = node.trait(Constant)
        value = None if constant is None else node.attrs.get(constant.value)
        if isinstance(value, TensorAttr) and value.dtype.is_floating:
            yield value


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
    for each in functions:
        if each.body is None:
            missing[each.name] = missing.get(each.name, 0) + 1
    return dict(sorted(missing.items()))


def _is_served(registry: Any, node: Node) -> bool:
    if node.op_def is None:
        return False
    try:
        registry.find(node)
    except OpError:
        return False
    return True
