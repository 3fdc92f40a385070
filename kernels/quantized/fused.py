"""Quantised convolutions and products of matrices, joined with biases, sums, Relu, and new codes.

What oneDNN computes for TensorFlow: codes are scaled, so that 0 stands for 0, and sums of their products are
taken as they are, in 32 bits. A code of inputs or filters is the larger end of its range by 255 (of `quint8`)
or 127 (of `qint8`). A bias that is a number is added in units of the sums, which are rounded after it. New
codes are sums by the ratio of both steps, the nearest, of two equally near ones the even one. Ranges are kept
in host memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.common.windows import Windows, windows
from flowengine.kernels.nn.convolution import conv_cost
from flowengine.kernels.quantized import codes
from flowengine.kernels.quantized.conversion import scalar
from flowengine.kernels.registry import kernel

_INT32_MIN: Final = -(1 << 31)
_INT32_MAX: Final = (1 << 31) - 1


class _FusedSteps(NamedTuple):
    """The steps that follow the sums.

    bias, relu    whether a bias is added; whether what is negative becomes 0
    summand       "" or the kind of tensor that is added before: "numbers", "codes"
    new_codes     whether sums are brought to a range that is given
    depthwise     whether channels stay apart
    """

    bias: bool = False
    relu: bool = False
    summand: str = ""
    new_codes: bool = False
    depthwise: bool = False


def _most(dtype: DType) -> Any:
    """The greatest code that stands for an end of a range."""
    return 255.0 if dtype is dtypes.quint8 else 127.0


def _reach(low: Any, high: Any) -> Any:
    """The larger end of a range, or of each of several (float64)."""
    return np.maximum(np.abs(np.asarray(low, np.float64)), np.abs(np.asarray(high, np.float64)))


def _joint_step(first: Any, second: Any) -> Any:
    """Return the step of a sum of products, from the codes' steps: float32, as all that oneDNN scales by."""
    return np.asarray(first, np.float32) * np.asarray(second, np.float32)


def _bounds(low: Any, high: Any, name: str, channels: int) -> tuple[Array, Array]:
    """Ends of a range as float32, of rank 0 or one for each channel."""
    ends = np.asarray(low, np.float32), np.asarray(high, np.float32)
    if ends[0].shape != ends[1].shape or ends[0].shape not in ((), (1,), (channels,)):
        raise InvalidArgumentError(
            f"min_{name} and max_{name} must be numbers or have one for each of {channels} channels, but "
            f"have shapes {brackets(ends[0].shape)} and {brackets(ends[1].shape)}"
        )
    return ends


def _level(low: Any, high: Any, dtype: DType) -> Any:
    """How far two codes next to each other are apart; the least code of a signed type is not used."""
    return (high - low) / np.float32(255 if dtype is dtypes.quint8 else 254)


def _rounded(xp: Any, values: Any, low: int, high: int, dtype: Any) -> Any:
    """Codes: the nearest, of two equally near ones the even one, within what there is."""
    return xp.clip(xp.rint(values), low, high).astype(dtype)


def _with_bias(xp: Any, sums: Any, bias: Array, step: Any) -> Any:
    """Sums (int32) with a bias for each channel, a number or a code of the same step; not yet whole."""
    if bias.ndim != 1 or bias.shape[0] != sums.shape[-1]:
        raise InvalidArgumentError(
            f"bias must be a vector of {sums.shape[-1]} elements, but has shape {brackets(bias.shape)}"
        )
    if bias.dtype.kind == "f":
        return sums.astype(np.float32) + bias / xp.asarray(np.asarray(step, np.float32))
    return sums.astype(np.int64) + bias


def _wrapped(xp: Any, sums: Any) -> Any:
    """Sums in 32 bits, of two equally near ones the even one; what goes beyond them is the nearest end."""
    return _rounded(xp, sums, _INT32_MIN, _INT32_MAX, np.int32)


