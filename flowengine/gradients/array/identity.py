"""Gradients of what hands its input on."""

from __future__ import annotations

from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Backward, Gradient, Results
from flowengine.graphs.tensor import Operation


@gradient("Identity", "RefIdentity", slices=True)
def identity(b: Backward, op: Operation, grad: Gradient) -> Results:
    return [grad]
