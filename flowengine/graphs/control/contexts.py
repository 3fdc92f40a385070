"""Contexts: which branch or loop a node is built in, and how values from outside come in there.

While a context is entered, every tensor that is given to a constructor passes it. One from outside is brought
in, once: through a Switch into a branch, through an Enter into a loop, and through each context in between. A
node without inputs waits for the pivot of its context, so that it runs if and when that does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from flowengine.graphs.errors import ConstructionValueError
from flowengine.graphs.tensor import Tensor
from flowengine.ir.graph import OutputPort

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph


class ControlContext(ABC):
    """A branch or a loop that is being built, or has been.

    is_loop      whether it has iterations
    collection   the collection that lists it where it is in no other
    name         of the context, unique in its graph
    outer        the context around it, or None
    pivot        the node that lives whenever the context does
    captured     {a tensor from outside: the tensor that has its value inside}
    members      the nodes that are in it and in no nested one
    nested       the contexts built within it
    """

    is_loop: ClassVar[bool] = False
    collection: ClassVar[str]

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph = graph
        self.name = name
        self.outer: ControlContext | None = graph.scopes.context
        self.pivot = ""
        self.captured: dict[Tensor, Tensor] = {}
        self.members: list[str] = []
        self.nested: list[ControlContext] = []
        #: {a node from outside of this loop: the Enter that waits for it}
        self._controls_in: dict[str, str] = {}

    def to_proto(self) -> Any:
        """The message by which a MetaGraphDef lists it."""
        from flowengine.graphs.control.messages import context_to_proto

        return context_to_proto(self)

    @property
    def anchors(self) -> list[str]:
        """The nodes without which it cannot be described: at first that which decides."""
        return [self.pivot]

    # -- entering ----------------------------------------------------------------------------------

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Build inside. Control dependencies from around end here: they hold what brings values in."""
        scopes = self.graph.scopes
        before = scopes.context, scopes.bring, scopes.control_inputs, scopes.pivot
        scopes.context, scopes.bring, scopes.control_inputs, scopes.pivot = self, self.bring, (), ""
        try:
            yield
        finally:
            scopes.context, scopes.bring, scopes.control_inputs, scopes.pivot = before

    @contextmanager
    def left(self, *, keeps_membership: bool = False, results: bool = False) -> Iterator[None]:
        """Build outside, in the context around, apart from its control dependencies.

        keeps_membership   whether the new nodes belong to this context, because they control it
        results            whether the new nodes take values of this context outside
        """
        scopes = self.graph.scopes
        before = scopes.context, scopes.bring, scopes.control_inputs, scopes.pivot
        outer = self.outer
        scopes.context = self if keeps_membership else outer
        scopes.bring = None if keeps_membership or results or outer is None else outer.bring
        scopes.control_inputs, scopes.pivot = (), ""
        try:
            yield
        finally:
            scopes.context, scopes.bring, scopes.control_inputs, scopes.pivot = before

    # -- values ------------------------------------------------------------------------------------

    def bring(self, tensor: Tensor) -> Tensor:
        """Return the tensor to use here: itself if it is built here, else the one that brings it in.

        Raises ValueError (as InvalidArgumentError) for a tensor of a loop or branch that is not around here.
        """
        home = self.graph.context_of(tensor.node_name)
        if home is self:
            return tensor
        found = self.captured.get(tensor)
        if found is None:
            if self.outer is not None:
                outside = self.outer.bring(tensor)
            elif home is not None:
                raise ConstructionValueError(
                    f"'{tensor.name}' is inside of '{home.name}', which is not around here: a loop or "
                    "conditional hands values out as its results"
                )
            else:
                outside = tensor
            with self.left(keeps_membership=True):
                found = self._captured(outside)
            self.captured[tensor] = found
        return found

    @abstractmethod
    def _captured(self, tensor: Tensor) -> Tensor:
        """The node that brings in a tensor of the context around."""

    def holds(self, name: str) -> bool:
        """Whether a node is in this context or in one within it."""
        home = self.graph.context_of(name)
        while home is not None and home is not self:
            home = home.outer
        return home is self

    def controls(self, inputs: Sequence[OutputPort], given: tuple[str, ...]) -> tuple[str, ...]:
        """Return the control inputs of a node that is built here, given the nodes that it has to wait for.

        Raises ValueError (as InvalidArgumentError) for a node of a loop that is not around here.
        """
        kept = self.awaited(given)
        if self._needs_pivot(inputs) and not any(self.holds(each) for each in given):
            kept = (*kept, self.pivot)
        return kept

    def awaited(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the control inputs by which a node here waits for these, in its loop or outside."""
        loop = self.loop
        if loop is None or not names:
            return names
        return tuple(dict.fromkeys([loop.entered_control(each) for each in names]))

    def entered_control(self, name: str) -> str:
        """Return a node of this loop by which each iteration waits for a node: itself if it is in the loop.

        No edge crosses the border of a frame but through an Enter. So the loop takes in a constant that waits
        outside for the node.
        """
        if self.holds(name):
            return name
        found = self._controls_in.get(name)
        if found is None:
            graph, home = self.graph, self.graph.context_of(name)
            if home is not None and home.loop is not None and not home.loop.holds(self.pivot):
                raise ConstructionValueError(
                    f"'{name}' is inside of the loop '{home.loop.name}', which is not around here: "
                    "wait for a result of the loop instead"
                )
            with self.left():
                graph.scopes.control_inputs = (name,)
                token = graph.constant(False, name="awaited")
            with self.left(keeps_membership=True):
                found = self._controls_in[name] = self._captured(token).node_name
        return found

    def _needs_pivot(self, inputs: Sequence[OutputPort]) -> bool:
        return not inputs

    @property
    def loop(self) -> ControlContext | None:
        """The innermost loop that this is, or is in."""
        context: ControlContext | None = self
        while context is not None and not context.is_loop:
            context = context.outer
        return context


class BranchContext(ControlContext):
    """One side of a conditional.

    pred     the predicate
    branch   1 if the side runs where the predicate is true, 0 if it runs where it is false
    """

    collection: ClassVar[str] = "cond_context"

    def __init__(self, graph: Graph, name: str, pred: Tensor, branch: int, pivot: str) -> None:
        super().__init__(graph, name)
        self.pred = pred
        self.branch = branch
        self.pivot = pivot
        graph.place_in(self, [pivot])

    @property
    def anchors(self) -> list[str]:
        return [self.pred.node_name, self.pivot]

    def _captured(self, tensor: Tensor) -> Tensor:
        ops = self.graph.ops
        switch = ops.RefSwitch if tensor.dtype.is_ref else ops.Switch
        found: Tensor = switch(tensor, self.pred, name="Switch")[self.branch]
        return found
