"""Convolutions, pooling, dilation, patches: each against the sum over windows that defines it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tests.oprecords.record import FLOATS, OpRecord, Sample, bad, sample


def _pads(size: int, k: int, stride: int, dilation: int, padding: bytes) -> tuple[int, int, int]:
    """Elements added before and after one dimension, and the size of the result."""
    span = (k - 1) * dilation + 1
    if padding == b"VALID":
        return 0, 0, max(0, -(-(size - span + 1) // stride))
    out = -(-size // stride)
    total = max((out - 1) * stride + span - size, 0)
    return total // 2, total - total // 2, out


def _windows(
    shape: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: bytes,
    explicit: Sequence[int] = (),
) -> tuple[tuple[int, ...], Iterator[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]]:
    """The spatial output shape, and (output place, input place, kernel place) of all pairs that meet."""
    plans = []
    for i, size in enumerate(shape):
        if padding == b"EXPLICIT":
            before, after = explicit[2 * i], explicit[2 * i + 1]
            out = (size + before + after - (kernel[i] - 1) * dilations[i] - 1) // strides[i] + 1
            plans.append((before, after, out))
        else:
            plans.append(_pads(size, kernel[i], strides[i], dilations[i], padding))
    outs = tuple(p[2] for p in plans)

    def pairs() -> Iterator[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
        for o in np.ndindex(*outs):
            for k in np.ndindex(*kernel):
                place = tuple(o[i] * strides[i] + k[i] * dilations[i] - plans[i][0] for i in range(len(outs)))
                if all(0 <= p < n for p, n in zip(place, shape, strict=True)):
                    yield o, place, k

    return outs, pairs()


class _Conv:
    """A convolution or one of its gradients, channels last or first, by the definition.

    kind    "forward", "input" or "filter"; depthwise: one filter a channel
    """

    def __init__(self, kind: str, *, depthwise: bool = False, explicit: bool = False) -> None:
        self.kind, self.depthwise = kind, depthwise
        self.attr_names = ["strides", "padding", "data_format", "dilations"]
        self.attr_names += ["explicit_paddings"] if explicit else []

    def __call__(
        self,
        a: Any,
        b: Any,
        c: Any = None,
        *,
        strides: Any,
        padding: bytes,
        data_format: bytes,
        dilations: Any,
        explicit_paddings: Any = (),
    ) -> Any:
        first = data_format.startswith(b"NC")

        def last(x: Any) -> Any:
            return np.moveaxis(x, 1, -1) if first else x

        def spatial(values: Any) -> Any:
            return tuple(values[2:]) if first else tuple(values[1:-1])

        grad: Any = None
        if self.kind == "forward":
            x, w = last(a), b
        elif self.kind == "input":
            x, w, grad = last(np.zeros(tuple(a))), b, last(c)
        else:
            x, w, grad = last(a), np.zeros(tuple(b)), last(c)
        rank = x.ndim - 2
        pads = np.reshape(explicit_paddings, (-1, 2))
        chosen = spatial(pads).__iter__() if len(pads) else ()
        outs, pairs = _windows(
            x.shape[1:-1],
            w.shape[:rank],
            spatial(strides),
            spatial(dilations),
            padding,
            [int(v) for pair in chosen for v in pair],
        )
        channels = w.shape[-1] * w.shape[-2] if self.depthwise else w.shape[-1]
        y = np.zeros((x.shape[0], *outs, channels)) if grad is None else grad
        dx, dw = np.zeros(x.shape), np.zeros(w.shape)
        for o, i, k in pairs:
            at_o: Any = (slice(None), *o)
            at_i: Any = (slice(None), *i)
            if self.depthwise:
                if grad is None:
                    y[at_o] += (x[at_i][:, :, None] * w[k]).reshape(x.shape[0], -1)
                else:
                    g = y[at_o].reshape(x.shape[0], *w.shape[-2:])
                    dx[at_i] += (g * w[k]).sum(-1)
                    dw[k] += (x[at_i][:, :, None] * g).sum(0)
            elif grad is None:
                y[at_o] += x[at_i] @ w[k]
            else:
                dx[at_i] += y[at_o] @ w[k].T
                dw[k] += x[at_i].T @ y[at_o]
        if self.kind == "filter":
            return dw
        result = y if self.kind == "forward" else dx
        return np.moveaxis(result, -1, 1) if first else result


def _wave(*shape: int) -> Any:
    return np.round(np.sin(np.arange(np.prod(shape)) * 1.3).reshape(shape) * 8) / 8


_X, _W = _wave(2, 5, 4, 3), _wave(3, 2, 3, 2)
_CALLS: list[dict[str, Any]] = [
    {"strides": [1, 1, 1, 1], "padding": "SAME"},
    {"strides": [1, 2, 1, 1], "padding": "VALID"},
    {"strides": [1, 1, 1, 1], "padding": "SAME", "dilations": [1, 2, 1, 1]},
]
_EXPLICIT = {"strides": [1, 1, 1, 1], "padding": "EXPLICIT", "explicit_paddings": [0, 0, 1, 2, 0, 1, 0, 0]}
_TYPES = {"T": ("float32", "float64", "float16")}


def _forward_samples(x: Any, w: Any, calls: Sequence[dict[str, Any]]) -> list[Sample]:
    return [sample(x, w, **call) for call in calls]


def _gradient_samples(
    forward: _Conv, kind: str, x: Any, w: Any, calls: Sequence[dict[str, Any]]
) -> list[Sample]:
    samples = []
    for call in calls:
        settings = {
            "data_format": b"NHWC" if x.ndim == 4 else b"NDHWC",
            "dilations": [1] * x.ndim,
            **call,
            "padding": call["padding"].encode(),
        }
        g = np.round(np.cos(forward(x, w, **settings)) * 8) / 8
        samples.append(sample(x.shape, w, g, **call) if kind == "input" else sample(x, w.shape, g, **call))
    return samples


_STRAY = {"strides": [1, 1, 1, 1], "padding": "VALID"}
_TOO_MANY = bad("InvalidArgumentError", "4", _X, _wave(3, 2, 4, 2), **_STRAY)


def _convolutions() -> list[OpRecord]:
    conv, deep, volume = _Conv("forward"), _Conv("forward", depthwise=True), _Conv("forward")
    full = _Conv("forward", explicit=True)
    calls_2d = [*_CALLS, _EXPLICIT]
    square = [_CALLS[0], {"strides": [1, 2, 2, 1], "padding": "VALID"}]
    x5, w5 = _wave(1, 3, 4, 3, 2), _wave(2, 2, 1, 2, 3)
    calls_3d: list[dict[str, Any]] = [
        {"strides": [1, 1, 1, 1, 1], "padding": "SAME"},
        {"strides": [1, 1, 2, 1, 1], "padding": "VALID"},
    ]
    found = [
        OpRecord(
            "Conv2D",
            [*_forward_samples(_X, _W, calls_2d), sample(np.zeros((0, 5, 4, 3)), _W, **_CALLS[0])],
            full,
            [_TOO_MANY],
            _TYPES,
            loose=6,
            differentiable=True,
        ),
        OpRecord(
            "DepthwiseConv2dNative",
            _forward_samples(_X, _W, square),
            deep,
            [_TOO_MANY],
            _TYPES,
            loose=6,
            differentiable=True,
        ),
        OpRecord(
            "Conv3D", _forward_samples(x5, w5, calls_3d), volume, dtypes=_TYPES, loose=6, differentiable=True
        ),
    ]
    for kind, suffix in (("input", "Input"), ("filter", "Filter")):
        explicit = _Conv(kind, explicit=True)
        found += [
            OpRecord(
                f"Conv2DBackprop{suffix}",
                _gradient_samples(full, kind, _X, _W, calls_2d),
                explicit,
                dtypes=_TYPES,
                loose=20,
                differentiable=True,
                partial=False,
            ),
            OpRecord(
                f"DepthwiseConv2dNativeBackprop{suffix}",
                _gradient_samples(deep, kind, _X, _W, square),
                _Conv(kind, depthwise=True),
                dtypes=_TYPES,
                loose=20,
                differentiable=True,
            ),
            OpRecord(
                f"Conv3DBackprop{suffix}V2",
                _gradient_samples(conv, kind, x5, w5, calls_3d),
                _Conv(kind),
                dtypes=_TYPES,
                loose=20,
                differentiable=True,
            ),
        ]
    return found


def _pool(x: Any, ksize: Any, strides: Any, padding: bytes) -> Iterator[tuple[Any, Any]]:
    """Each output place with the input places of its window."""
    _, pairs = _windows(x.shape[1:-1], ksize[1:-1], strides[1:-1], [1] * (x.ndim - 2), padding)
    for o, group in itertools.groupby(pairs, lambda p: p[0]):
        yield o, [i for _, i, _ in group]


def _out_shape(x: Any, ksize: Any, strides: Any, padding: bytes) -> tuple[int, ...]:
    outs, _ = _windows(x.shape[1:-1], ksize[1:-1], strides[1:-1], [1] * (x.ndim - 2), padding)
    return (x.shape[0], *outs, x.shape[-1])


class _Pool:
    """Max or mean of windows, or what flows back through them; `moved` where the op's format is NCHW."""

    attr_names = ("ksize", "strides", "padding", "data_format")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *inputs: Any, ksize: Any, strides: Any, padding: bytes, data_format: bytes) -> Any:
        if data_format.startswith(b"NC"):
            inputs = tuple(np.moveaxis(x, 1, -1) for x in inputs)
            ksize, strides = [(*v[:1], *v[2:], v[1]) for v in (ksize, strides)]
            return np.moveaxis(self.function(*inputs, ksize, strides, padding), -1, 1)
        return self.function(*inputs, ksize, strides, padding)


