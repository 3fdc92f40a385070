"""Activations, biases, softmax and the cross entropies."""

from __future__ import annotations

from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape, broadcast_shapes
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import Broadcasts, Droppable, Elementwise, NetworkLayer, When
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    MATRIX,
    VECTOR,
    at_least,
    dims_of,
    merge_dims,
    merged,
    ranked,
    ranked_at_least,
    replace_dim,
    scalars,
    unchanged,
    vector,
)

# Activations and their gradients, biases, the halved sum of squares.

define(
    "Relu(features: T) -> activations: T",
    "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, qint8}",
    Elementwise(),
    NetworkLayer(),
    shape=unchanged,
)
define(
    "Relu6(features: T) -> activations: T",
    "T: realnumbertype",
    Elementwise(),
    NetworkLayer(),
    shape=unchanged,
)
define("Elu(features: T) -> activations: T", "T: floattype", Elementwise(), shape=unchanged)
define("Selu(features: T) -> activations: T", "T: floattype", Elementwise(), shape=unchanged)
define(
    "LeakyRelu(features: T) -> activations: T",
    "alpha: float = 0.2; T: floattype = float",
    Elementwise(),
    shape=unchanged,
)
define("Softplus(features: T) -> activations: T", "T: floattype", Elementwise(), shape=unchanged)
define("Softsign(features: T) -> activations: T", "T: floattype", Elementwise(), shape=unchanged)
define("ReluGrad(gradients, features: T) -> backprops: T", "T: realnumbertype", Elementwise(), shape=merged)
define("Relu6Grad(gradients, features: T) -> backprops: T", "T: realnumbertype", Elementwise(), shape=merged)
define("EluGrad(gradients, outputs: T) -> backprops: T", "T: floattype", Elementwise(), shape=merged)
define("SeluGrad(gradients, outputs: T) -> backprops: T", "T: floattype", Elementwise(), shape=merged)
define(
    "LeakyReluGrad(gradients, features: T) -> backprops: T",
    "alpha: float = 0.2; T: floattype = float",
    Elementwise(),
    shape=merged,
)
define("SoftplusGrad(gradients, features: T) -> backprops: T", "T: floattype", Elementwise(), shape=merged)
define("SoftsignGrad(gradients, features: T) -> backprops: T", "T: floattype", Elementwise(), shape=merged)


@define(
    "BiasAdd(value, bias: T) -> output: T",
    "T: numbertype; data_format: {'NHWC', 'NCHW'} = 'NHWC'",
    When("data_format", b"NHWC", Broadcasts("value", "bias", is_mutual=False)),
    NetworkLayer(),
)
def bias_add(c: ShapeContext) -> Shapes:
    """(..., C), (C) -> (..., C); with NCHW the channels are axis 1"""
    shape, bias = ranked_at_least(c, 0, 2), ranked(c, 1, 1)
    if shape.dims is None:
        return [UNKNOWN_SHAPE]
    axis = 1 if c.attrs["data_format"] == b"NCHW" else len(shape.dims) - 1
    channels = merge_dims(shape.dims[axis], bias[0], "The channels and the length of the bias")
    return [replace_dim(shape, axis, channels)]


@define(
    "BiasAddV1(value, bias: T) -> output: T", "T: numbertype", Broadcasts("value", "bias", is_mutual=False)
)
def bias_add_v1(c: ShapeContext) -> Shapes:
    shape, bias = ranked_at_least(c, 0, 2), ranked(c, 1, 1)
    if shape.dims is None:
        return [UNKNOWN_SHAPE]
    return [replace_dim(shape, -1, merge_dims(shape.dims[-1], bias[0], "The channels and the bias"))]


@define("BiasAddGrad(out_backprop: T) -> output: T", "T: numbertype; data_format: {'NHWC', 'NCHW'} = 'NHWC'")
def bias_add_grad(c: ShapeContext) -> Shapes:
    shape = ranked_at_least(c, 0, 3 if c.attrs["data_format"] == b"NCHW" else 2)
    if shape.dims is None:
        return [VECTOR]
    return [vector(shape.dims[1 if c.attrs["data_format"] == b"NCHW" else -1])]


define("L2Loss(t: T) -> output: T", "T: floattype", shape=scalars)


# Softmax, its logarithm, and the cross entropies.

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