def _requantized(xp: Any, sums: Any, step: Any, reach: Any, out: DType) -> Any:
    most = _most(out)
    factor = (step * most / float(reach)).astype(np.float32)
    return sums.astype(np.float32) * xp.asarray(factor)


def _codes(xp: Any, values: Any, out: DType) -> Any:
    return _rounded(xp, values, int(out.min), int(out.max), out.as_numpy_dtype)


# --------------------------------------------------------------------------- convolutions


def _geometry(images: Array, filters: Array, node: Node) -> Windows:
    strides, dilations = node.attrs["strides"], node.attrs["dilations"]
    for name, value in (("input", images), ("filter", filters)):
        if value.ndim != 4:
            raise InvalidArgumentError(f"{name} must be 4-dimensional: {brackets(value.shape)}")
    for name, value in (("strides", strides), ("dilations", dilations)):
        if len(value) != 4 or (value[0], value[3]) != (1, 1):
            raise InvalidArgumentError(f"{name} must be [1, rows, columns, 1], but are {list(value)}")
    if images.shape[3] != filters.shape[2]:
        raise InvalidArgumentError(
            f"input and filter must have the same depth: {images.shape[3]} vs {filters.shape[2]}"
        )
    explicit = tuple(node.attrs.get("padding_list") or ())
    if explicit and len(explicit) != 8:
        raise InvalidArgumentError(f"padding_list must have 8 numbers, but is {list(explicit)}")
    padding = b"EXPLICIT" if explicit else node.attrs["padding"]
    pairs = ((explicit[2], explicit[3]), (explicit[4], explicit[5])) if explicit else ()
    return windows(images.shape[1:3], filters.shape[:2], strides[1:3], dilations[1:3], padding, pairs)


def _sums(xp: Any, images: Array, filters: Array, geometry: Windows, depthwise: bool) -> Any:
    """Sums of products of codes (N, H', W', F), int32."""
    height, width, depth, count = filters.shape
    shape = (images.shape[0], *geometry.out, depth * count if depthwise else count)
    length = height * width * (1 if depthwise else depth)
    if 0 in shape or not length:
        return xp.zeros(shape, np.int32)
    bound = codes.largest_sum((0, 0), length)
    patches = geometry.patches(xp, geometry.pad(xp, codes.centred(images, 0, bound)))
    matrix = codes.centred(filters, 0, bound)
    if depthwise:
        # (N, H', W', C, h w) by (C, h w, M)
        rows = xp.moveaxis(patches.reshape(*shape[:3], length, depth), -1, 3)
        each = xp.moveaxis(matrix.reshape(length, depth, count), 1, 0)
        return xp.matmul(rows[..., None, :], each)[..., 0, :].reshape(shape).astype(np.int32)
    return codes.product(xp, patches.reshape(-1, length), matrix.reshape(length, -1)).reshape(shape)