def _reduce_windows(reduce: Callable[..., Any]) -> Callable[..., Any]:
    def pooled(x: Any, ksize: Any, strides: Any, padding: bytes) -> Any:
        y = np.zeros(_out_shape(x, ksize, strides, padding), x.dtype)
        for o, places in _pool(x, ksize, strides, padding):
            y[(slice(None), *o)] = reduce(np.stack([x[(slice(None), *i)] for i in places]), 0)
        return y

    return pooled


def _winners(x: Any, ksize: Any, strides: Any, padding: bytes) -> Iterator[tuple[Any, Any]]:
    """(index of an output, index of the input that it came from)."""
    for o, places in _pool(x, ksize, strides, padding):
        best = np.argmax(np.stack([x[(slice(None), *i)] for i in places]), 0)
        for n, c in np.ndindex(*best.shape):
            yield (n, *o, c), (n, *places[best[n, c]], c)


def _max_grad(x: Any, y: Any, g: Any, ksize: Any, strides: Any, padding: bytes) -> Any:
    result = np.zeros_like(x)
    for o, i in _winners(x, ksize, strides, padding):
        result[i] += g[o]
    return result


def _max_grad_grad(x: Any, y: Any, g: Any, ksize: Any, strides: Any, padding: bytes) -> Any:
    result = np.zeros_like(y)
    for o, i in _winners(x, ksize, strides, padding):
        result[o] = g[i]
    return result


