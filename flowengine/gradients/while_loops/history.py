"""How a value of one loop comes to another that goes through the iterations the other way: on a stack.

Each iteration of the loop that has the value pushes it, each iteration of the other pops one. In a nested
loop the stack is made anew for each iteration around it, and the handles of the stacks go the same way.

    outer loop:  stack of handles <- push(handle)                    its reverse:  pop -> handle
      inner loop:   stack(handle) <- push(value)                       its reverse:   pop -> value

The adjoint of a pop is a push, and that of a push a pop: a loop that differentiates a backward loop pushes
the gradients of what that popped, and the backward pass of the forward loop pops them, in that order.

What is popped is gone. Where a backward loop runs several times for one run of the forward loop, as in each
iteration of the loop that computes a Jacobian, the values are kept in a TensorArray and read by the number of
their iteration. Its flow is a variable of the forward loop, so that order and derivatives follow from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowengine.gradients.control_structure import Guard
from flowengine.gradients.regions import BuildingPlace
from flowengine.graphs.tensor import Tensor
from flowengine.ir.frames import FramePath
from flowengine.ops.state.resources import ELEMENT_SHAPE

if TYPE_CHECKING:
    from flowengine.gradients.while_loops.regions import ForwardLoop, LoopRegion


class History:
    """The values of one tensor, one for each iteration in which its guard holds.

    source   the place of the loop that has them; they are pushed from the moment this is made
    under    a node that is live in the iterations whose values are kept; None is all in which the guard holds
    popped_in the frame of the forward code in whose gradient they are popped, of an adjoint: where that is in
              one iteration with what pushes them, the stack itself is there
    """

    def __init__(
        self,
        tensor: Tensor,
        source: BuildingPlace,
        guard: Guard,
        under: str | None = None,
        *,
        popped_in: FramePath | None = None,
    ) -> None:
        assert source.parent is not None
        self._source = source
        self._dtype = tensor.dtype.base
        shape = tensor.shape
        self._shape_attrs = {} if shape.rank is None else {ELEMENT_SHAPE: shape}
        scopes, ops = source.graph.scopes, source.graph.ops
        with scopes.apart(source.parent.anchor(source.guard)):
            stack = ops.StackV2(-1, elem_type=self._dtype, name="history")
        entered = source.entered(stack)
        with scopes.apart(None, _names(under or source.anchor(guard))):
            push = ops.StackPushV2(entered, tensor, name="push")
        source.note(push.node_name, bool(guard or under))
        #: The handle, where the source's parent has it; or the history of the handles.
        self._stack: Tensor | History = stack
        if source.parent.parent is not None and not source.parent.is_around(popped_in):
            with scopes.apart(None):
                # TensorFlow's loop optimizer takes whatever pushes a stack's handle for a push on that stack,
                # and drops what nobody pops there. It does not look through this; an IdentityN of one tensor
                # is gone before it looks.
                handle = ops.IdentityN([stack, stack], name="handle")[0]
            self._stack = History(handle, source.parent, source.guard, popped_in=popped_in)

    def popped(self, target: BuildingPlace, guard: Guard) -> Tensor:
        """The values, last first, in a loop that goes the other way; asked for once."""
        assert target.parent is not None
        scopes, ops = target.graph.scopes, target.graph.ops
        handle = self._stack
        if isinstance(handle, History):
            handle = handle.popped(target.parent, target.guard)
        else:
            handle = brought_around(handle, self._source, target)
        entered = target.entered(handle)
        with scopes.apart(None, _names(target.anchor(guard))):
            value: Tensor = ops.StackPopV2(entered, elem_type=self._dtype, name="pop", **self._shape_attrs)
        target.note(value.node_name, bool(guard))
        return value


class IndexedHistory:
    """The values of one tensor by the number of their iteration, to be read as often as is wanted.

    In a nested loop there is an array for each iteration around it, whose handle and last flow are kept in
    the same way.
    """

    def __init__(self, tensor: Tensor, source: ForwardLoop, guard: Guard) -> None:
        from flowengine.gradients.while_loops.regions import ForwardLoop

        parent = source.parent
        assert parent is not None
        self._source = source
        self._dtype = tensor.dtype.base
        shape = tensor.shape
        self._shape_attrs = {} if shape.rank is None else {ELEMENT_SHAPE: shape}
        scopes, ops = source.graph.scopes, source.graph.ops
        with scopes.apart(parent.anchor(source.guard)):
            array = ops.TensorArrayV3(
                0, dtype=self._dtype, dynamic_size=True, clear_after_read=False, name="history"
            )
        flow = source.carried(array.flow)
        handle = source.entered(array.handle)
        with scopes.apart(None):
            kept = ops.TensorArrayWriteV3(handle, source.index, tensor, flow.inside, name="keep")
        last = flow.close(_whatever_was_taken(source, kept, flow.inside, guard))
        #: (handle, flow) as the source's parent has them, or the histories of these.
        self._array: tuple[Tensor, Tensor] | tuple[IndexedHistory, IndexedHistory] = (array.handle, last)
        if isinstance(parent, ForwardLoop):
            handles, flows = (IndexedHistory(each, parent, source.guard) for each in self._array)
            self._array = handles, flows

    def read(self, target: LoopRegion, guard: Guard) -> Tensor:
        """The value of the iteration that a backward loop goes back through; asked for once."""
        array = [self._around(each, target) for each in self._array]
        handle, flow = map(target.entered, array)
        scopes, ops = target.graph.scopes, target.graph.ops
        index = target.index
        with scopes.apart(None, _names(target.anchor(guard))):
            value: Tensor = ops.TensorArrayReadV3(
                handle, index, flow, dtype=self._dtype, name="kept", **self._shape_attrs
            )
        return value

    def _around(self, part: Tensor | IndexedHistory, target: LoopRegion) -> Tensor:
        """The handle or flow beside the backward loop."""
        if isinstance(part, IndexedHistory):
            assert isinstance(target.around, type(target))
            return part.read(target.around, target.guard)
        assert self._source.parent is not None
        return target.around.brought(part, self._source.parent.frame, self._source.guard)


def _whatever_was_taken(source: ForwardLoop, flow: Tensor, before: Tensor, guard: Guard) -> Tensor:
    """A flow that is live under a guard, and where it is dead, the flow before."""
    structure, graph = source.call.structure, source.graph
    with graph.scopes.apart(None):
        for predicate, side in structure.nested_first(guard):
            chosen = source.predicate(Tensor(graph, *predicate))
            other = graph.ops.Switch(before, chosen)[1 - side]
            flow = graph.ops.Merge([flow, other]).output
    return flow


def brought_around(handle: Tensor, source: BuildingPlace, target: BuildingPlace) -> Tensor:
    """The handle of a stack from beside one loop to beside the other, once all has been pushed."""
    if source.done is not None:
        with target.graph.scopes.apart(None, [source.done]):
            handle = target.graph.ops.Identity(handle, name="filled")
    assert source.parent is not None
    assert target.parent is not None
    if target.parent is source.parent:
        return handle
    return target.parent.brought(handle, source.parent.frame, source.guard)


def _names(anchor: str | None) -> list[str]:
    return [] if anchor is None else [anchor]
