"""Quantised convolutions, fused with what follows them."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.shapes import SCALAR, TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.nn_conv import windows
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import dims_of, ranked


def quantized_conv(c: ShapeContext) -> Sequence[TensorShape]:
    """A convolution and the two bounds of its result."""
    n, h, w, _ = dims_of(ranked(c, 0, 4), 4)
    window = dims_of(ranked(c, 1, 4), 4)
    sizes = windows(c, [h, w], window[:2], b"NHWC")
    return [TensorShape([n, *sizes, window[3]]), SCALAR, SCALAR]


define(
    "QuantizedConv2D",
    inputs=[
        "input: Tinput",
        "filter: Tfilter",
        "min_input: float",
        "max_input: float",
        "min_filter: float",
        "max_filter: float",
    ],
    outputs=["output: out_type", "min_output: float", "max_output: float"],
    attrs=[
        "Tinput: quantizedtype",
        "Tfilter: quantizedtype",
        "out_type: quantizedtype = qint32",
        "strides: list(int)",
        "padding: {'SAME', 'VALID'}",
        "dilations: list(int) = [1, 1, 1, 1]",
    ],
    shape=quantized_conv,
)
define(
    "QuantizedConv2DAndRelu",
    inputs=[
        "input: Tinput",
        "filter: Tfilter",
        "min_input: float",
        "max_input: float",
        "min_filter: float",
        "max_filter: float",
    ],
    outputs=["output: out_type", "min_output: float", "max_output: float"],
    attrs=[
        "Tinput: quantizedtype",
        "Tfilter: quantizedtype",
        "out_type: quantizedtype = qint32",
        "strides: list(int)",
        "padding: {'SAME', 'VALID'}",
        "dilations: list(int) = [1, 1, 1, 1]",
        "padding_list: list(int) = []",
    ],
)
define(
    "QuantizedConv2DAndReluAndRequantize",
    inputs=[
        "input: Tinput",
        "filter: Tfilter",
        "min_input: float",
        "max_input: float",
        "min_filter: float",
        "max_filter: float",
        "min_freezed_output: float",
        "max_freezed_output: float",
    ],
    outputs=["output: out_type", "min_output: float", "max_output: float"],
    attrs=[
        "Tinput: quantizedtype",
        "Tfilter: quantizedtype",
        "out_type: quantizedtype = quint8",
        "strides: list(int)",
        "padding: {'SAME', 'VALID'}",
        "dilations: list(int) = [1, 1, 1, 1]",
        "padding_list: list(int) = []",
    ],
)
define(
    "QuantizedConv2DAndRequantize",
    inputs=[
        "input: Tinput",
        "filter: Tfilter",
        "min_input: float",
        "max_input: float",
        "min_filter: float",
        "max_filter: float",
        "min_freezed_output: float",
        "max_freezed_output: float",
    ],
    outputs=["output: out_type", "min_output: float", "max_output: float"],
    attrs=[
        "Tinput: quantizedtype",
        "Tfilter: quantizedtype",
        "out_type: quantizedtype = qint8",
        "strides: list(int)",
        "padding: {'SAME', 'VALID'}",
        "dilations: list(int) = [1, 1, 1, 1]",
        "padding_list: list(int) = []",
    ],
)
define(
    "QuantizedConv2DPerChannel",
    inputs=[
        "input: Tinput",
        "filter: Tfilter",
        "min_input: float",
        "max_input: float",
        "min_filter: float",
        "max_filter: float",
    ],
    outputs=["output: out_type", "min_output: float", "max_output: float"],
    attrs=[
        "Tinput: quantizedtype",
        "Tfilter: quantizedtype",
        "out_type: quantizedtype = qint32",
        "strides: list(int)",
        "padding: {'SAME', 'VALID'}",
        "dilations: list(int) = [1, 1, 1, 1]",
    ],
)
define(
    "QuantizedConv2DWithBias",
    inputs=[
        "input: Tinput",
        "filter: Tfilter",
        "bias: float",
        "min_input: float",
        "max_input: float",
        "min_filter: float",
        "max_filter: float",
    ],
    outputs=["output: out_type", "min_output: float", "max_output: float"],
    attrs=[
        "Tinput: quantizedtype",
        "Tfilter: quantizedtype",
        "out_type: quantizedtype = qint32",
        "strides: list(int)",
        "padding: {'SAME', 'VALID'}",
        "dilations: list(int) = [1, 1, 1, 1]",
        "padding_list: list(int) = []",
    ],
)
define(
    "QuantizedConv2DWithBiasAndRelu",
    inputs=[
        "input: Tinput",
        "filter: Tfilter",
        "bias: float",
        "min_input: float",
        "max_input: float",
        "min_filter: float",
        "max_filter: float",
    ],
    outputs=["output: out_type", "min_output: float", "max_output: float"],
    attrs=[
        "Tinput: quantizedtype",
        "Tfilter: quantizedtype",
        "out_type: quantizedtype = qint32",
        "strides: list(int)",
        "padding: {'SAME', 'VALID'}",
        "dilations: list(int) = [1, 1, 1, 1]",
        "padding_list: list(int) = []",
    ],
)
define(
    "QuantizedConv2DWithBiasAndReluAndRequantize",
    inputs=[
        "input: Tinput",
        "filter: Tfilter",
        "bias: Tbias",
        "min_input: float",
        "max_input: float",
        "min_filter: float",
        "max_filter: float",
        "min_freezed_output: float",
        "max_freezed_output: float",
    ],
    outputs=["output: out_type", "min_output: float", "max_output: float"],
    attrs=[
        "Tinput: quantizedtype",
        "Tfilter: quantizedtype",
        "Tbias: {float, qint32}",
        "out_type: quantizedtype = quint8",
        "strides: list(int)",
        "padding: {'SAME', 'VALID'}",
        "dilations: list(int) = [1, 1, 1, 1]",
        "padding_list: list(int) = []",
    ],
)
define(
    "QuantizedConv2DWithBiasAndRequantize",
    inputs=[
        "input: Tinput",
        "filter: Tfilter",
        "bias: Tbias",
        "min_input: float",
        "max_input: float",
        "min_filter: float",
        "max_filter: float",
        "min_freezed_output: float",
        "max_freezed_output: float",
    ],
    outputs=["output: out_type", "min_output: float", "max_output: float"],
    attrs=[
        "Tinput: quantizedtype",
        "Tfilter: quantizedtype",
        "Tbias: {float, qint32}",
        "out_type: quantizedtype = qint8",
        "strides: list(int)",
        "padding: {'SAME', 'VALID'}",
        "dilations: list(int) = [1, 1, 1, 1]",
        "padding_list: list(int) = []",
    ],
)
define(
    "QuantizedConv2DWithBiasSignedSumAndReluAndRequantize",
    inputs=[
        "input: Tinput",
        "filter: Tfilter",
        "bias: Tbias",
        "min_input: float",
        "max_input: float",
        "min_filter: float",
        "max_filter: float",
        "min_freezed_output: float",
        "max_freezed_output: float",
        "summand: Tsummand",
        "min_summand: float",
        "max_summand: float",
    ],
    outputs=["output: out_type", "min_output: float", "max_output: float"],
    attrs=[
        "Tinput: quantizedtype",
        "Tfilter: quantizedtype",
        "Tbias: {float, qint32}",
        "Tsummand: quantizedtype",
        "out_type: quantizedtype = quint8",
        "strides: list(int)",
        "padding: {'SAME', 'VALID'}",
        "dilations: list(int) = [1, 1, 1, 1]",
        "padding_list: list(int) = []",
    ],
)
define(
    "QuantizedConv2DWithBiasSumAndRelu",
    inputs=[
        "input: Tinput",
        "filter: Tfilter",
        "bias: float",
        "min_input: float",
        "max_input: float",
        "min_filter: float",
        "max_filter: float",
        "summand: float",
    ],
    outputs=["output: out_type", "min_output: float", "max_output: float"],
    attrs=[
        "Tinput: quantizedtype",
        "Tfilter: quantizedtype",
        "out_type: quantizedtype = qint32",
        "strides: list(int)",
        "padding: {'SAME', 'VALID'}",
        "dilations: list(int) = [1, 1, 1, 1]",
        "padding_list: list(int) = []",
    ],
)
define(
    "QuantizedConv2DWithBiasSumAndReluAndRequantize",
    inputs=[
        "input: Tinput",
        "filter: Tfilter",
        "bias: Tbias",
        "min_input: float",
        "max_input: float",
        "min_filter: float",
        "max_filter: float",
        "min_freezed_output: float",
        "max_freezed_output: float",
        "summand: Tsummand",
        "min_summand: float",
        "max_summand: float",
    ],
    outputs=["output: out_type", "min_output: float", "max_output: float"],
    attrs=[
        "Tinput: quantizedtype",
        "Tfilter: quantizedtype",
        "Tbias: {float, qint32}",
        "Tsummand: quantizedtype",
        "out_type: quantizedtype = quint8",
        "strides: list(int)",
        "padding: {'SAME', 'VALID'}",
        "dilations: list(int) = [1, 1, 1, 1]",
        "padding_list: list(int) = []",
    ],
)
define(
    "QuantizedDepthwiseConv2D",
    inputs=[
        "input: Tinput",
        "filter: Tfilter",
        "min_input: float",
        "max_input: float",
        "min_filter: float",
        "max_filter: float",
    ],
    outputs=["output: out_type", "min_output: float", "max_output: float"],
    attrs=[
        "Tinput: quantizedtype",
        "Tfilter: quantizedtype",
        "out_type: quantizedtype = qint32",
        "strides: list(int)",
        "padding: {'SAME', 'VALID'}",
        "dilations: list(int) = [1, 1, 1, 1]",
    ],
)
define(
    "QuantizedDepthwiseConv2DWithBias",
    inputs=[
        "input: Tinput",
        "filter: Tfilter",
        "bias: float",
        "min_input: float",
        "max_input: float",
        "min_filter: float",
        "max_filter: float",
    ],
    outputs=["output: out_type", "min_output: float", "max_output: float"],
    attrs=[
        "Tinput: quantizedtype",
        "Tfilter: quantizedtype",
        "out_type: quantizedtype = qint32",
        "strides: list(int)",
        "padding: {'SAME', 'VALID'}",
        "dilations: list(int) = [1, 1, 1, 1]",
    ],
)
define(
    "QuantizedDepthwiseConv2DWithBiasAndRelu",
    inputs=[
        "input: Tinput",
        "filter: Tfilter",
        "bias: float",
        "min_input: float",
        "max_input: float",
        "min_filter: float",
        "max_filter: float",
    ],
    outputs=["output: out_type", "min_output: float", "max_output: float"],
    attrs=[
        "Tinput: quantizedtype",
        "Tfilter: quantizedtype",
        "out_type: quantizedtype = qint32",
        "strides: list(int)",
        "padding: {'SAME', 'VALID'}",
        "dilations: list(int) = [1, 1, 1, 1]",
    ],
)
define(
    "QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize",
    inputs=[
        "input: Tinput",
        "filter: Tfilter",
        "bias: Tbias",
        "min_input: float",
        "max_input: float",
        "min_filter: float",
        "max_filter: float",
        "min_freezed_output: float",
        "max_freezed_output: float",
    ],
    outputs=["output: out_type", "min_output: float", "max_output: float"],
    attrs=[
        "Tinput: quantizedtype",
        "Tfilter: quantizedtype",
        "Tbias: {float, qint32}",
        "out_type: quantizedtype = quint8",
        "strides: list(int)",
        "padding: {'SAME', 'VALID'}",
        "dilations: list(int) = [1, 1, 1, 1]",
    ],
)
