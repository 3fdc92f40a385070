"""Places to build nodes: places of the forward graph, and regions, the places of gradients.

A region is straight-line code that one sweep goes back through, with the place where its gradients belong.
The region of straight code builds where that code is. The region of a loop builds in a loop of its own, which
goes through the iterations backwards: there a value of the forward loop is not at hand, and `here` brings it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from flowengine.core.errors import InvalidArgumentError
from flowengine.gradients.control_structure import ALWAYS, Guard, Structure
from flowengine.gradients.recomputation import Recomputation
from flowengine.gradients.registry import GradientRule
from flowengine.graphs.tensor import Tensor
from flowengine.ir.frames import FramePath, describe_frame
from flowengine.ir.graph import Node

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph


class LibraryRules(Protocol):
    """The gradient functions of a graph's library: see `FunctionRules`."""

    def rule(self, node: Node) -> GradientRule | None: ...


class StackAdjoint(Protocol):
    """The gradients that go back the way that a stack came: see `History`."""

    def popped(self, target: BuildingPlace, guard: Guard) -> Tensor: ...


@dataclass(slots=True)
class GradientCall:
    """One call of `gradients`: what all that it builds has in common.

    structure     the control flow of the graph as it was before
    source        what tells its gradient TensorArrays from those of other calls
    aggregation   "add", "tree" or "accumulate"
    gate          "none", or "op": the gradients of an op's inputs wait for each other
    colocate      whether a gradient asks for the device of its op
    functions     the library, as far as it is called between ys and xs
    history_every   of how many iterations of a loop one has its values kept
    places        {frame: the place of forward code there}
    adjoints      {the node that made a stack: what goes back the way that the stack came}
    """

    graph: Graph
    structure: Structure
    source: str
    functions: LibraryRules
    aggregation: str = "add"
    gate: str = "none"
    colocate: bool = False
    history_every: int = 1
    places: dict[FramePath, BuildingPlace] = field(default_factory=dict)
    adjoints: dict[str, StackAdjoint] = field(default_factory=dict)

    def place(self, frame: FramePath) -> BuildingPlace:
        """The place of forward code in a frame that encloses the ys, or in a loop that is gone through."""
        found = self.places.get(frame)
        if found is None:
            found = self.places[frame] = GradientRegion(self, frame)
        return found


class BuildingPlace:
    """A frame in which this call builds.

    parent   the place around it; None where the ys are, and around that
    guard    what must have been decided in the parent for the frame to be live
    done     the name of a node, in the parent, that runs when the frame has ended; None where nobody asks
    """

    parent: BuildingPlace | None = None
    guard: Guard = ALWAYS
    done: str | None = None

    def __init__(self, call: GradientCall, frame: FramePath) -> None:
        self.call = call
        self.graph = call.graph
        self.frame = frame
        self._anchors: dict[Guard, str | None] = {}

    def entered(self, tensor: Tensor) -> Tensor:
        """A tensor of the parent, the same in all iterations here."""
        raise NotImplementedError

    def brought(self, tensor: Tensor, frame: FramePath, guard: Guard) -> Tensor:
        """The value here of a tensor that this call has built beside the forward code of a frame."""
        raise NotImplementedError

    def note(self, node: str, is_guarded: bool) -> None:
        """An iteration is over only when this node has run, or is dead if it may be."""

    def predicate(self, literal: Tensor) -> Tensor:
        """The value here of a predicate of the forward code."""
        return literal

    def is_around(self, frame: FramePath | None) -> bool:
        """Whether one iteration here goes back through all that one iteration of a forward frame is in."""
        return False

    def anchor(self, guard: Guard = ALWAYS) -> str | None:
        """A node that is live here exactly under a guard: what has no inputs waits for it. None: no need."""
        if guard not in self._anchors:
            self._anchors[guard] = self._made_anchor(guard)
        return self._anchors[guard]

    def building(self, guard: Guard = ALWAYS) -> AbstractContextManager[None]:
        """Build nodes here, under a guard; control dependencies from around do not apply."""
        return self.graph.scopes.apart(self.anchor(guard))

    def _made_anchor(self, guard: Guard) -> str | None:
        structure = self.call.structure
        literals = structure.nested_first(guard)
        implied: Guard = ALWAYS.union(*(structure.guard(predicate) for predicate, _ in literals))
        names = [self._side(*each) for each in literals if each not in implied]
        if not names:
            return self._body_anchor()
        if len(names) == 1:
            return names[0]
        with self.graph.scopes.apart(None, names):
            joined: str = self.graph.ops.NoOp(name="pivot").name
        return joined

    def _side(self, predicate: Any, side: int) -> str:
        forward = Tensor(self.graph, predicate.node, predicate.slot)
        body = self.anchor()
        with self.graph.scopes.apart(None):
            value = self.predicate(forward)
        # The predicate may be a constant of the loop: what hangs from here must end with the loop.
        with self.graph.scopes.apart(None, [] if body is None else [body]):
            taken = self.graph.ops.Switch(value, value)[side]
            name: str = self.graph.ops.Identity(taken, name="pivot").node_name
        return name

    def _body_anchor(self) -> str | None:
        """A node that is live in every iteration."""
        raise NotImplementedError


