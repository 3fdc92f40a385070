"""Conditionals on the way back: a Merge becomes Switches, a Switch becomes a Merge.

    y = Merge(f, t)           ->  df = Switch(dy, p):0,  dt = Switch(dy, p):1
    f, t = Switch(x, p)       ->  dx = Merge(df, dt);  a side without gradient gives zeros, alive there alone

A gradient is as live as its tensor. Where a branch uses a value from outside without a Switch, its gradient
is made as live as the value in the same way.
"""

from __future__ import annotations

from flowengine.gradients.backward import Backward, empty_rows, zeros_like
from flowengine.gradients.control_structure import Guard, Literal
from flowengine.gradients.regions import GradientRegion
from flowengine.gradients.values import Gradient, IndexedSlices
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.ir.graph import OutputPort


def merge_gradients(b: Backward, op: Operation, grad: Gradient) -> list[Gradient | None]:
    """The gradient of each input of a Merge: live where that was the one that came."""
    structure = b.region.structure
    guards = [structure.guard(port) for port in op.node.inputs]
    shared = guards[0].intersection(*guards[1:])
    sides = _opposite([guard - shared for guard in guards])
    if sides is None:
        chosen = b.here(op.outputs[1])
        return [
            switched(b, grad, b.ops.Equal(chosen, b.constant(index, "int32")))[1]
            for index in range(len(guards))
        ]
    predicate, first = sides
    both = switched(b, grad, b.here(Tensor(b.graph, *predicate)))
    return [both[first], both[1 - first]]


def _opposite(guards: list[Guard]) -> Literal | None:
    """The literal of the first of two guards of which the second has the other side."""
    if len(guards) == 2:
        for predicate, side in sorted(guards[0]):
            if (predicate, 1 - side) in guards[1]:
                return predicate, side
    return None


def switched(b: Backward, gradient: Gradient, predicate: Tensor) -> tuple[Gradient, Gradient]:
    """A gradient as it is live where a predicate is false, and where it is true."""
    switch = b.graph.ops.Switch
    if isinstance(gradient, Tensor):
        one = switch(gradient, predicate)
        return one.output_false, one.output_true
    values, indices = switch(gradient.values, predicate), switch(gradient.indices, predicate)
    return (
        IndexedSlices(values.output_false, indices.output_false, gradient.dense_shape),
        IndexedSlices(values.output_true, indices.output_true, gradient.dense_shape),
    )


def switch_gradient(b: Backward, op: Operation, sides: list[Gradient | None]) -> Gradient | None:
    """The gradient of what a Switch switches."""
    structure = b.region.structure
    present = [each for each in sides if each is not None]
    if not present:
        return None
    if structure.is_loop_switch(op.node):
        return present[0]  # of the one iteration that is gone back through
    data = op.inputs[0]
    predicate = structure.outside(op.node.inputs[1])
    around = structure.node_guard(op.name)
    return merged(b.region, data, around, predicate, sides)


def merged(
    region: GradientRegion, tensor: Tensor, around: Guard, predicate: OutputPort, sides: list[Gradient | None]
) -> Gradient:
    """One gradient of a tensor out of those of the two sides of a conditional; a missing side is zero there.

    around   the guard of the conditional
    """
    ops = region.graph.ops
    are_slices = all(each is None or isinstance(each, IndexedSlices) for each in sides)
    whole: list[Gradient] = []
    for side, each in enumerate(sides):
        with region.building(around | {(predicate, side)}):
            b = Backward(region, tensor.op)
            if each is None:
                whole.append(_no_slices(b, tensor, sides) if are_slices else zeros_like(b, tensor))
            else:
                whole.append(
                    _tied(b, each) if isinstance(each, IndexedSlices) and are_slices else b.dense(each)
                )
    dense = [each for each in whole if isinstance(each, Tensor)]
    if dense:
        result: Tensor = ops.Merge(dense).output
        return result
    slices = [each for each in whole if isinstance(each, IndexedSlices)]
    with region.building(around):
        shape = Backward(region, tensor.op).shape(tensor)
    return IndexedSlices(
        ops.Merge([each.values for each in slices]).output,
        ops.Merge([each.indices for each in slices]).output,
        shape,
    )


def _tied(b: Backward, slices: IndexedSlices) -> IndexedSlices:
    """Slices whose indices are alive only where their values are.

    Indices may come from outside of the branch, or be a constant of a loop: a Merge would take them for those
    of the other side.
    """
    with b.control([slices.values]):
        return IndexedSlices(slices.values, b.graph.ops.Identity(slices.indices), slices.dense_shape)


def _no_slices(b: Backward, tensor: Tensor, sides: list[Gradient | None]) -> IndexedSlices:
    """Slices without any row, as those of the other side are."""
    other = next(each for each in sides if isinstance(each, IndexedSlices))
    return IndexedSlices(empty_rows(b, tensor), b.constant([], other.indices.dtype.base))


def lifted(region: GradientRegion, tensor: Tensor, gradient: Gradient, live: Guard) -> Gradient:
    """A gradient that is live under a guard, as live as its tensor is."""
    structure = region.structure
    around = structure.guard(tensor.port)
    for literal in structure.nested_first(live - around):
        live = live - {literal}
        predicate, side = literal
        sides: list[Gradient | None] = [None, None]
        sides[side] = gradient
        gradient = merged(region, tensor, live, predicate, sides)
    return gradient
