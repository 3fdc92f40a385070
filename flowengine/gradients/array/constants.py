"""Gradients of constants, placeholders, repeated values, and values at given places of a background."""

from __future__ import annotations

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import integer, integers, rank, sum_like
from flowengine.gradients.values import Gradient, Results
from flowengine.graphs.tensor import Operation, Tensor

# Gradients of what gives a tensor rather than computes one.


@gradient("PlaceholderWithDefault", slices=True)
def placeholder_with_default(b: Backward, op: Operation, grad: Gradient) -> Results:
    """g"""
    return [grad]


@gradient("Fill")
def fill(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The sum of all of g"""
    axes = b.ops.Range(integer(b, 0), rank(b, op.outputs[0]), integer(b, 1))
    return [None, b.ops.Sum(grad, axes)]


# Gradients of values written into a dense tensor.


@gradient("SparseToDense")
def sparse_to_dense(b: Backward, op: Operation, grad: Tensor) -> Results:
    """To each value what its place has, to the default the sum of all other places"""
    places, _, values, _ = op.inputs
    width = b.ops.Reshape(rank(b, op.outputs[0]), integers(b, 1))
    # The places may be a scalar or a vector, of a dense vector.
    table = b.ops.Reshape(places, b.ops.ConcatV2([integers(b, -1), width], 0))
    picked = b.ops.GatherNd(grad, table)
    everywhere = b.ops.Range(integer(b, 0), rank(b, op.outputs[0]), integer(b, 1))
    rest = b.ops.Sub(b.ops.Sum(grad, everywhere), b.ops.Sum(picked, integers(b, 0)))
    return [None, None, sum_like(b, picked, values), rest]
