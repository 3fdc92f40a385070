"""Quantised convolutions and products of matrices, joined with what follows them."""

from __future__ import annotations

from typing import Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import SCALAR, Dimension, TensorShape
from flowengine.ir.opdef import ShapeContext, ShapeFunction, Shapes
from flowengine.ir.traits import Newer, NotDifferentiable
from flowengine.ops.nn.convolution import windows
from flowengine.ops.quantized.convolution import WINDOWS
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import add_dims, dims_of, merge_dims, multiply_dims, ranked, windowed

_CODES: Final = "Tinput, Tfilter: quantizedtype; out_type: quantizedtype"
_PADDING: Final = "padding_list: list(int) = []"


def _convolved(has_bias: bool, new_codes: bool, depthwise: bool = False) -> ShapeFunction:
    """A convolution and the bounds of its result: numbers, or as many as there are of filters."""

    def function(c: ShapeContext) -> Shapes:
        n, *sizes, _ = dims_of(ranked(c, 0, 4), 4)
        height, width, depth, count = dims_of(ranked(c, 1, 4), 4)
        if has_bias:
            ranked(c, 2, 1)
        explicit = c.attrs.get("padding_list") or ()
        if explicit:
            if len(explicit) != 8:
                raise InvalidArgumentError(f"padding_list must have 8 numbers, but is {list(explicit)}")
            out: list[Dimension] = [
                windowed(
                    add_dims(size, explicit[2 * axis], explicit[2 * axis + 1]),
                    window,
                    c.attrs["strides"][axis],
                    b"VALID",
                    c.attrs["dilations"][axis],
                )
                for axis, size, window in zip((1, 2), sizes, (height, width), strict=True)
            ]
        else:
            out = windows(c, sizes, (height, width), b"NHWC")
        channels = multiply_dims(depth, count) if depthwise else count
        bound = SCALAR if new_codes else c.input(5 if has_bias else 4)
        return [TensorShape([n, *out, channels]), bound, bound]

    return function


define(
    "QuantizedConv2DPerChannel(input: Tinput, filter: Tfilter, min_input, max_input, min_filter, "
    "max_filter: float) -> output: out_type, min_output, max_output: float",
    f"{_CODES} = qint32; {WINDOWS}",
    NotDifferentiable(),
    shape=_convolved(False, False),
)
define(
    "QuantizedConv2DAndRelu(input: Tinput, filter: Tfilter, min_input, max_input, min_filter, "
    "max_filter: float) -> output: out_type, min_output, max_output: float",
    f"{_CODES} = qint32; {WINDOWS}; {_PADDING}",
    NotDifferentiable(),
    shape=_convolved(False, False),
)
define(
    "QuantizedConv2DAndReluAndRequantize(input: Tinput, filter: Tfilter, min_input, max_input, "
    "min_filter, max_filter, min_freezed_output, max_freezed_output: float) -> output: out_type, "
    "min_output, max_output: float",
    f"{_CODES} = quint8; {WINDOWS}; {_PADDING}",
    NotDifferentiable(),
    shape=_convolved(False, True),
)
define(
    "QuantizedConv2DAndRequantize(input: Tinput, filter: Tfilter, min_input, max_input, min_filter, "
    "max_filter, min_freezed_output, max_freezed_output: float) -> output: out_type, min_output, "
    "max_output: float",
    f"{_CODES} = qint8; {WINDOWS}; {_PADDING}",
    NotDifferentiable(),
    shape=_convolved(False, True),
)
define(
    "QuantizedConv2DWithBias, QuantizedConv2DWithBiasAndRelu(input: Tinput, filter: Tfilter, bias, "
    "min_input, max_input, min_filter, max_filter: float) -> output: out_type, min_output, max_output: "
    "float",
    f"{_CODES} = qint32; {WINDOWS}; {_PADDING}",
    NotDifferentiable(),
    shape=_convolved(True, False),
)
define(
    "QuantizedConv2DWithBiasSumAndRelu(input: Tinput, filter: Tfilter, bias, min_input, max_input, "
    "min_filter, max_filter, summand: float) -> output: out_type, min_output, max_output: float",
    f"{_CODES} = qint32; {WINDOWS}; {_PADDING}",
    NotDifferentiable(),
    shape=_convolved(True, False),
)
define(
    "QuantizedConv2DWithBiasAndReluAndRequantize(input: Tinput, filter: Tfilter, bias: Tbias, "
    "min_input, max_input, min_filter, max_filter, min_freezed_output, max_freezed_output: float) -> "
    "output: out_type, min_output, max_output: float",
    f"Tbias: {{float, qint32}}; {_CODES} = quint8; {WINDOWS}; {_PADDING}",
    NotDifferentiable(),
    shape=_convolved(True, True),
)
define(
    "QuantizedConv2DWithBiasAndRequantize(input: Tinput, filter: Tfilter, bias: Tbias, min_input, "
    "max_input, min_filter, max_filter, min_freezed_output, max_freezed_output: float) -> output: "
    "out_type, min_output, max_output: float",
    f"Tbias: {{float, qint32}}; {_CODES} = qint8; {WINDOWS}; {_PADDING}",
    NotDifferentiable(),
    shape=_convolved(True, True),
)
define(
    "QuantizedConv2DWithBiasSignedSumAndReluAndRequantize, "
    "QuantizedConv2DWithBiasSumAndReluAndRequantize(input: Tinput, filter: Tfilter, bias: Tbias, "
    "min_input, max_input, min_filter, max_filter, min_freezed_output, max_freezed_output: float, "
    "summand: Tsummand, min_summand, max_summand: float) -> output: out_type, min_output, max_output: "
    "float",
    f"Tbias: {{float, qint32}}; Tsummand: quantizedtype; {_CODES} = quint8; {WINDOWS}; {_PADDING}",
    NotDifferentiable(),
    shape=_convolved(True, True),
)
define(
    "QuantizedDepthwiseConv2D(input: Tinput, filter: Tfilter, min_input, max_input, min_filter, "
    "max_filter: float) -> output: out_type, min_output, max_output: float",
    f"{_CODES} = qint32; {WINDOWS}",
    NotDifferentiable(),
    shape=_convolved(False, False, depthwise=True),
)
define(
    "QuantizedDepthwiseConv2DWithBias(input: Tinput, filter: Tfilter, bias, min_input, max_input, "
    "min_filter, max_filter: float) -> output: out_type, min_output, max_output: float",
    f"{_CODES} = qint32; {WINDOWS}",
    NotDifferentiable(),
    shape=_convolved(True, False, depthwise=True),
)
define(
    "QuantizedDepthwiseConv2DWithBiasAndRelu(input: Tinput, filter: Tfilter, bias, min_input, "
    "max_input, min_filter, max_filter: float) -> output: out_type, min_output, max_output: float",
    f"{_CODES} = qint32; {WINDOWS}; {_PADDING}",
    Newer(("padding_list",)),
    NotDifferentiable(),
    shape=_convolved(True, False, depthwise=True),
)
define(
    "QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize(input: Tinput, filter: Tfilter, bias: Tbias, "
    "min_input, max_input, min_filter, max_filter, min_freezed_output, max_freezed_output: float) -> "
    "output: out_type, min_output, max_output: float",
    f"Tbias: {{float, qint32}}; {_CODES} = quint8; {WINDOWS}; {_PADDING}",
    Newer(("padding_list",)),
    NotDifferentiable(),
    shape=_convolved(True, True, depthwise=True),
)

