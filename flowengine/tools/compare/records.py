"""The record of a step: the values that its nodes made, each behind those that it depends on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from flowengine.tools.compare.tensors import TensorRecord

#: The origin of a value that no node computes, and of one that no other run repeats.
CONSTANT, VARIABLE, FEED, RANDOM = "constant", "variable", "feed", "random"


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """The facts of a node that explain why its value differs.

    op       the name of its op; "" if it is not known
    inputs   the recorded tensors that it takes, past nodes that only hand them on
    origin   "constant", "variable", "feed" or "random", which is an op of chance without a seed; else ""
    attrs    its attributes as text, without values of tensors
    """

    op: str = ""
    inputs: tuple[str, ...] = ()
    origin: str = ""
    attrs: str = ""


@dataclass(slots=True)
class StepRecord:
    """The record of one step.

    tensors   in the order of their dependences
    nodes     {name: its facts}; empty for values that came without a graph
    steps     the number of steps that had run by the end of this one: after the first, variables differ by
              rounding
    dropped   the number of tensors that found no room
    """

    tensors: list[TensorRecord] = field(default_factory=list)
    nodes: dict[str, NodeRecord] = field(default_factory=dict)
    steps: int = 1
    dropped: int = 0

    def node(self, tensor: str) -> NodeRecord:
        """Return the facts of a tensor's node; empty ones for an unknown node."""
        return self.nodes.get(node_of(tensor), NodeRecord())

    def by_key(self) -> dict[tuple[str, str], TensorRecord]:
        """Return {(name, iteration): tensor}."""
        return {tensor.key: tensor for tensor in self.tensors}

    def feeds(self) -> dict[str, TensorRecord]:
        """Return {name: tensor} of the values that were fed."""
        return {each.name: each for each in self.tensors if self.node(each.name).origin == FEED}


def node_of(tensor: str) -> str:
    """Return the name of a tensor's node."""
    return tensor.rpartition(":")[0]


def behind(starts: Iterable[str], nodes: Mapping[str, NodeRecord]) -> set[str]:
    """Return the nodes that depend on one of these nodes, themselves included."""
    consumers: dict[str, list[str]] = {}
    for name, node in nodes.items():
        for tensor in node.inputs:
            consumers.setdefault(node_of(tensor), []).append(name)
    found = set(starts)
    waiting = list(found)
    while waiting:
        for name in consumers.get(waiting.pop(), ()):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return found


__all__ = ["CONSTANT", "FEED", "RANDOM", "VARIABLE", "NodeRecord", "StepRecord", "behind", "node_of"]