class _AvgGrad:
    attr_names = _Pool.attr_names

    def __call__(
        self, shape: Any, g: Any, *, ksize: Any, strides: Any, padding: bytes, data_format: bytes
    ) -> Any:
        result = np.zeros(tuple(shape))
        for o, places in _pool(result, ksize, strides, padding):
            for i in places:
                result[(slice(None), *i)] += g[(slice(None), *o)] / len(places)
        return result


def _with_argmax(x: Any, *, ksize: Any, strides: Any, padding: bytes) -> tuple[Any, Any]:
    y = np.zeros(_out_shape(x, ksize, strides, padding))
    index = np.zeros(y.shape, int)
    for o, i in _winners(x, ksize, strides, padding):
        y[o], index[o] = x[i], np.ravel_multi_index(i[1:], x.shape[1:])
    return y, index


def _patches(x: Any, *, ksizes: Any, strides: Any, rates: Any, padding: bytes) -> Any:
    outs, pairs = _windows(x.shape[1:-1], ksizes[1:-1], strides[1:-1], rates[1:-1], padding)
    y = np.zeros((x.shape[0], *outs, *ksizes[1:-1], x.shape[-1]), x.dtype)
    for o, i, k in pairs:
        here: Any = (slice(None), *o, *k)
        y[here] = x[(slice(None), *i)]
    return y.reshape(x.shape[0], *outs, -1)