# --------------------------------------------------------------------------- products of matrices

_MATRICES: Final = (
    "T1, T2: quantizedtype; transpose_a, transpose_b: bool = false; "
    "input_quant_mode: {'MIN_FIRST', 'SCALED'} = 'MIN_FIRST'"
)


def multiplied(c: ShapeContext) -> Shapes:
    """(M, K), (K, N), (N,) -> (M, N), and the two bounds of the result where it is of codes."""
    a, b = dims_of(ranked(c, 0, 2), 2), dims_of(ranked(c, 1, 2), 2)
    a, b = (a[::-1] if c.attrs["transpose_a"] else a), (b[::-1] if c.attrs["transpose_b"] else b)
    merge_dims(a[1], b[0], "The columns of a and the rows of b")
    columns = merge_dims(b[1], dims_of(ranked(c, 2, 1), 1)[0], "The columns of b and the biases")
    return [TensorShape([a[0], columns]), SCALAR, SCALAR][: c.num_outputs]


define(
    "QuantizedMatMulWithBias(a: T1, b: T2, bias: Tbias, min_a, max_a, min_b, max_b: float) -> out: "
    "Toutput, min_out, max_out: float",
    f"{_MATRICES}; Tbias: {{float, qint32}}; Toutput: quantizedtype = qint32",
    NotDifferentiable(),
    shape=multiplied,
)
define(
    "QuantizedMatMulWithBiasAndRelu(a: T1, b: T2, bias, min_a, max_a, min_b, max_b: float) -> out: "
    "Toutput, min_out, max_out: float",
    f"{_MATRICES}; Toutput: quantizedtype = qint32",
    NotDifferentiable(),
    shape=multiplied,
)
define(
    "QuantizedMatMulWithBiasAndReluAndRequantize, QuantizedMatMulWithBiasAndRequantize(a: T1, b: T2, "
    "bias: Tbias, min_a, max_a, min_b, max_b, min_freezed_output, max_freezed_output: float) -> out: "
    "Toutput, min_out, max_out: float",
    f"{_MATRICES}; Tbias: {{float, qint32}}; Toutput: quantizedtype = quint8",
    NotDifferentiable(),
    shape=multiplied,
)
define(
    "QuantizedMatMulWithBiasAndDequantize(a: T1, b: T2, bias: Tbias, min_a, max_a, min_b, max_b, "
    "min_freezed_output, max_freezed_output: float) -> out: Toutput",
    f"{_MATRICES}; Tbias: {{float, qint32}}; Toutput: {{float}}",
    NotDifferentiable(),
    shape=multiplied,
)
