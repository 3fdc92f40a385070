"""A region: straight-line code that one sweep goes back through, and where its gradients are built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowengine.graphs.tensor import Tensor

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph


@dataclass(frozen=True, slots=True)
class GradientCall:
    """One call of `gradients`: what all that it builds has in common.

    source        what tells its gradient TensorArrays from those of other calls
    aggregation   "add", "tree" or "accumulate"
    gate          "none", or "op": the gradients of an op's inputs wait for each other
    colocate      whether a gradient asks for the device of its op
    """

    graph: Graph
    source: str
    aggregation: str = "add"
    gate: str = "none"
    colocate: bool = False


class GradientRegion:
    """The code that a sweep goes through at once: all that is in one frame.

    Gradients of what lies in this frame are built in this frame: it is the root, or a loop that is around
    both ys and xs.
    """

    def __init__(self, call: GradientCall) -> None:
        self.call = call
        self.graph = call.graph
        #: The constructors to which a forward tensor may be given.
        self.ops: Any = call.graph.ops

    def here(self, tensor: Tensor) -> Tensor:
        """The value of a forward tensor where gradients are built."""
        return tensor

    def computed_forward(self, tensor: Tensor, op: str, **attrs: Any) -> Tensor:
        """What a small op makes of a forward tensor, to be used where gradients are built."""
        found: Tensor = getattr(self.graph.ops, op)(tensor, **attrs)
        return found

    def broadcast_axes(
        self, shape: Callable[[Tensor], Tensor], x: Tensor, other: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The axes along which each of two tensors that are broadcast together is repeated."""
        first, second = self.graph.ops.BroadcastGradientArgs(shape(x), shape(other))
        return first, second
