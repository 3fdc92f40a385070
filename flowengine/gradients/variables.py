"""Variables that a call adds to a loop: carried from one iteration to the next, beside those that it had."""

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
