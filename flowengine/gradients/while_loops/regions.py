"""Loops: one forward that is only added to, one backward that goes through its iterations the other way.

    forward:   n = 0;  while go on: x = body(x); n = n + 1          each iteration pushes what is needed of it
    backward:  g = gradient of x;  while n >= 1: g = body's gradient(g, popped); n = n - 1

A call brings its own counter into the forward loop, whose NextIteration waits for the pushes: so they are in
order, and kept exactly when the backward loop, which takes its number of iterations from there, is run.
"""

from __future__ import annotations

from typing import Any

from flowengine.core.errors import InvalidArgumentError
from flowengine.gradients.control_structure import ALWAYS, FoundLoop, Guard
from flowengine.gradients.recomputation import Recomputation
from flowengine.gradients.regions import (
    BuildingPlace,
    GradientCall,
    GradientRegion,
    PlacedOps,
    enter,
)
from flowengine.gradients.while_loops.carried_variables import AddedVariable
from flowengine.gradients.while_loops.history import History, IndexedHistory
from flowengine.graphs.tensor import Tensor
from flowengine.ir.frames import FramePath
from flowengine.ir.graph import OutputPort


class LoopPlace(BuildingPlace):
    """A loop to which a call adds nodes: pushes, pops, and a counter that waits for them."""

    def __init__(self, call: GradientCall, loop: FoundLoop, frame: FramePath, parent: BuildingPlace) -> None:
        super().__init__(call, frame)
        self.loop = loop
        self.parent: BuildingPlace = parent
        self.guard = call.structure.loop_guard(loop)
        self._noted: list[str] = []
        self._trigger = False
        self._inside: dict[Tensor, Tensor] = {}
        attrs = self.graph.nodes[loop.enters[0]].attrs
        #: The attributes of every Enter into it.
        self.attrs: dict[str, Any] = {
            "frame_name": attrs["frame_name"],
            "parallel_iterations": attrs["parallel_iterations"],
        }

    def entered(self, tensor: Tensor) -> Tensor:
        found = self._inside.get(tensor)
        if found is None:
            found = self._inside[tensor] = enter(self.graph, tensor, self.attrs)
        return found

    def note(self, node: str, is_guarded: bool) -> None:
        self._noted.append(node)
        self._trigger |= is_guarded

    def _next(self, merge: Tensor, value: Tensor) -> None:
        """Close the counter: its next iteration waits for all that was noted, dead or not."""
        awaited = self._noted
        scopes, ops = self.graph.scopes, self.graph.ops
        if self._trigger:
            with scopes.apart(None, awaited):
                awaited = [ops.ControlTrigger(name="settled").name]
        with scopes.apart(None, awaited):
            following = ops.NextIteration(value)
        self.graph.set_back_edge(merge, 1, following)


class ForwardLoop(LoopPlace):
    """A loop of the graph, with the counter of one call.

    index   the number of an iteration, from 0, int32
    count   how many iterations it had, int32, in the parent
    """

    def __init__(self, call: GradientCall, loop: FoundLoop, parent: BuildingPlace) -> None:
        super().__init__(call, loop, loop.path, parent)
        ops, scopes = self.graph.ops, self.graph.scopes
        if loop.cond is None:
            raise InvalidArgumentError(
                f"the loop of frame '{'/'.join(loop.path)}' has no LoopCond yet: it is still being built"
            )
        with scopes.apart(parent.anchor(self.guard)):
            zero = self.graph.constant(0, name="count/zero")
        with scopes.apart(None):
            first = enter(self.graph, zero, self.attrs, is_constant=False)
            self._merge = ops.Merge([first, first], name="count").output
            switch = ops.Switch(self._merge, Tensor(self.graph, *loop.cond))
            self.index: Tensor = ops.Identity(switch.output_true, name="iteration")
            self.count = ops.Exit(switch.output_false, name="count/exit")

    def _body_anchor(self) -> str:
        name: str = self.index.node_name
        return name

    def brought(self, tensor: Tensor, frame: FramePath, guard: Guard) -> Tensor:
        return tensor

    def predicate(self, literal: Tensor) -> Tensor:
        if self.call.structure.value_frame(literal.node_name) == self.frame:
            return literal
        return self.entered(self.parent.predicate(literal))

    def carried(self, initial: Tensor) -> AddedVariable:
        """A variable of this call that goes through the loop."""
        assert self.loop.cond is not None
        return AddedVariable(self.graph, self.attrs, Tensor(self.graph, *self.loop.cond), initial)

    def close(self) -> None:
        with self.graph.scopes.apart(self.index.node_name):
            more = self.graph.ops.Add(self.index, self.graph.constant(1, name="count/one"))
        self._next(self._merge, more)