def _volume_patches(x: Any, *, ksizes: Any, strides: Any, padding: bytes) -> Any:
    return _patches(x, ksizes=ksizes, strides=strides, rates=[1] * x.ndim, padding=padding)


class _Dilation:
    """Largest sum of input and filter in a window, or its gradient; the first of equals wins."""

    attr_names = ("strides", "rates", "padding")

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, x: Any, w: Any, g: Any = None, *, strides: Any, rates: Any, padding: bytes) -> Any:
        outs, pairs = _windows(x.shape[1:-1], w.shape[:2], strides[1:-1], rates[1:-1], padding)
        y, dx, dw = np.zeros((x.shape[0], *outs, x.shape[-1])), np.zeros(x.shape), np.zeros(w.shape)
        for o, group in itertools.groupby(pairs, lambda p: p[0]):
            members = [(i, k) for _, i, k in group]
            sums = np.stack([x[(slice(None), *i)] + w[k] for i, k in members])
            at: Any = (slice(None), *o)
            y[at] = sums.max(0)
            if g is None:
                continue
            best = sums.argmax(0)
            for n, c in np.ndindex(*best.shape):
                i, k = members[best[n, c]]
                dx[(n, *i, c)] += g[(n, *o, c)]
                dw[(*k, c)] += g[(n, *o, c)]
        return {"forward": y, "input": dx, "filter": dw}[self.kind]


