"""Dynamic batches: gradients are parted where values were batched, and batched where they were parted.

Each node of a gradient keeps what waits for other steps under its own name, so that two calls of `gradients`
on one graph do not mix theirs.
"""

from __future__ import annotations

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import same
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("Batch")
def batch(b: Backward, op: Operation, *grads: Tensor) -> Results:
    """Each step gets the rows that are its own, within the time that the op allows."""
    *batched, _, _ = grads
    whose, step = op.outputs[-2:]
    timeout = op.get_attr("grad_timeout_micros")
    return [
        b.ops.Unbatch(each, whose, step, timeout_micros=timeout, **same(op, "container")) for each in batched
    ]


@gradient("Unbatch")
def unbatch(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The step that computed the batch gets the gradients of all steps, the others get no rows."""
    batched, whose, step = op.inputs
    return [b.ops.UnbatchGrad(batched, whose, grad, step, **same(op, "container")), None, None]