class GradientRegion(BuildingPlace):
    """The code of the frame in which the ys are, and the place of its gradients: that frame.

    It is the root, or a loop that is around ys and xs alike: of that, it is one iteration.
    """

    def __init__(self, call: GradientCall, frame: FramePath = ()) -> None:
        super().__init__(call, frame)
        self.structure = call.structure
        #: The frame of the code that is gone back through.
        self.code_frame = frame
        #: The constructors to which a forward tensor may be given.
        is_plain = not frame and not call.structure.segments
        self.ops: Any = call.graph.ops if is_plain else PlacedOps(self)
        self._entered: dict[Tensor, Tensor] = {}
        #: What is computed again of its code; None where no segment is marked.
        self.recomputation = Recomputation(self) if call.structure.segments else None

    def here(self, tensor: Tensor) -> Tensor:
        """The value of a forward tensor where gradients are built."""
        again = None if self.recomputation is None else self.recomputation.value(tensor)
        return self.kept(tensor) if again is None else again

    def kept(self, tensor: Tensor) -> Tensor:
        """The value of a forward tensor where gradients are built, as the forward code has it."""
        if not self.frame or tensor.node_name not in self.structure.frames:
            return tensor
        found = self._entered.get(tensor)
        if found is None:
            found = self._entered[tensor] = self._from_around(tensor)
        return found

    def _from_around(self, tensor: Tensor) -> Tensor:
        return self.brought(tensor, self.structure.value_frame(tensor.node_name), ALWAYS)

    def brought(self, tensor: Tensor, frame: FramePath, guard: Guard) -> Tensor:
        for depth in range(len(frame), len(self.frame)):
            loop = self.structure.loops[self.frame[: depth + 1]]
            tensor = enter(self.graph, tensor, self.graph.nodes[loop.enters[0]].attrs)
        return tensor

    def is_around(self, frame: FramePath | None) -> bool:
        return frame is not None and frame[: len(self.code_frame)] == self.code_frame

    def sees_again(self, handle: Tensor) -> bool:
        """Whether what is behind a forward handle stays while this place runs several times."""
        place = self.outermost
        if not place.frame:
            return False
        maker = self.structure.outside(handle.port)
        return self.structure.value_frame(maker.node)[: len(place.frame)] != place.frame

    @property
    def outermost(self) -> GradientRegion:
        """The region in which the call began."""
        return self

    def computed_forward(self, tensor: Tensor, op: str, **attrs: Any) -> Tensor:
        """Apply a small op to a forward tensor, for use where gradients are built."""
        found: Tensor = getattr(self.graph.ops, op)(self.here(tensor), **attrs)
        return found

    def predicate(self, literal: Tensor) -> Tensor:
        # Kept, never computed again: a counter that the call adds to a forward loop hangs from it, too, and
        # would wait for the gradient that the copy waits for.
        return self.kept(literal)

    def building(self, guard: Guard = ALWAYS) -> AbstractContextManager[None]:
        # What the caller of `gradients` wants to be waited for is waited for in straight code.
        return self.graph.scopes.placed(self.anchor(guard))

    def _body_anchor(self) -> str | None:
        if not self.frame:
            return None
        loop = self.structure.loops[self.frame]
        for variable in loop.variables:
            if variable.switches:
                with self.graph.scopes.apart(None):
                    switch = Tensor(self.graph, variable.switches[0], 1)
                    name: str = self.graph.ops.Identity(switch, name="pivot").node_name
                return name
        return loop.variables[0].merge if loop.variables else loop.enters[0]


class PlacedOps:
    """The constructors of a graph as a region has them: forward tensors are brought there first."""

    def __init__(self, region: GradientRegion) -> None:
        self._region = region

    def __getattr__(self, name: str) -> Any:
        constructor = getattr(self._region.graph.ops, name)
        placed = self._placed

        def build(*inputs: Any, **attrs: Any) -> Any:
            return constructor(*map(placed, inputs), **{key: placed(each) for key, each in attrs.items()})

        setattr(self, name, build)
        return build

    def _placed(self, value: Any) -> Any:
        if type(value) is Tensor:
            return self._region.here(value)
        if isinstance(value, list | tuple) and any(isinstance(each, Tensor | list | tuple) for each in value):
            return [self._placed(each) for each in value]
        return value


def enter(graph: Graph, tensor: Tensor, like: Any, is_constant: bool = True) -> Tensor:
    """A tensor in the loop that an Enter of these attributes enters."""
    with graph.scopes.apart(None):
        entered: Tensor = graph.ops.Enter(
            tensor,
            frame_name=like["frame_name"],
            is_constant=is_constant,
            parallel_iterations=like["parallel_iterations"],
        )
    return entered


def common_frame(structure: Structure, tensors: Sequence[Tensor]) -> FramePath:
    """The frame of the ys; InvalidArgumentError where they are in several."""
    frames = {each: structure.value_frame(each.node_name) for each in tensors}
    found = set(frames.values())
    if len(found) > 1:
        said = ", ".join(f"'{each.name}' in {describe_frame(frame)}" for each, frame in frames.items())
        raise InvalidArgumentError(f"the ys are in different loops: {said}; take them out through Exits")
    return found.pop()
