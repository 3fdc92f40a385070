"""Softmax, its logarithm, and the cross entropies."""

from __future__ import annotations

from flowengine.core.shapes import TensorShape, broadcast_shapes
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import Droppable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import MATRIX, at_least, dims_of, merge_dims, ranked, vector

define("Softmax(logits: T) -> softmax: T", "T: floattype", shape=at_least(1))
define("LogSoftmax(logits: T) -> logsoftmax: T", "T: floattype", Droppable(), shape=at_least(1))


@define("SoftmaxCrossEntropyWithLogits(features, labels: T) -> loss, backprop: T", "T: floattype")
def softmax_cross_entropy(c: ShapeContext) -> Shapes:
    """logits, labels (batch, classes), broadcast -> loss (batch), gradient (batch, classes)"""
    known = [s if s.dims is not None else MATRIX for s in (c.input(0), c.input(1))]
    shape = broadcast_shapes(*known).with_rank(2)
    return [vector(shape[0]), shape]


@define(
    "SparseSoftmaxCrossEntropyWithLogits(features: T, labels: Tlabels) -> loss, backprop: T",
    "T: floattype; Tlabels: indextype = int64",
)
def sparse_softmax_cross_entropy(c: ShapeContext) -> Shapes:
    """logits (batch, classes), labels (batch) -> loss (batch), gradient (batch, classes)"""
    batch, classes = dims_of(ranked(c, 0, 2), 2)
    batch = merge_dims(batch, ranked(c, 1, 1)[0], "The rows of the logits and the number of labels")
    return [vector(batch), TensorShape([batch, classes])]
