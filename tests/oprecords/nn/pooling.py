"""Pooling, where maxima were, and gradients of first and second order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, Sample, bad, sample
from tests.oprecords.windows import windows


def _pool(x: Any, ksize: Any, strides: Any, padding: bytes) -> Iterator[tuple[Any, Any]]:
    """Each output place with the input places of its window."""
    _, pairs = windows(x.shape[1:-1], ksize[1:-1], strides[1:-1], [1] * (x.ndim - 2), padding)
    for o, group in itertools.groupby(pairs, lambda p: p[0]):
        yield o, [i for _, i, _ in group]


def _out_shape(x: Any, ksize: Any, strides: Any, padding: bytes) -> tuple[int, ...]:
    outs, _ = windows(x.shape[1:-1], ksize[1:-1], strides[1:-1], [1] * (x.ndim - 2), padding)
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
        # Of images that have no gradient it is 0.
        g = np.concatenate([g, np.zeros((len(result) - len(g), *g.shape[1:]))])
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


def _by_argmax(*, second: bool) -> list[Sample]:
    """Samples of gradients that are told which elements were the largest."""
    samples = []
    for call, s in zip(_POOLS, _through(_P, _POOLS, second=second), strict=True):
        settings = {**call, "padding": call["padding"].encode()}
        samples.append(sample(_P, s.inputs[2], _with_argmax(_P, **settings)[1], **call))
    return samples


def _argmax_grad(x: Any, g: Any, index: Any) -> Any:
    result = np.zeros((x.shape[0], x[0].size))
    for n in range(len(x)):
        np.add.at(result[n], index[n].ravel(), g[n].ravel())
    return result.reshape(x.shape)


def _argmax_grad_grad(x: Any, g: Any, index: Any) -> Any:
    return np.stack([g[n].ravel()[index[n]] for n in range(len(x))])


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
    shorter = sample(averages[0].inputs[0], averages[0].inputs[1][:1], **averages[0].attrs)
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
            differentiable=True,
        ),
        OpRecord(
            "MaxPoolGradGrad",
            _through(_P, _POOLS, second=True),
            _Pool(_max_grad_grad),
            dtypes=single,
            differentiable=True,
        ),
        OpRecord(
            "MaxPoolGradGradV2",
            _v2(_through(_P, _POOLS, second=True)),
            _V2(_max_grad_grad),
            dtypes=single,
            differentiable=True,
        ),
        OpRecord(
            "MaxPool3DGradGrad",
            _through(_P5, _POOLS5, second=True),
            _Pool(_max_grad_grad),
            dtypes=single,
            differentiable=True,
        ),
        OpRecord(
            "MaxPoolWithArgmax",
            argmax,
            _with_argmax,
            [bad("InvalidArgumentError", "must not be empty", np.zeros((0, 5, 4, 2)), **argmax[0].attrs)],
            dtypes=three,
            differentiable=True,
        ),
        OpRecord(
            "MaxPoolGradWithArgmax", _by_argmax(second=False), _argmax_grad, dtypes=three, differentiable=True
        ),
        OpRecord(
            "MaxPoolGradGradWithArgmax",
            _by_argmax(second=True),
            _argmax_grad_grad,
            dtypes=single,
            differentiable=True,
        ),
        OpRecord("AvgPoolGrad", [*averages, shorter], _AvgGrad(), dtypes=three, loose=3, differentiable=True),
        OpRecord("AvgPool3DGrad", averages5, _AvgGrad(), dtypes=three, loose=3, differentiable=True),
    ]


RECORDS: Final = [
    *_pools(),
]
