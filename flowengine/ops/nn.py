"""Activations, losses and rankings of neural networks."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, Dimension, TensorShape, broadcast_shapes
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    MATRIX,
    VECTOR,
    at_least,
    dimension_value,
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

define(
    "Relu",
    inputs=["features: T"],
    outputs=["activations: T"],
    attrs=[
        "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, qint8}"
    ],
    shape=unchanged,
)
define(
    "Relu6", inputs=["features: T"], outputs=["activations: T"], attrs=["T: realnumbertype"], shape=unchanged
)
define("Elu", inputs=["features: T"], outputs=["activations: T"], attrs=["T: floattype"], shape=unchanged)
define("Selu", inputs=["features: T"], outputs=["activations: T"], attrs=["T: floattype"], shape=unchanged)
define(
    "LeakyRelu",
    inputs=["features: T"],
    outputs=["activations: T"],
    attrs=["alpha: float = 0.2", "T: floattype = float"],
    shape=unchanged,
)
define(
    "Softplus", inputs=["features: T"], outputs=["activations: T"], attrs=["T: floattype"], shape=unchanged
)
define(
    "Softsign", inputs=["features: T"], outputs=["activations: T"], attrs=["T: floattype"], shape=unchanged
)
define(
    "ReluGrad",
    inputs=["gradients: T", "features: T"],
    outputs=["backprops: T"],
    attrs=["T: realnumbertype"],
    shape=merged,
)
define(
    "Relu6Grad",
    inputs=["gradients: T", "features: T"],
    outputs=["backprops: T"],
    attrs=["T: realnumbertype"],
    shape=merged,
)
define(
    "EluGrad",
    inputs=["gradients: T", "outputs: T"],
    outputs=["backprops: T"],
    attrs=["T: floattype"],
    shape=merged,
)
define(
    "SeluGrad",
    inputs=["gradients: T", "outputs: T"],
    outputs=["backprops: T"],
    attrs=["T: floattype"],
    shape=merged,
)
define(
    "LeakyReluGrad",
    inputs=["gradients: T", "features: T"],
    outputs=["backprops: T"],
    attrs=["alpha: float = 0.2", "T: floattype = float"],
    shape=merged,
)
define(
    "SoftplusGrad",
    inputs=["gradients: T", "features: T"],
    outputs=["backprops: T"],
    attrs=["T: floattype"],
    shape=merged,
)
define(
    "SoftsignGrad",
    inputs=["gradients: T", "features: T"],
    outputs=["backprops: T"],
    attrs=["T: floattype"],
    shape=merged,
)
define("Softmax", inputs=["logits: T"], outputs=["softmax: T"], attrs=["T: floattype"], shape=at_least(1))
define(
    "LogSoftmax", inputs=["logits: T"], outputs=["logsoftmax: T"], attrs=["T: floattype"], shape=at_least(1)
)


def softmax_cross_entropy(c: ShapeContext) -> Sequence[TensorShape]:
    """logits, labels (batch, classes), broadcast -> loss (batch), gradient (batch, classes)"""
    known = [s if s.dims is not None else MATRIX for s in (c.input(0), c.input(1))]
    shape = broadcast_shapes(*known).with_rank(2)
    return [vector(shape[0]), shape]


define(
    "SoftmaxCrossEntropyWithLogits",
    inputs=["features: T", "labels: T"],
    outputs=["loss: T", "backprop: T"],
    attrs=["T: floattype"],
    shape=softmax_cross_entropy,
)


def sparse_softmax_cross_entropy(c: ShapeContext) -> Sequence[TensorShape]:
    """logits (batch, classes), labels (batch) -> loss (batch), gradient (batch, classes)"""
    batch, classes = dims_of(ranked(c, 0, 2), 2)
    batch = merge_dims(batch, ranked(c, 1, 1)[0], "The rows of the logits and the number of labels")
    return [vector(batch), TensorShape([batch, classes])]


define(
    "SparseSoftmaxCrossEntropyWithLogits",
    inputs=["features: T", "labels: Tlabels"],
    outputs=["loss: T", "backprop: T"],
    attrs=["T: floattype", "Tlabels: {int32, int64} = int64"],
    shape=sparse_softmax_cross_entropy,
)


def bias_add(c: ShapeContext) -> Sequence[TensorShape]:
    """(..., C), (C) -> (..., C); with NCHW the channels are axis 1"""
    shape, bias = ranked_at_least(c, 0, 2), ranked(c, 1, 1)
    if shape.dims is None:
        return [UNKNOWN_SHAPE]
    axis = 1 if c.attrs["data_format"] == b"NCHW" else len(shape.dims) - 1
    channels = merge_dims(shape.dims[axis], bias[0], "The channels and the length of the bias")
    return [replace_dim(shape, axis, channels)]


define(
    "BiasAdd",
    inputs=["value: T", "bias: T"],
    outputs=["output: T"],
    attrs=["T: numbertype", "data_format: {'NHWC', 'NCHW'} = \"NHWC\""],
    shape=bias_add,
)


def bias_add_v1(c: ShapeContext) -> Sequence[TensorShape]:
    shape, bias = ranked_at_least(c, 0, 2), ranked(c, 1, 1)
    if shape.dims is None:
        return [UNKNOWN_SHAPE]
    return [replace_dim(shape, -1, merge_dims(shape.dims[-1], bias[0], "The channels and the bias"))]


define(
    "BiasAddV1",
    inputs=["value: T", "bias: T"],
    outputs=["output: T"],
    attrs=["T: numbertype"],
    shape=bias_add_v1,
)


def bias_add_grad(c: ShapeContext) -> Sequence[TensorShape]:
    shape = ranked_at_least(c, 0, 3 if c.attrs["data_format"] == b"NCHW" else 2)
    if shape.dims is None:
        return [VECTOR]
    return [vector(shape.dims[1 if c.attrs["data_format"] == b"NCHW" else -1])]


define(
    "BiasAddGrad",
    inputs=["out_backprop: T"],
    outputs=["output: T"],
    attrs=["T: numbertype", "data_format: {'NHWC', 'NCHW'} = \"NHWC\""],
    shape=bias_add_grad,
)
define("L2Loss", inputs=["t: T"], outputs=["output: T"], attrs=["T: floattype"], shape=scalars)
define(
    "DataFormatDimMap",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {int32, int64} = int32", 'src_format: string = "NHWC"', 'dst_format: string = "NCHW"'],
    shape=unchanged,
)
define(
    "DataFormatVecPermute",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {int32, int64} = int32", 'src_format: string = "NHWC"', 'dst_format: string = "NCHW"'],
    shape=unchanged,
)


def in_top_k(c: ShapeContext) -> Sequence[TensorShape]:
    """predictions (batch, classes), targets (batch) -> (batch)"""
    batch = merge_dims(ranked(c, 0, 2)[0], ranked(c, 1, 1)[0], "The rows and the number of targets")
    return [vector(batch)]


define(
    "InTopK",
    inputs=["predictions: float", "targets: T"],
    outputs=["precision: bool"],
    attrs=["k: int", "T: {int32, int64} = int32"],
    shape=in_top_k,
)
define(
    "InTopKV2",
    inputs=["predictions: float", "targets: T", "k: T"],
    outputs=["precision: bool"],
    attrs=["T: {int32, int64} = int32"],
    shape=in_top_k,
)


def top_k_attr(c: ShapeContext) -> Sequence[TensorShape]:
    return _top(ranked_at_least(c, 0, 1), c.attrs["k"])


def _top(shape: TensorShape, count: Dimension) -> Sequence[TensorShape]:
    """(..., n) -> values and indices (..., k)"""
    if shape.dims is None:
        return [UNKNOWN_SHAPE, UNKNOWN_SHAPE]
    last = shape.dims[-1]
    if last is not None and count is not None and last < count:
        raise InvalidArgumentError(f"input must have last dimension >= k = {count} but is {last}")
    return [replace_dim(shape, -1, count)] * 2


define(
    "TopK",
    inputs=["input: T"],
    outputs=["values: T", "indices: int32"],
    attrs=["k: int >= 0", "sorted: bool = true", "T: realnumbertype"],
    shape=top_k_attr,
)


def top_k(c: ShapeContext) -> Sequence[TensorShape]:
    return _top(ranked_at_least(c, 0, 1), dimension_value(c, 1))


define(
    "TopKV2",
    inputs=["input: T", "k: int32"],
    outputs=["values: T", "indices: int32"],
    attrs=["sorted: bool = true", "T: realnumbertype"],
    shape=top_k,
)


def nth_element(c: ShapeContext) -> Sequence[TensorShape]:
    """(..., n) -> (...)"""
    shape = ranked_at_least(c, 0, 1)
    position = dimension_value(c, 1)
    if shape.dims is None:
        return [UNKNOWN_SHAPE]
    last = shape.dims[-1]
    if last is not None and position is not None and last <= position:
        raise InvalidArgumentError(f"input must have last dimension > n = {position} but is {last}")
    return [TensorShape(shape.dims[:-1])]


define(
    "NthElement",
    inputs=["input: T", "n: int32"],
    outputs=["values: T"],
    attrs=["reverse: bool = false", "T: realnumbertype"],
    shape=nth_element,
)
