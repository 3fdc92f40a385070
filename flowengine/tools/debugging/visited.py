"""`VisitedNode`: a node that a step has stopped before, or has run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowengine.runtime.guarding.value_checks import digest, is_finite

if TYPE_CHECKING:
    from flowengine.runtime.guarding.watched import Tag
    from flowengine.runtime.planning.items import Item


@dataclass(frozen=True, slots=True)
class VisitedNode:
    """A node of a step with its values at this moment.

    name       the node's name, which in a function's body has the names of the calls around it
    op         its type
    iteration  ((loop, iteration), ...) from the outermost loop in; () outside of loops
    line       file and line of the program that built it, where they are known
    inputs     its inputs, arrays as devices keep them; variables by their values, None for other resources
    outputs    likewise, of a node that has run; () of one that has not

    The arrays are lent until the step goes on: copy what you keep.

    >>> fe.debug.VisitedNode("y", "Neg", (), "", (np.ones(2, np.float32),), ()).has_finite_inputs
    True
    """

    name: str
    op: str
    iteration: Tag
    line: str
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]

    @property
    def has_finite_inputs(self) -> bool:
        """Whether no input has NaN or an infinity."""
        return all(map(is_finite, self.inputs))

    def __str__(self) -> str:
        where = "".join(f" {frame}:{number}" for frame, number in self.iteration)
        head = f"{self.name} ({self.op}){where and f', iteration{where}'}{self.line and f', {self.line}'}"
        rows = [f"  input {slot}: {digest(value)}" for slot, value in enumerate(self.inputs)]
        rows += [f"  output {slot}: {digest(value)}" for slot, value in enumerate(self.outputs)]
        return "\n".join([head, *rows])


def visited(item: Item, tag: Tag, inputs: Sequence[Any], outputs: Sequence[Any] = ()) -> VisitedNode:
    """Return the node of an item with its values."""
    node = item.node
    return VisitedNode(item.name, node.op, tag, node.creation_site, tuple(inputs), tuple(outputs))


__all__ = ["VisitedNode", "visited"]
