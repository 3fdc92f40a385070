"""Elements moved from one axis to the others: they are moved back."""

from __future__ import annotations

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("PeriodicResample")
def periodic_resample(b: Backward, op: Operation, grad: Tensor) -> Results:
    """Of values whose shape the graph must know."""
    return [
        b.ops.PeriodicResampleOpGrad(
            grad, original_shape=op.inputs[0].shape, desired_shape=op.get_attr("shape")
        )
    ]


@gradient("PeriodicResampleOpGrad")
def periodic_resample_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """Of whole factors: the elements are moved as before."""
    return [b.ops.PeriodicResample(grad, shape=op.get_attr("desired_shape"))]