def _convolution(steps: _FusedSteps) -> Callable[..., Any]:
    def convolve(xp: Any, images: Array, filters: Array, *given: Any, node: Node) -> Any:
        """Convolve (N, H, W, C) of codes; the codes of the result, and the two ends of its range."""
        rest = list(given)
        bias = rest.pop(0) if steps.bias else None
        kinds = (node.attrs["Tinput"].base, node.attrs["Tfilter"].base)
        out = node.attrs["out_type"].base
        sums = _sums(xp, images, filters, _geometry(images, filters, node), steps.depthwise)
        channels = sums.shape[-1]
        first = scalar(rest[0], "min_input"), scalar(rest[1], "max_input")
        second = _bounds(rest[2], rest[3], "filter", channels)
        step = _joint_step(_reach(*first) / _most(kinds[0]), _reach(*second) / _most(kinds[1]))
        if bias is not None:
            sums = _with_bias(xp, sums, bias, step)
        if not steps.new_codes:
            if steps.summand:
                summand = _checked_summand(rest[4], sums)
                sums = sums + _rounded(
                    xp,
                    summand.astype(np.float64) / xp.asarray(np.asarray(step)),
                    _INT32_MIN,
                    _INT32_MAX,
                    np.int64,
                )
            level = _level(*first, kinds[0]) * _level(*second, kinds[1])
            found = _wrapped(xp, xp.maximum(sums, 0) if steps.relu else sums)
            return found, level * np.float32(_INT32_MIN), level * np.float32(_INT32_MAX)
        wanted = scalar(rest[4], "min_freezed_output"), scalar(rest[5], "max_freezed_output")
        values = _requantized(xp, sums, np.asarray(step), _reach(*wanted), out)
        if steps.summand:
            kind = node.attrs["Tsummand"].base
            reach = _reach(scalar(rest[7], "min_summand"), scalar(rest[8], "max_summand"))
            factor = np.float32(reach / _most(kind) * _most(out) / _reach(*wanted))
            values = values + _checked_summand(rest[6], sums).astype(np.float32) * factor
        return _codes(xp, xp.maximum(values, 0) if steps.relu else values, out), *wanted

    return convolve


def _checked_summand(summand: Array, sums: Array) -> Array:
    if summand.shape != sums.shape:
        raise InvalidArgumentError(
            f"summand must have the shape of the result, {brackets(sums.shape)}, not "
            f"{brackets(summand.shape)}"
        )
    return summand


_CONVOLUTIONS: Final = {
    "QuantizedConv2DPerChannel": _FusedSteps(),
    "QuantizedConv2DAndRelu": _FusedSteps(relu=True),
    "QuantizedConv2DAndReluAndRequantize": _FusedSteps(relu=True, new_codes=True),
    "QuantizedConv2DAndRequantize": _FusedSteps(new_codes=True),
    "QuantizedConv2DWithBias": _FusedSteps(bias=True),
    "QuantizedConv2DWithBiasAndRelu": _FusedSteps(bias=True, relu=True),
    "QuantizedConv2DWithBiasAndReluAndRequantize": _FusedSteps(bias=True, relu=True, new_codes=True),
    "QuantizedConv2DWithBiasAndRequantize": _FusedSteps(bias=True, new_codes=True),
    "QuantizedConv2DWithBiasSumAndRelu": _FusedSteps(bias=True, relu=True, summand="numbers"),
    "QuantizedConv2DWithBiasSumAndReluAndRequantize": _FusedSteps(True, True, "codes", True),
    "QuantizedConv2DWithBiasSignedSumAndReluAndRequantize": _FusedSteps(True, True, "codes", True),
    "QuantizedDepthwiseConv2D": _FusedSteps(depthwise=True),
    "QuantizedDepthwiseConv2DWithBias": _FusedSteps(bias=True, depthwise=True),
    "QuantizedDepthwiseConv2DWithBiasAndRelu": _FusedSteps(bias=True, relu=True, depthwise=True),
    "QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize": _FusedSteps(True, True, "", True, True),
}
_CONVOLUTION_RANGES: Final = (
    *("min_input", "max_input", "min_filter", "max_filter", "min_output", "max_output"),
    *("min_freezed_output", "max_freezed_output", "min_summand", "max_summand"),
)
_BYTES: Final = ("qint8", "quint8")

for _name, _steps in _CONVOLUTIONS.items():
    kernel(
        _name,
        types={"Tinput": _BYTES, "Tfilter": ("qint8",), "out_type": ("qint32", *_BYTES)},
        host=_CONVOLUTION_RANGES,
        fresh=True,
        heavy=lambda x, filters, *rest: conv_cost(x, filters),
    )(_convolution(_steps))

# --------------------------------------------------------------------------- products of matrices


