"""Quantised convolutions and products of matrices, joined with what follows them.

The reference multiplies the numbers that codes stand for, one window after another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample

_RANDOM: Final = np.random.default_rng(26)
_IMAGES: Final = _RANDOM.integers(0, 256, (2, 5, 4, 3))
_SIGNED: Final = _RANDOM.integers(-127, 128, (2, 5, 4, 3))
_FILTERS: Final = _RANDOM.integers(-127, 128, (3, 2, 3, 4))
_DEEP: Final = _RANDOM.integers(-127, 128, (3, 2, 3, 2))
_ENDS: Final = (0.0, 2.0)
_FILTER_ENDS: Final = (-1.5, 1.5)
#: No half of a code is among them: which way it goes depends on the order of a sum.
_BIAS: Final = [0.31, -1.25, 3.0, 0.0]
_BIAS_DEEP: Final = [0.31, -1.25, 3.0, 0.0, -0.61, 7.0]
_CODES: Final = [700, -300, 12, 0]
_NEW: Final = (-20.0, 40.0)


def _padded(x: Any, window: Any, strides: Any, padding: bytes, explicit: Any) -> Any:
    if explicit:
        around = [(explicit[2], explicit[3]), (explicit[4], explicit[5])]
    elif padding == b"SAME":
        around = []
        for size, reach, stride in zip(x.shape[1:3], window, strides[1:3], strict=True):
            missing = max((-(-size // stride) - 1) * stride + reach - size, 0)
            around.append((missing // 2, missing - missing // 2))
    else:
        around = [(0, 0), (0, 0)]
    return np.pad(x, [(0, 0), *around, (0, 0)])


def _windows(x: Any, filters: Any, strides: Any, padding: bytes, explicit: Any, deep: bool) -> Any:
    """Sums of products (int64), one place after another."""
    height, width, depth, count = filters.shape
    x = _padded(x.astype(np.int64), (height, width), strides, padding, explicit)
    rows = (x.shape[1] - height) // strides[1] + 1
    columns = (x.shape[2] - width) // strides[2] + 1
    out = np.zeros((len(x), rows, columns, depth * count if deep else count), np.int64)
    for i, j in np.ndindex(rows, columns):
        seen = x[:, i * strides[1] :, j * strides[2] :][:, :height, :width]
        products = seen[..., None] * filters.astype(np.int64)
        out[:, i, j] = products.sum((1, 2)).reshape(len(x), -1) if deep else products.sum((1, 2, 3))
    return out


def _level(low: Any, high: Any, signed: bool) -> Any:
    return np.maximum(np.abs(low), np.abs(high)) / (127 if signed else 255)


def _step(first: Any, second: Any) -> Any:
    return np.asarray(first, np.float32) * np.asarray(second, np.float32)


def _with_bias(sums: Any, bias: Any, step: Any) -> Any:
    """In float32, not yet rounded: as oneDNN adds it."""
    return sums.astype(np.float32) + np.asarray(bias, np.float32) / step


def _convolved(name: str) -> Callable[..., Any]:
    deep = "Depthwise" in name

    def reference(
        images: Any,
        filters: Any,
        *given: Any,
        strides: Any,
        padding: bytes,
        padding_list: Any = (),
        Tinput: Any,
        out_type: Any,
        Tsummand: Any = None,
    ) -> Any:
        rest = [np.asarray(value, np.float64) for value in given]
        bias = rest.pop(0) if "WithBias" in name else None
        kind = given[0].dtype.kind if bias is not None else ""
        low, high, least, most = rest[:4]
        step = _step(_level(low, high, Tinput.name == "qint8"), _level(least, most, True))
        sums = _windows(images, filters, strides, padding, padding_list, deep)
        if bias is not None:
            sums = _with_bias(sums, bias, step) if kind == "f" else sums + bias
        if "Requantize" not in name:
            if "Sum" in name:
                sums = sums + np.rint(rest[4] / step)
            sums = np.maximum(sums, 0) if "Relu" in name else sums
            unit = (high - low) / (254 if Tinput.name == "qint8" else 255) * (most - least) / 254
            return np.rint(sums), unit * -(2.0**31), unit * (2.0**31 - 1)
        signed = out_type.name == "qint8"
        wanted = _level(rest[4], rest[5], signed)
        values = sums * step / wanted
        if "Sum" in name:
            values = values + rest[6] * _level(rest[7], rest[8], Tsummand.name == "qint8") / wanted
        values = np.maximum(values, 0) if "Relu" in name else values
        ends = (-128, 127) if signed else (0, 255)
        return np.clip(np.rint(values), *ends), rest[4], rest[5]

    def plain(
        images: Any, filters: Any, *given: Any, strides: Any, padding: bytes, Tinput: Any, out_type: Any
    ) -> Any:
        return reference(
            images, filters, *given, strides=strides, padding=padding, Tinput=Tinput, out_type=out_type
        )

    def listed(
        images: Any,
        filters: Any,
        *given: Any,
        strides: Any,
        padding: bytes,
        padding_list: Any,
        Tinput: Any,
        out_type: Any,
    ) -> Any:
        return reference(
            images,
            filters,
            *given,
            strides=strides,
            padding=padding,
            padding_list=padding_list,
            Tinput=Tinput,
            out_type=out_type,
        )

    def summed(
        images: Any,
        filters: Any,
        *given: Any,
        strides: Any,
        padding: bytes,
        padding_list: Any,
        Tinput: Any,
        out_type: Any,
        Tsummand: Any,
    ) -> Any:
        return reference(
            images,
            filters,
            *given,
            strides=strides,
            padding=padding,
            padding_list=padding_list,
            Tinput=Tinput,
            out_type=out_type,
            Tsummand=Tsummand,
        )

    if "SumAndReluAndRequantize" in name:
        return summed
    return plain if name in _WITHOUT_LIST else listed


_WITHOUT_LIST: Final = {
    "QuantizedConv2DPerChannel",
    "QuantizedDepthwiseConv2D",
    "QuantizedDepthwiseConv2DWithBias",
}


def _types(name: str, out: str, bias: str = "float32", signed: bool = False) -> dict[str, str]:
    types = {"Tinput": "qint8" if signed else "quint8", "Tfilter": "qint8", "out_type": out}
    if "WithBias" in name and "Requantize" in name:
        types["Tbias"] = bias
    if "SumAndReluAndRequantize" in name:
        types["Tsummand"] = "qint8" if "Signed" in name else "quint8"
    return types


def _conv_samples(name: str, out: str) -> list[Any]:
    deep = "Depthwise" in name
    filters = _DEEP if deep else _FILTERS
    bias = _BIAS_DEEP if deep else _BIAS
    channels = len(bias)
    per_channel = (-np.linspace(1, 2, channels), np.linspace(1.5, 1.75, channels))
    found = []
    ways: list[tuple[Any, dict[str, Any], bool]] = [
        (_FILTER_ENDS, {"strides": [1, 1, 1, 1], "padding": "SAME"}, False),
        (per_channel, {"strides": [1, 2, 1, 1], "padding": "VALID"}, False),
        (_FILTER_ENDS, {"strides": [1, 2, 2, 1], "padding": "SAME"}, True),
        (
            _FILTER_ENDS,
            {"strides": [1, 1, 1, 1], "padding": "VALID", "padding_list": [0, 0, 1, 0, 2, 1, 0, 0]},
            False,
        ),
    ]
    for ends, way, signed in ways:
        if "padding_list" in way and name in _WITHOUT_LIST:
            continue
        images = _SIGNED if signed else _IMAGES
        shape = _windows(
            images,
            filters,
            way["strides"],
            way["padding"].encode(),
            way.get("padding_list"),
            deep,
        ).shape
        given: list[Any] = [images, filters]
        codes = signed and "WithBias" in name and "Requantize" in name and not deep
        if "WithBias" in name:
            given.append(_CODES if codes else bias)
        given += [-2.0 if signed else 0.0, 2.0, *ends]
        if "Requantize" in name:
            given += _NEW
        if "Sum" in name:
            summand = np.arange(float(np.prod(shape))).reshape(shape) % 200 - 60
            given.append(summand if out == "qint32" or "Signed" in name else np.abs(summand))
            given += [-30.0 if "Signed" in name else 0.0, 50.0] if "Requantize" in name else []
        types = _types(name, out, "qint32" if codes else "float32", signed)
        found.append(sample(*given, **way, **types))
    return found


def _conv_record(name: str, out: str) -> OpRecord:
    samples = _conv_samples(name, out)
    first = samples[0]
    images, *rest = first.inputs
    return OpRecord(
        name,
        samples,
        _convolved(name),
        [
            bad("InvalidArgumentError", "", images[0], *rest, **first.attrs),
            bad("InvalidArgumentError", "same depth: 2 vs 3", images[..., :2], *rest, **first.attrs),
        ],
        only=[_types(name, out)],
    )


_CONVOLUTIONS: Final = {
    "QuantizedConv2DPerChannel": "qint32",
    "QuantizedConv2DAndRelu": "qint32",
    "QuantizedConv2DAndReluAndRequantize": "quint8",
    "QuantizedConv2DAndRequantize": "qint8",
    "QuantizedConv2DWithBias": "qint32",
    "QuantizedConv2DWithBiasAndRelu": "qint32",
    "QuantizedConv2DWithBiasAndReluAndRequantize": "quint8",
    "QuantizedConv2DWithBiasAndRequantize": "qint8",
    "QuantizedConv2DWithBiasSumAndRelu": "qint32",
    "QuantizedConv2DWithBiasSumAndReluAndRequantize": "quint8",
    "QuantizedConv2DWithBiasSignedSumAndReluAndRequantize": "quint8",
    "QuantizedDepthwiseConv2D": "qint32",
    "QuantizedDepthwiseConv2DWithBias": "qint32",
    "QuantizedDepthwiseConv2DWithBiasAndRelu": "qint32",
    "QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize": "quint8",
}

# --------------------------------------------------------------------------- products of matrices

_LEFT: Final = _RANDOM.integers(0, 256, (3, 5))
_RIGHT: Final = _RANDOM.integers(-127, 128, (5, 4))


def _multiplied(name: str) -> Callable[..., Any]:
    def reference(
        a: Any,
        b: Any,
        bias: Any,
        *ranges: Any,
        transpose_a: bool,
        transpose_b: bool,
        input_quant_mode: bytes,
        Toutput: Any,
    ) -> Any:
        ends: Sequence[float] = [float(value) for value in ranges]
        left, right = (a.T if transpose_a else a), (b.T if transpose_b else b)
        by_first = input_quant_mode == b"MIN_FIRST"
        unit = (ends[1] - ends[0]) / 255 if by_first else _level(ends[0], ends[1], False)
        step = _step(unit, _level(ends[2], ends[3], True))
        sums = left.astype(np.int64) @ right.astype(np.int64)
        if bias.dtype.kind == "f":
            offset = ends[0] / unit * right.astype(np.int64).sum(0) if by_first else 0
            sums = _with_bias(sums, bias + offset * step, step)
        else:
            sums = sums + bias.astype(np.int64)
        sums = np.maximum(sums, 0) if "Relu" in name else sums
        if "Dequantize" in name:
            return sums * step
        if "Requantize" not in name:
            level = (ends[1] - ends[0]) / 255 * (ends[3] - ends[2]) / 254
            return np.rint(sums), level * -(2.0**31), level * (2.0**31 - 1)
        signed = Toutput.name == "qint8"
        found = np.rint(sums * step / _level(ends[4], ends[5], signed))
        return np.clip(found, *((-128, 127) if signed else (0, 255))), ends[4], ends[5]

    return reference


def _product_record(name: str, out: str) -> OpRecord:
    new = _NEW if "quantize" in name.split("Bias")[1] else ()
    has_kinds = name != "QuantizedMatMulWithBiasAndRelu"
    types = {"T1": "quint8", "T2": "qint8", "Toutput": out, **({"Tbias": "float32"} if has_kinds else {})}
    samples = [
        sample(_LEFT, _RIGHT, _BIAS, -1.0, 2.0, *_FILTER_ENDS, *new, **types),
        sample(_LEFT, _RIGHT, _BIAS, 0.0, 2.0, *_FILTER_ENDS, *new, **types, input_quant_mode="SCALED"),
        sample(
            _LEFT.T,
            _RIGHT.T,
            _BIAS,
            0.0,
            2.0,
            *_FILTER_ENDS,
            *new,
            **types,
            transpose_a=True,
            transpose_b=True,
        ),
    ]
    if has_kinds:
        codes = {**types, "Tbias": "qint32", "input_quant_mode": "SCALED"}
        samples.append(sample(_LEFT, _RIGHT, _CODES, 0.0, 2.0, *_FILTER_ENDS, *new, **codes))
    return OpRecord(
        name,
        samples,
        _multiplied(name),
        [
            bad(
                "InvalidArgumentError",
                "",
                _LEFT[0],
                _RIGHT,
                _BIAS,
                0.0,
                2.0,
                -1.0,
                1.0,
                *new,
                **types,
            ),
            bad(
                "InvalidArgumentError",
                "[3,4]",
                _LEFT[:, :4],
                _RIGHT,
                _BIAS,
                0.0,
                2.0,
                -1.0,
                1.0,
                *new,
                **types,
            ),
            bad("InvalidArgumentError", "2", _LEFT, _RIGHT, _BIAS[:2], 0.0, 2.0, -1.0, 1.0, *new, **types),
        ],
        only=[types],
        loose=5,
    )


_PRODUCTS: Final = {
    "QuantizedMatMulWithBias": "qint32",
    "QuantizedMatMulWithBiasAndRelu": "qint32",
    "QuantizedMatMulWithBiasAndReluAndRequantize": "quint8",
    "QuantizedMatMulWithBiasAndRequantize": "qint8",
    "QuantizedMatMulWithBiasAndDequantize": "float32",
}

RECORDS: Final = [
    *(_conv_record(name, out) for name, out in _CONVOLUTIONS.items()),
    *(_product_record(name, out) for name, out in _PRODUCTS.items()),
]
