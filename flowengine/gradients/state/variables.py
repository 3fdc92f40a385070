"""Gradients of what is read from a variable by its handle: the handle gets that of the value."""

from __future__ import annotations

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Gradient, Results
from flowengine.graphs.tensor import Operation


@gradient("ReadVariableOp", slices=True)
def read_variable(b: Backward, op: Operation, grad: Gradient) -> Results:
    return [grad]


@gradient("_ReadVariablesOp", slices=True, lazy=True)
def read_variables(b: Backward, op: Operation, *grads: Gradient | None) -> Results:
    return list(grads)
