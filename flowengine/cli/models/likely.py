"""Likely outputs: the tensors that a graph is for, guessed from its shape and its names.

Of a graph that trains come the losses first, then the predictions, then metrics and whatever else nothing
consumes but the training:

    loss       the last node that a scope of gradients differentiates, or a scalar of such a name
    others     all that consumes them are gradients, updates and summaries

A value inside a loop's frame or in one branch of a conditional is no output: no step can fetch it, or it may
be dead.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final

from flowengine.cli.overview import TensorFacts, facts_of_port
from flowengine.core import dtypes
from flowengine.graphs.reading import conditional_nodes
from flowengine.ir.graph import Node, OutputPort
from flowengine.ir.names import CONTROL_FLOW_OPS
from flowengine.ir.traits import (
    Bookkeeping,
    Constant,
    ExternalValue,
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

#: What is known or given beforehand, or is there for what it does: nobody asks for its value.
_NO_OUTPUTS: Final = (Constant, ExternalValue, Orders, Bookkeeping, Impure, OfOneStep, Uses, Names)
#: Types that refer to a thing, which is not what a user wants.
_REFERRING: Final = frozenset({dtypes.resource, dtypes.variant})

#: The scope in which TensorFlow builds derivatives, and its further ones.
_GRADIENTS: Final = re.compile(r"gradients(_\d+)?")
#: What a scope for the derivatives of one node ends in.
_OF_NODE: Final = "_grad"
#: Names that people and libraries give to what is minimized, and to what is predicted.
_LOSS: Final = re.compile(r"(.*_)?(loss|losses|cost|objective|perplexity)(_\d+)?", re.IGNORECASE)
_PREDICTION: Final = re.compile(
    r"(.*_)?(predictions?|pred|probabilities|probs?|logits|scores|classes|softmax)(_\d+)?", re.IGNORECASE
)
#: A part of the name of what belongs to a loss.
_OF_LOSS: Final = re.compile(r"loss|entropy", re.IGNORECASE)
#: Predictions that are proposed beside the losses.
_PREDICTIONS_MAX: Final = 3


def likely_outputs(
    graph: Graph, *, by_products: bool = True, hidden: Collection[str] = ()
) -> list[TensorFacts]:
    """The tensors that nothing consumes and that are no mere effect, the likely first.

    Those that only read a variable or belong to a gradient come last, before them those that no placeholder
    reaches, where there are any. Of the others an outer scope's come before an inner one's, and the last
    constructed first. Of a graph that trains, losses and predictions come before all of them.

    by_products   whether those that only read a variable or belong to a gradient are among them, and in a
                  graph that trains, those that no placeholder reaches
    hidden        nodes that are not to be proposed, such as a saver's
    """
    return _Outputs(graph, hidden).found(by_products)


class _Outputs:
    """The tables of one look at a graph."""

    def __init__(self, graph: Graph, hidden: Collection[str]) -> None:
        self.graph = graph
        self.hidden = hidden
        #: {node: the nodes that take an output of it}
        self.consumers: dict[str, list[str]] = {}
        #: Nodes that belong to gradients, or come of them: updates, norms, what waits for a step of training.
        self.derived: set[str] = set()
        self.unfetchable = conditional_nodes(graph)
        for node in graph:
            for port in node.inputs:
                self.consumers.setdefault(port.node, []).append(node.name)
            # A loop's counters and stacks for the way back make its nodes wait: that is no training.
            waits_for = () if node.name in self.unfetchable else node.control_inputs
            if _is_in_gradients(node) or not self.derived.isdisjoint(
                (*(port.node for port in node.inputs), *waits_for)
            ):
                self.derived.add(node.name)
        self.reached = _reached_from_placeholders(graph, self.consumers)

    def found(self, by_products: bool) -> list[TensorFacts]:
        first = [*self._losses(), *self._predictions()] if self.derived else []
        named = set(first)
        others = [node for node in self.graph if node.name not in named and self._is_output(node)]
        if not by_products:
            others = [node for node in others if not self._is_by_product(node)]
        others.reverse()
        others.sort(key=self._rank)
        nodes = [*first, *(node.name for node in others)]
        return [facts_of_port(self.graph, OutputPort(name, 0)) for name in nodes]

    def _is_output(self, node: Node) -> bool:
        """Whether nothing takes its value, but for what trains and reports."""
        if not self._may_be_asked_for(node) or node.name.startswith("save/"):
            return False
        consumers = self.consumers.get(node.name, ())
        return all(self._is_aside(self.graph[name]) for name in consumers if name != node.name)

    def _is_aside(self, consumer: Node) -> bool:
        """Whether what a node takes may be an output all the same."""
        if not self.derived:
            return False
        return consumer.name in self.derived or (
            consumer.has(Bookkeeping)
            and not any(dtype.is_ref or dtype in _REFERRING for dtype in consumer.input_types())
        )

    def _may_be_asked_for(self, node: Node) -> bool:
        if node.name in self.unfetchable or node.name in self.hidden:
            return False
        return _gives_a_result(node) and not self._is_flow(node)

    def _is_flow(self, node: Node) -> bool:
        """Whether a loop only hands on what orders the steps of a TensorArray: a scalar without a meaning."""
        seen: set[str] = set()
        while node.op in CONTROL_FLOW_OPS and node.name not in seen:
            seen.add(node.name)
            node = self.graph[node.inputs[0].node]
        return bool(seen) and node.has(OfOneStep)

    def _rank(self, node: Node) -> tuple[bool, bool, bool, int]:
        trains = bool(self.derived)
        return (
            _reads(self.graph, node) or node.name in self.derived,
            bool(self.reached) and node.name not in self.reached,
            trains and not node.output_types[0].base.is_floating,
            node.name.count("/"),
        )

    def _is_by_product(self, node: Node) -> bool:
        if _reads(self.graph, node) or node.name in self.derived:
            return True
        return bool(self.derived and self.reached) and node.name not in self.reached

    def _losses(self) -> list[str]:
        """List what is minimized, the outermost first; larger tensors only if there are no scalars."""
        found = dict.fromkeys(self._last_differentiated())
        for node in self.graph:
            if _LOSS.fullmatch(node.name.rpartition("/")[2]) and self._is_output(node):
                found.setdefault(node.name)
        floats = [name for name in found if self._is_float(name) and name not in self.derived]
        scalars = [name for name in floats if self._is_scalar(name)]
        return sorted(
            scalars or floats, key=lambda name: (not self._is_output(self.graph[name]), name.count("/"))
        )

    def _is_float(self, name: str) -> bool:
        return self.graph[name].output_types[0].base.is_floating

    def _is_scalar(self, name: str) -> bool:
        return facts_of_port(self.graph, OutputPort(name, 0)).shape.rank in (0, None)

    def _last_differentiated(self) -> Iterator[str]:
        """Nodes that a scope of gradients differentiates, with none behind them that it does."""
        scopes: dict[str, set[str]] = {}
        for node in self.graph:
            parts = node.name.split("/")
            at = max((i for i, part in enumerate(parts) if _GRADIENTS.fullmatch(part)), default=None)
            if at is None:
                continue
            for end in range(at + 1, len(parts)):
                if parts[end].endswith(_OF_NODE):
                    name = "/".join([*parts[at + 1 : end], parts[end].removesuffix(_OF_NODE)])
                    if name in self.graph:
                        scopes.setdefault("/".join(parts[: at + 1]), set()).add(name)
        for names in scopes.values():
            last = [
                node.name
                for node in self.graph
                if node.name in names
                and self._may_be_asked_for(node)
                and names.isdisjoint(self.consumers.get(node.name, ()))
            ]
            yield from self._sums(last) or last

    def _sums(self, names: list[str]) -> list[str]:
        """The first node that comes of several: sums of scalars leave nothing in the scope of gradients."""
        if len(names) < 2:
            return []
        reached = {name: 1 << number for number, name in enumerate(names)}
        for node in self.graph:
            for port in node.inputs:
                reached[node.name] = reached.get(node.name, 0) | reached.get(port.node, 0)
            if reached.get(node.name) == (1 << len(names)) - 1 and node.name not in self.derived:
                return [node.name] if self._may_be_asked_for(node) else []
        return []

    def _predictions(self) -> list[str]:
        """List what the model says, as far as names and placeholders tell: the outermost first."""
        losses = set(self._losses())
        found = [
            node.name
            for node in self.graph
            if self._may_be_asked_for(node)
            and _PREDICTION.fullmatch(node.name.rpartition("/")[2])
            and node.name not in self.derived
            and node.name not in losses
            and not _OF_LOSS.search(node.name)
            and (not self.reached or node.name in self.reached)
        ]
        found.reverse()
        found.sort(key=lambda name: name.count("/"))
        if not found:
            found = [
                each.node
                for each, _ in likely_predictions(self.graph)
                if each.node not in losses and each.shape.rank != 0 and not _OF_LOSS.search(each.name)
            ][:1]
        return found[:_PREDICTIONS_MAX]


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
    unfetchable = conditional_nodes(graph)
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
        if node.name in derived or node.name in unfetchable:
            continue
        if all(found[name] & everything & ~fed for name in later):
            likely.append((fed, node))
    most = max((fed.bit_count() for fed, _ in likely), default=0)
    last = [(fed, node) for fed, node in reversed(likely) if fed.bit_count() == most]
    last.sort(key=lambda each: each[1].name.count("/"))
    return [
        (facts_of_port(graph, OutputPort(node.name, 0)), [name for name in wanted if bits[name] & fed])
        for fed, node in last
    ]


def _gives_a_result(node: Node) -> bool:
    """Whether its value may be what the graph is for."""
    if not node.output_types or any(map(node.has, _NO_OUTPUTS)):
        return False
    if any(dtype.is_ref for dtype in node.input_types()):
        return False
    return not any(dtype.is_ref or dtype in _REFERRING for dtype in node.output_types)


def _reached_from_placeholders(graph: Graph, consumers: dict[str, list[str]]) -> set[str]:
    """The nodes whose value depends on what is fed."""
    reached = {node.name for node in graph if node.is_placeholder}
    waiting = list(reached)
    while waiting:
        for name in consumers.get(waiting.pop(), ()):
            if name not in reached:
                reached.add(name)
                waiting.append(name)
    return reached


def _reads(graph: Graph, node: Node) -> bool:
    """Whether it only hands on the value of a variable."""
    hands_on = node.has(HandsOn) or node.has(ValueOf)
    return hands_on and graph[node.inputs[0].node].has(GivesVariable)


def _is_in_gradients(node: Node) -> bool:
    return any(_GRADIENTS.fullmatch(part) for part in node.name.split("/"))


def proposed(graph: Graph, hidden: Collection[str] = ()) -> list[TensorFacts]:
    """The likely outputs without by-products, or with them where there is nothing else."""
    return likely_outputs(graph, by_products=False, hidden=hidden) or likely_outputs(graph, hidden=hidden)


__all__ = ["likely_outputs", "likely_predictions", "proposed"]