_P = np.random.RandomState(3).permutation(2 * 5 * 4 * 2).reshape(2, 5, 4, 2) / 8.0 - 3
_POOLS: list[dict[str, Any]] = [
    {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"},
    {"ksize": [1, 3, 2, 1], "strides": [1, 2, 1, 1], "padding": "SAME"},
]
_P5 = np.random.RandomState(4).permutation(4 * 3 * 4 * 2).reshape(1, 4, 3, 4, 2) / 8.0
_POOLS5: list[dict[str, Any]] = [{"ksize": [1, 2, 2, 2, 1], "strides": [1, 1, 2, 2, 1], "padding": "SAME"}]
_ZERO = bad("InvalidArgumentError", "", _P, ksize=[1, 9, 9, 1], strides=[1, 1, 1, 1], padding="VALID")


def _through(x: Any, calls: Sequence[dict[str, Any]], *, second: bool = False) -> list[Sample]:
    """Samples of a gradient of max pooling; gradients are whole numbers, which add up alike in any order."""
    samples = []
    for call in calls:
        y = _reduce_windows(np.max)(x, call["ksize"], call["strides"], call["padding"].encode())
        g = np.arange(x.size if second else y.size).reshape(x.shape if second else y.shape) % 7.0
        samples.append(sample(x, y, g, **call))
    return samples


def _v2(samples: Sequence[Sample]) -> list[Sample]:
    """The window as inputs instead of attributes."""
    return [
        Sample((*s.inputs, s.attrs["ksize"], s.attrs["strides"]), {"padding": s.attrs["padding"]})
        for s in samples
    ]


class _V2:
    attr_names = ("padding", "data_format")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.pool = _Pool(function)

    def __call__(self, *inputs: Any, padding: bytes, data_format: bytes) -> Any:
        *values, ksize, strides = inputs
        return self.pool(
            *values, ksize=tuple(ksize), strides=tuple(strides), padding=padding, data_format=data_format
        )


def _pools() -> list[OpRecord]:
    maximum, mean = _reduce_windows(np.max), _reduce_windows(np.mean)
    flat, volume = [sample(_P, **c) for c in _POOLS], [sample(_P5, **c) for c in _POOLS5]
    three, whole = (
        {"T": ("float32", "float64", "float16")},
        {"T": ("float32", "float64", "int32", "int64", "uint8")},
    )
    single = {"T": ("float32",)}
    argmax = [sample(_P, **c) for c in _POOLS]
    averages = [sample(s.inputs[0].shape, s.inputs[2], **s.attrs) for s in _through(_P, _POOLS)]
    averages5 = [sample(s.inputs[0].shape, s.inputs[2], **s.attrs) for s in _through(_P5, _POOLS5)]
    return [
        OpRecord("MaxPool", flat, _Pool(maximum), [_ZERO], whole, differentiable=True),
        OpRecord("MaxPoolV2", _v2(flat), _V2(maximum), dtypes=whole, differentiable=True),
        OpRecord("MaxPool3D", volume, _Pool(maximum), dtypes=single, differentiable=True),
        OpRecord("AvgPool", flat, _Pool(mean), [_ZERO], three, loose=2, differentiable=True),
        OpRecord("AvgPool3D", volume, _Pool(mean), dtypes=three, loose=2, differentiable=True),
        OpRecord("MaxPoolGrad", _through(_P, _POOLS), _Pool(_max_grad), dtypes=three, differentiable=True),
        OpRecord(
            "MaxPoolGradV2", _v2(_through(_P, _POOLS)), _V2(_max_grad), dtypes=three, differentiable=True
        ),
        OpRecord(
            "MaxPool3DGrad",
            _through(_P5, _POOLS5),
            _Pool(_max_grad),
            only=[{"T": "float32", "TInput": "float32"}],
        ),
        OpRecord("MaxPoolGradGrad", _through(_P, _POOLS, second=True), _Pool(_max_grad_grad), dtypes=single),
        OpRecord(
            "MaxPoolGradGradV2", _v2(_through(_P, _POOLS, second=True)), _V2(_max_grad_grad), dtypes=single
        ),
        OpRecord(
            "MaxPool3DGradGrad", _through(_P5, _POOLS5, second=True), _Pool(_max_grad_grad), dtypes=single
        ),
        OpRecord("MaxPoolWithArgmax", argmax, _with_argmax, dtypes=three, differentiable=True),
        OpRecord("AvgPoolGrad", averages, _AvgGrad(), dtypes=three, loose=3, differentiable=True),
        OpRecord("AvgPool3DGrad", averages5, _AvgGrad(), dtypes=three, loose=3, differentiable=True),
    ]


_SPREAD = {"strides": [1, 2, 1, 1], "rates": [1, 1, 2, 1], "padding": "SAME"}
_SHARP = np.random.RandomState(5).permutation(3 * 2 * 2).reshape(3, 2, 2) / 16.0
_DILATED = _Dilation("forward")(_P, _SHARP, strides=(1, 2, 1, 1), rates=(1, 1, 2, 1), padding=b"SAME")
_BACK = np.arange(_DILATED.size).reshape(_DILATED.shape) % 5.0
_PATCH = {"ksizes": [1, 2, 3, 1], "strides": [1, 1, 2, 1], "rates": [1, 2, 1, 1]}

RECORDS = [
    *_convolutions(),
    *_pools(),
    OpRecord(
        "Dilation2D",
        [sample(_P, _SHARP, **_SPREAD)],
        _Dilation("forward"),
        dtypes=_TYPES,
        differentiable=True,
    ),
    OpRecord(
        "Dilation2DBackpropInput", [sample(_P, _SHARP, _BACK, **_SPREAD)], _Dilation("input"), dtypes=_TYPES
    ),
    OpRecord(
        "Dilation2DBackpropFilter", [sample(_P, _SHARP, _BACK, **_SPREAD)], _Dilation("filter"), dtypes=_TYPES
    ),
    OpRecord(
        "ExtractImagePatches",
        [sample(_P, **_PATCH, padding=p) for p in ("SAME", "VALID")],
        _patches,
        dtypes={"T": (*FLOATS, "int32", "uint8")},
        differentiable=True,
    ),
    OpRecord(
        "ExtractVolumePatches",
        [sample(_P5, ksizes=[1, 2, 1, 2, 1], strides=[1, 1, 2, 2, 1], padding=p) for p in ("SAME", "VALID")],
        _volume_patches,
        dtypes={"T": ("float32", "float64", "int32")},
        differentiable=True,
    ),
]
