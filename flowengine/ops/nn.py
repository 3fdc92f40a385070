"""Activations, losses and rankings of neural networks."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "BiasAdd",
    inputs=["value: T", "bias: T"],
    outputs=["output: T"],
    attrs=["T: numbertype", "data_format: {'NHWC', 'NCHW'} = \"NHWC\""],
)
define(
    "BiasAddGrad",
    inputs=["out_backprop: T"],
    outputs=["output: T"],
    attrs=["T: numbertype", "data_format: {'NHWC', 'NCHW'} = \"NHWC\""],
)
define("BiasAddV1", inputs=["value: T", "bias: T"], outputs=["output: T"], attrs=["T: numbertype"])
define(
    "DataFormatDimMap",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {int32, int64} = int32", 'src_format: string = "NHWC"', 'dst_format: string = "NCHW"'],
)
define(
    "DataFormatVecPermute",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {int32, int64} = int32", 'src_format: string = "NHWC"', 'dst_format: string = "NCHW"'],
)
define("Elu", inputs=["features: T"], outputs=["activations: T"], attrs=["T: floattype"])
define("EluGrad", inputs=["gradients: T", "outputs: T"], outputs=["backprops: T"], attrs=["T: floattype"])
define(
    "InTopK",
    inputs=["predictions: float", "targets: T"],
    outputs=["precision: bool"],
    attrs=["k: int", "T: {int32, int64} = int32"],
)
define(
    "InTopKV2",
    inputs=["predictions: float", "targets: T", "k: T"],
    outputs=["precision: bool"],
    attrs=["T: {int32, int64} = int32"],
)
define("L2Loss", inputs=["t: T"], outputs=["output: T"], attrs=["T: floattype"])
define(
    "LeakyRelu",
    inputs=["features: T"],
    outputs=["activations: T"],
    attrs=["alpha: float = 0.2", "T: floattype = float"],
)
define(
    "LeakyReluGrad",
    inputs=["gradients: T", "features: T"],
    outputs=["backprops: T"],
    attrs=["alpha: float = 0.2", "T: floattype = float"],
)
define("LogSoftmax", inputs=["logits: T"], outputs=["logsoftmax: T"], attrs=["T: floattype"])
define(
    "NthElement",
    inputs=["input: T", "n: int32"],
    outputs=["values: T"],
    attrs=["reverse: bool = false", "T: realnumbertype"],
)
define(
    "Relu",
    inputs=["features: T"],
    outputs=["activations: T"],
    attrs=[
        "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, qint8}"
    ],
)
define("Relu6", inputs=["features: T"], outputs=["activations: T"], attrs=["T: realnumbertype"])
define(
    "Relu6Grad", inputs=["gradients: T", "features: T"], outputs=["backprops: T"], attrs=["T: realnumbertype"]
)
define(
    "ReluGrad", inputs=["gradients: T", "features: T"], outputs=["backprops: T"], attrs=["T: realnumbertype"]
)
define("Selu", inputs=["features: T"], outputs=["activations: T"], attrs=["T: floattype"])
define("SeluGrad", inputs=["gradients: T", "outputs: T"], outputs=["backprops: T"], attrs=["T: floattype"])
define("Softmax", inputs=["logits: T"], outputs=["softmax: T"], attrs=["T: floattype"])
define(
    "SoftmaxCrossEntropyWithLogits",
    inputs=["features: T", "labels: T"],
    outputs=["loss: T", "backprop: T"],
    attrs=["T: floattype"],
)
define("Softplus", inputs=["features: T"], outputs=["activations: T"], attrs=["T: floattype"])
define(
    "SoftplusGrad", inputs=["gradients: T", "features: T"], outputs=["backprops: T"], attrs=["T: floattype"]
)
define("Softsign", inputs=["features: T"], outputs=["activations: T"], attrs=["T: floattype"])
define(
    "SoftsignGrad", inputs=["gradients: T", "features: T"], outputs=["backprops: T"], attrs=["T: floattype"]
)
define(
    "SparseSoftmaxCrossEntropyWithLogits",
    inputs=["features: T", "labels: Tlabels"],
    outputs=["loss: T", "backprop: T"],
    attrs=["T: floattype", "Tlabels: {int32, int64} = int64"],
)
define(
    "TopK",
    inputs=["input: T"],
    outputs=["values: T", "indices: int32"],
    attrs=["k: int >= 0", "sorted: bool = true", "T: realnumbertype"],
)
define(
    "TopKV2",
    inputs=["input: T", "k: int32"],
    outputs=["values: T", "indices: int32"],
    attrs=["sorted: bool = true", "T: realnumbertype"],
)
