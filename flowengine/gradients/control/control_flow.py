"""Gradients of the primitives of control flow, where they are code and not the machinery of a loop."""

from __future__ import annotations

from flowengine.gradients.backward import Backward
from flowengine.gradients.conditionals import merge_gradients, switch_gradient
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Gradient, Results
from flowengine.graphs.tensor import Operation


@gradient("Switch", "RefSwitch", slices=True, lazy=True)
def switch(b: Backward, op: Operation, if_false: Gradient | None, if_true: Gradient | None) -> Results:
    """A Merge of both sides; the predicate has none."""
    return [switch_gradient(b, op, [if_false, if_true]), None]


@gradient("Merge", "RefMerge", slices=True, lazy=True)
def merge(b: Backward, op: Operation, grad: Gradient | None, index: None) -> Results:
    """A Switch to the side that came."""
    return [None] * len(op.inputs) if grad is None else merge_gradients(b, op, grad)


@gradient("Enter", "RefEnter", "Exit", "RefExit", "NextIteration", "RefNextIteration", slices=True)
def passage(b: Backward, op: Operation, grad: Gradient) -> Results:
    """The same: these are of a loop that is around ys and xs, of which this is one iteration."""
    return [grad]
