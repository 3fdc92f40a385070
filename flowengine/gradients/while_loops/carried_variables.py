"""Loops that a call builds, and variables that it adds to a loop, carried from one iteration to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowengine.gradients.regions import enter
from flowengine.graphs.tensor import Tensor

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph


class AddedVariable:
    """A variable of a loop: its value in an iteration, and how that of the next is given.

    attrs    the attributes of the loop's Enters
    cond     the output of its LoopCond
    inside   the value in an iteration
    """

    def __init__(self, graph: Graph, attrs: Any, cond: Tensor, initial: Tensor) -> None:
        self._graph = graph
        with graph.scopes.apart(None):
            first = enter(graph, initial, attrs, is_constant=False)
            self._merge = graph.ops.Merge([first, first]).output
            switch = graph.ops.Switch(self._merge, cond)
        self.inside: Tensor = switch.output_true
        self._last: Tensor = switch.output_false

    def close(self, following: Tensor) -> Tensor:
        """The last value, around the loop, where the next is always this."""
        graph = self._graph
        with graph.scopes.apart(None):
            graph.set_back_edge(self._merge, 1, graph.ops.NextIteration(following))
            last: Tensor = graph.ops.Exit(self._last)
        return last


class CountingLoop:
    """A loop that is gone through a number of times; its counter is closed at once.

    attrs    the attributes of its Enters
    cond     the output of its LoopCond
    count    how often it is gone through, int32, inside of it
    number   of an iteration, from 0, int32
    """

    def __init__(
        self, graph: Graph, frame: str, parallel_iterations: int, count: Tensor, zero: Tensor
    ) -> None:
        ops, scopes = graph.ops, graph.scopes
        self.graph = graph
        self.attrs: dict[str, Any] = {
            "frame_name": frame.encode("utf-8", "surrogateescape"),
            "parallel_iterations": parallel_iterations,
        }
        with scopes.apart(None):
            self.count = self.entered(count)
            first = enter(graph, zero, self.attrs, is_constant=False)
            merge = ops.Merge([first, first], name="number").output
            self.cond: Tensor = ops.LoopCond(ops.Less(merge, self.count))
            switch = ops.Switch(merge, self.cond)
            self.number: Tensor = ops.Identity(switch.output_true, name="number/inside")
        with scopes.apart(self.number.node_name):
            more = ops.Add(self.number, graph.constant(1))
        with scopes.apart(None):
            graph.set_back_edge(merge, 1, ops.NextIteration(more))

    def entered(self, tensor: Tensor) -> Tensor:
        """A tensor of around, the same in all iterations."""
        return enter(self.graph, tensor, self.attrs)

    def carried(self, initial: Tensor) -> AddedVariable:
        """A variable of the loop."""
        return AddedVariable(self.graph, self.attrs, self.cond, initial)
