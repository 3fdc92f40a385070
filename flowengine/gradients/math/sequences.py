"""Gradients of counts that weights go into."""

from __future__ import annotations

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import integer, integers, size
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("Bincount")
def bin_count(b: Backward, op: Operation, grad: Tensor) -> Results:
    """To each weight what its bin has, zero for those beyond the last bin; no weights at all get nothing."""
    values, bins, weights = op.inputs
    is_counted = b.ops.Less(values, bins)
    zero = b.constant(0, grad.dtype)
    # A bin more, so that there is one to look at where there are none.
    wider = b.ops.ConcatV2([grad, b.ops.Reshape(zero, integers(b, 1))], integer(b, 0))
    of_values = b.ops.GatherV2(wider, b.ops.SelectV2(is_counted, values, bins), integer(b, 0))
    flat = b.ops.Reshape(of_values, integers(b, -1))
    taken = b.ops.Slice(flat, integers(b, 0), b.ops.Pack([size(b, weights)]))
    return [None, None, b.ops.Reshape(taken, b.shape(weights))]
