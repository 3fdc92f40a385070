"""Connectionist temporal classification: its loss."""

from __future__ import annotations

from typing import Final

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor

_NO_SECOND: Final = (
    "CTCLoss computes its gradient together with the loss, and there is no derivative of that gradient."
)


@gradient("CTCLoss")
def ctc_loss(b: Backward, op: Operation, loss: Tensor, _: Tensor) -> Results:
    """The op's second output, for each sequence by the gradient of its loss.

    loss (batch) -> inputs (time, batch, classes). A second derivative is refused, not taken for zero.
    """
    slope = b.ops.PreventGradient(op.outputs[1], message=_NO_SECOND)
    by_sequence = b.ops.Reshape(loss, b.constant([1, -1, 1], "int32"))
    return [b.ops.Mul(by_sequence, slope), None, None, None]