def _matrices(a: Array, b: Array, node: Node) -> tuple[Array, Array]:
    for i, matrix in enumerate((a, b)):
        if matrix.ndim != 2:
            raise InvalidArgumentError(f"In[{i}] is not a matrix: {brackets(matrix.shape)}")
    left = a.T if node.attrs["transpose_a"] else a
    right = b.T if node.attrs["transpose_b"] else b
    if left.shape[1] != right.shape[0]:
        raise InvalidArgumentError(
            f"Matrix size-incompatible: In[0]: {brackets(a.shape)}, In[1]: {brackets(b.shape)}"
        )
    return left, right


def _biased(xp: Any, sums: Any, bias: Array, right: Array, offset: Any, step: Any) -> Any:
    """Sums and biases; with numbers for biases, what the codes' first number adds to each column as well."""
    if bias.dtype.kind == "f" and offset:
        columns = right.astype(np.float64).sum(0) * float(offset)
        bias = bias.astype(np.float64) + columns * float(step)
    return _with_bias(xp, sums, bias, step)


def _product(relu: bool, new_codes: bool) -> Callable[..., Any]:
    def multiply(xp: Any, a: Array, b: Array, bias: Array, *ranges: Any, node: Node) -> Any:
        """Matrices of codes multiplied, a bias for each column; the result and the two ends of its range.

        With `input_quant_mode` MIN_FIRST the least code of `a` stands for the lower end of its range.
        """
        names = ("min_a", "max_a", "min_b", "max_b", "min_freezed_output", "max_freezed_output")
        ends: Sequence[Any] = [scalar(value, name) for value, name in zip(ranges, names, strict=False)]
        left, right = _matrices(a, b, node)
        bound = codes.largest_sum((0, 0), left.shape[1])
        sums = codes.product(xp, codes.centred(left, 0, bound), codes.centred(right, 0, bound))
        kinds, out = (node.attrs["T1"].base, node.attrs["T2"].base), node.attrs["Toutput"].base
        by_first = node.attrs["input_quant_mode"] == b"MIN_FIRST"
        width = float(ends[1]) - float(ends[0])
        step_a = (
            width / (255 if kinds[0] is dtypes.quint8 else 254)
            if by_first
            else _reach(*ends[:2]) / _most(kinds[0])
        )
        step = _joint_step(step_a, _reach(*ends[2:4]) / _most(kinds[1]))
        sums = _biased(xp, sums, bias, right, ends[0] / step_a if by_first else 0, step)
        sums = xp.maximum(sums, 0) if relu else sums
        if out is dtypes.float32:
            return sums.astype(np.float32) * np.float32(step)
        if new_codes:
            return _codes(xp, _requantized(xp, sums, step, _reach(*ends[4:]), out), out), *ends[4:]
        level = _level(ends[0], ends[1], kinds[0]) * _level(ends[2], ends[3], kinds[1])
        return _wrapped(xp, sums), level * np.float32(_INT32_MIN), level * np.float32(_INT32_MAX)

    return multiply


_PRODUCTS: Final = {
    "QuantizedMatMulWithBias": (False, False),
    "QuantizedMatMulWithBiasAndRelu": (True, False),
    "QuantizedMatMulWithBiasAndReluAndRequantize": (True, True),
    "QuantizedMatMulWithBiasAndRequantize": (False, True),
    "QuantizedMatMulWithBiasAndDequantize": (False, False),
}
_PRODUCT_RANGES: Final = (
    *("min_a", "max_a", "min_b", "max_b", "min_out", "max_out"),
    *("min_freezed_output", "max_freezed_output"),
)

for _name, (_relu, _new_codes) in _PRODUCTS.items():
    kernel(
        _name,
        types={"T1": _BYTES, "T2": ("qint8",), "Toutput": ("qint32", *_BYTES, "float32")},
        host=_PRODUCT_RANGES,
        fresh=True,
        heavy=lambda a, b, *rest: a.size * (b.shape[-1] if b.ndim else 1) / 20_000.0,
    )(_product(_relu, _new_codes))