class LoopRegion(LoopPlace, GradientRegion):
    """The code of a loop that lies between ys and xs, and the place of its gradients: a backward loop.

    forward   the forward loop
    around    the region in which the loop as a whole is
    every     how many iterations of the forward loop one iteration here goes back through; of more than one
              it is the caller who brings the values
    """

    def __init__(
        self, call: GradientCall, forward: ForwardLoop, around: GradientRegion, every: int = 1
    ) -> None:
        name = call.graph.scopes.unique(f"{call.source}/{forward.loop.path[-1]}_grad")
        LoopPlace.__init__(self, call, forward.loop, (*around.frame, name), around)
        self.attrs = {**self.attrs, "frame_name": name.encode("utf-8", "surrogateescape")}
        self.structure = call.structure
        self.code_frame = forward.frame
        self.ops = PlacedOps(self)
        self.recomputation = Recomputation(self) if call.structure.segments else None
        self.forward = forward
        self.around = around
        assert forward.parent is not None
        #: Whether it runs several times for one run of the forward loop: in a loop that only this is in.
        self.is_repeated: bool = (
            around.is_repeated if isinstance(around, LoopRegion) else around.frame != forward.parent.frame
        )
        self._known: dict[Any, Tensor] = {}
        self._index: Tensor | None = None
        if every > 1:
            # One at a time: each holds the history of so many iterations.
            self.attrs["parallel_iterations"] = 1
        self._open(every)

    def _open(self, every: int) -> None:
        graph = self.graph
        ops, scopes = graph.ops, graph.scopes
        assert self.forward.parent is not None
        count = self.around.brought(self.forward.count, self.forward.parent.frame, self.guard)
        #: How many iterations the forward loop had, beside this loop.
        self.total: Tensor = count
        if every > 1:
            with self.around.building(self.guard):
                count = ops.FloorDiv(ops.Add(count, graph.constant(every - 1)), graph.constant(every))
        with scopes.apart(None):
            first = enter(graph, count, self.attrs, is_constant=False)
            self._merge = ops.Merge([first, first], name="left").output
        with scopes.apart(self._merge.node_name):
            self.cond: Tensor = ops.LoopCond(ops.GreaterEqual(self._merge, graph.constant(1)))
        with scopes.apart(None):
            switch = ops.Switch(self._merge, self.cond)
            self._pivot = ops.Identity(switch.output_true, name="iteration")
            self.done = ops.Exit(switch.output_false, name="left/exit").node_name

    def _body_anchor(self) -> str:
        name: str = self._pivot.node_name
        return name

    @property
    def outermost(self) -> GradientRegion:
        return self.around.outermost

    @property
    def pivot(self) -> str:
        """The node that is live in every iteration."""
        return self._body_anchor()

    def close(self) -> None:
        """Close the counter; nothing may be brought here any more."""
        with self.graph.scopes.apart(self._pivot.node_name):
            fewer = self.graph.ops.Sub(self._pivot, self.graph.constant(1))
        self._next(self._merge, fewer)

    def carried(self, initial: Tensor) -> AddedVariable:
        """A variable of the backward loop."""
        return AddedVariable(self.graph, self.attrs, self.cond, initial)

    @property
    def index(self) -> Tensor:
        """Which iteration of the forward loop is gone back through, from 0."""
        if self._index is None:
            with self.building():
                self._index = self.graph.ops.Sub(self._pivot, self.graph.constant(1), name="index")
        return self._index

    def predicate(self, literal: Tensor) -> Tensor:
        return self.here(literal)

    def building(self, guard: Guard = ALWAYS) -> Any:
        return BuildingPlace.building(self, guard)

    # ------------------------------------------------------------------ values of the forward loop

    def kept(self, tensor: Tensor) -> Tensor:
        if tensor.node_name not in self.structure.frames:
            return tensor  # built by this call, here
        found = self._known.get(tensor)
        if found is None:
            found = self._known[tensor] = self._brought(tensor)
        return found

    def _brought(self, tensor: Tensor) -> Tensor:
        if self.structure.value_frame(tensor.node_name) != self.forward.frame:
            return self.entered(self.around.here(tensor))
        outside = self._invariant(tensor.port)
        if outside is not None:
            return self.entered(self.around.here(outside))
        node = self.graph.nodes[tensor.node_name]
        if node.op == "Const":
            with self.building():
                return self.graph.append_constant(node.attrs["value"], self.graph.scopes.unique_name("Const"))
        return self.brought(tensor, self.forward.frame, self.structure.guard(tensor.port))

    def brought(self, tensor: Tensor, frame: FramePath, guard: Guard) -> Tensor:
        if frame != self.forward.frame:
            return self.entered(self.around.brought(tensor, frame, guard))
        if self.is_repeated:
            return IndexedHistory(tensor, self.forward, guard).read(self, guard)
        return History(tensor, self.forward, guard).popped(self, guard)

    def computed_forward(self, tensor: Tensor, op: str, **attrs: Any) -> Tensor:
        build = getattr(self.graph.ops, op)
        if self._is_at_hand(tensor):
            found: Tensor = build(self.here(tensor), **attrs)
            return found
        key = (tensor, op, *sorted((name, str(value)) for name, value in attrs.items()))
        if key not in self._known:
            if self.structure.value_frame(tensor.node_name) != self.forward.frame:
                result = self.entered(self.around.computed_forward(tensor, op, **attrs))
            else:
                with self.graph.scopes.apart(None):
                    forward = build(tensor, **attrs)
                result = self.brought(forward, self.forward.frame, self.structure.guard(tensor.port))
            self._known[key] = result
        return self._known[key]

    def _is_at_hand(self, tensor: Tensor) -> bool:
        """Whether bringing it here costs no history."""
        if tensor.node_name not in self.structure.frames or tensor in self._known:
            return True
        if self.structure.value_frame(tensor.node_name) != self.forward.frame:
            return False
        return self._invariant(tensor.port) is not None

    def _invariant(self, port: OutputPort) -> Tensor | None:
        """The tensor outside of the loop that a port of it is in every iteration, if it is one."""
        entered = self.structure.constant_of(port)
        if entered is None or entered not in self.forward.loop.constants:
            return None
        return Tensor(self.graph, *self.graph.nodes[entered].inputs[0])
