"""Activations' gradients, biases, softmax, losses, normalisation, top-k."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.oprecords.record import REALS, OpRecord, bad, sample

_G = np.linspace(-1.5, 2.0, 8)
_X = np.array([-3.0, -1.0, -0.25, 0.0, 0.5, 1.0, 5.0, 7.0])
_GRADS = [sample(_G, _X), sample(0.5, 2.0), sample(np.zeros((0, 2)), np.zeros((0, 2)))]
_SMALL = [sample(_G, _X / 10), sample(0.5, 0.25), sample(np.zeros((0,)), np.zeros((0,)))]
_MISFIT = bad("InvalidArgumentError", "", [1.0, 2.0], [1.0, 2.0, 3.0])
_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.7580993408473768


def _gradient(op: str, reference: Callable[..., Any], samples: Any = _GRADS, **more: Any) -> OpRecord:
    return OpRecord(op, samples, reference, [_MISFIT], differentiable=True, **more)


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _log_softmax(x: Any) -> Any:
    return x - x.max(-1, keepdims=True) - np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True))


def _cross_entropy(features: Any, labels: Any) -> tuple[Any, Any]:
    features, labels = np.broadcast_arrays(features, labels)
    return -(labels * _log_softmax(features)).sum(-1), _softmax(features) - labels


def _sparse_cross_entropy(features: Any, labels: Any) -> tuple[Any, Any]:
    return _cross_entropy(features, np.eye(features.shape[1])[labels])


def _bias(x: Any, b: Any, *, data_format: bytes) -> Any:
    return x + (b.reshape((-1,) + (1,) * (x.ndim - 2)) if data_format == b"NCHW" else b)


def _bias_grad(g: Any, *, data_format: bytes) -> Any:
    channel = 1 if data_format == b"NCHW" else g.ndim - 1
    return g.sum(tuple(i for i in range(g.ndim) if i != channel), dtype=g.dtype)


def _lrn(x: Any, *, depth_radius: int, bias: float, alpha: float, beta: float) -> Any:
    result = np.empty_like(x)
    for c in range(x.shape[-1]):
        window = x[..., max(0, c - depth_radius) : c + depth_radius + 1]
        result[..., c] = x[..., c] / (bias + alpha * (window**2).sum(-1)) ** beta
    return result


def _lrn_grad(g: Any, x: Any, y: Any, *, depth_radius: int, bias: float, alpha: float, beta: float) -> Any:
    """By finite differences of the definition, in float64."""
    result = np.zeros_like(x)
    settings: dict[str, Any] = {"depth_radius": depth_radius, "bias": bias, "alpha": alpha, "beta": beta}
    step = 1e-5
    for index in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[index] += step
        down[index] -= step
        result[index] = (g * (_lrn(up, **settings) - _lrn(down, **settings))).sum() / (2 * step)
    return result


def _top_k(x: Any, k: Any) -> tuple[Any, Any]:
    order = np.argsort(-x.astype(np.float64), axis=-1, kind="stable")[..., : int(k)]
    return np.take_along_axis(x, order, -1), order


def _in_top_k(predictions: Any, targets: Any, k: Any) -> Any:
    chosen = np.take_along_axis(predictions, targets[:, None].astype(int), 1)
    return (predictions > chosen).sum(1) < k


def _channels(x: Any, data_format: bytes) -> Any:
    return np.moveaxis(x, 1, -1) if data_format == b"NCHW" else x


def _unchannels(x: Any, data_format: bytes) -> Any:
    return np.moveaxis(x, -1, 1) if data_format == b"NCHW" else x


def _batch_norm(
    x: Any,
    scale: Any,
    offset: Any,
    mean: Any,
    variance: Any,
    *,
    epsilon: float,
    data_format: bytes,
    is_training: bool,
) -> tuple[Any, ...]:
    x = _channels(x, data_format)
    count = x.size // x.shape[-1]
    unbiased = variance
    if is_training:
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        unbiased = variance * count / max(count - 1, 1)
    y = (x - mean) / np.sqrt(variance + epsilon) * scale + offset
    return _unchannels(y, data_format), mean, unbiased, mean, variance


def _batch_norm_v3(*inputs: Any, epsilon: float, data_format: bytes, is_training: bool) -> tuple[Any, ...]:
    outputs = _batch_norm(*inputs, epsilon=epsilon, data_format=data_format, is_training=is_training)
    return outputs


def _batch_norm_grad(
    g: Any,
    x: Any,
    scale: Any,
    mean: Any,
    variance: Any,
    *,
    epsilon: float,
    data_format: bytes,
    is_training: bool,
) -> tuple[Any, ...]:
    g, x = _channels(g, data_format), _channels(x, data_format)
    inverse = 1 / np.sqrt(variance + epsilon)
    centred = (x - mean) * inverse
    d_scale, d_offset = (g * centred).sum((0, 1, 2)), g.sum((0, 1, 2))
    if is_training:
        dx = scale * inverse * (g - g.mean((0, 1, 2)) - centred * (g * centred).mean((0, 1, 2)))
    else:
        dx = g * scale * inverse
    return _unchannels(dx, data_format), d_scale, d_offset


def _global_norm(
    t: Any, m: Any, v: Any, beta: Any, gamma: Any, *, variance_epsilon: float, scale_after_normalization: bool
) -> Any:
    return (t - m) / np.sqrt(v + variance_epsilon) * (gamma if scale_after_normalization else 1) + beta


_SCORES = np.array([[1.0, -2.0, 0.5], [3.0, 0.0, -1.0]])
_LABELS = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
_PICTURE = np.sin(np.arange(2 * 3 * 2 * 4)).reshape(2, 3, 2, 4)
_PER_CHANNEL = (np.array([1.0, 0.5, -2.0, 1.5]), np.array([0.0, 1.0, -1.0, 0.5]))
_MOMENTS = (np.array([0.5, -0.25, 0.0, 1.0]), np.array([1.0, 2.0, 0.5, 0.25]))
_NONE = np.zeros((0,))
_FEATURES = np.array([[0.1, 0.9, 0.3, 0.9], [0.7, 0.2, 0.2, 0.1]])
_NORM = [
    sample(_PICTURE, *_PER_CHANNEL, *_MOMENTS, is_training=False, epsilon=0.01),
    sample(_PICTURE, *_PER_CHANNEL, _NONE, _NONE, epsilon=0.01),
    sample(np.moveaxis(_PICTURE, -1, 1), *_PER_CHANNEL, *_MOMENTS, is_training=False, data_format="NCHW"),
]
_NORM_GRADS = [
    sample(np.cos(_PICTURE), _PICTURE, _PER_CHANNEL[0], *_MOMENTS, is_training=is_training, epsilon=0.01)
    for is_training in (False,)
] + [
    sample(
        np.cos(_PICTURE * 3),
        _PICTURE,
        _PER_CHANNEL[0],
        _PICTURE.mean((0, 1, 2)),
        _PICTURE.var((0, 1, 2)),
        epsilon=0.01,
    )
]


def _norm_values(outputs: Any, inputs: Any, *, epsilon: float, data_format: bytes, is_training: bool) -> None:
    """The five results with a meaning; a sixth is whatever the library keeps for itself."""
    wide = [np.asarray(i, np.float64) for i in inputs]
    wanted = _batch_norm(*wide, epsilon=epsilon, data_format=data_format, is_training=is_training)
    bound = 0.05 if outputs[0].dtype.itemsize == 2 else 1e-5
    for got, want in zip(outputs[:5], wanted, strict=True):
        np.testing.assert_allclose(np.asarray(got, np.float64), want, bound, bound)


def _norm_grad_values(
    outputs: Any, inputs: Any, *, epsilon: float, data_format: bytes, is_training: bool
) -> None:
    wide = [np.asarray(i, np.float64) for i in inputs[:5]]
    wanted = _batch_norm_grad(*wide, epsilon=epsilon, data_format=data_format, is_training=is_training)
    bound = 0.1 if outputs[0].dtype.itemsize == 2 else 1e-4
    for got, want in zip(outputs[:3], wanted, strict=True):
        np.testing.assert_allclose(np.asarray(got, np.float64), want, bound, bound)


_MIXED = [
    {"T": "float32", "U": "float32"},
    {"T": "float16", "U": "float32"},
    {"T": "bfloat16", "U": "float32"},
]

RECORDS = [
    _gradient("ReluGrad", lambda g, x: np.where(x > 0, g, 0), dtypes={"T": REALS}),
    _gradient("Relu6Grad", lambda g, x: np.where((x > 0) & (x < 6), g, 0), dtypes={"T": REALS}),
    _gradient("LeakyReluGrad", lambda g, x, *, alpha: np.where(x > 0, g, g * alpha)),
    _gradient("EluGrad", lambda g, y: np.where(y < 0, (y + 1) * g, g), _SMALL),
    _gradient("SeluGrad", lambda g, y: np.where(y < 0, (y + _SELU_ALPHA) * g, g * _SELU_SCALE), _SMALL),
    _gradient("SoftplusGrad", lambda g, x: g / (1 + np.exp(-x))),
    _gradient("SoftsignGrad", lambda g, x: g / (1 + np.abs(x)) ** 2),
    _gradient("SigmoidGrad", lambda y, g: y * (1 - y) * g, _SMALL),
    _gradient("TanhGrad", lambda y, g: (1 - y**2) * g, _SMALL),
    _gradient("SqrtGrad", lambda y, g: g * 0.5 / np.conj(y), [sample([0.5, 2.0], [1.0, -3.0])]),
    _gradient(
        "RsqrtGrad", lambda y, g: -0.5 * g * np.conj(y) ** 3, [sample([0.5, 2.0], [1.0, -3.0])], loose=3
    ),
    _gradient("InvGrad", lambda y, g: -g * np.conj(y) ** 2, _SMALL),
    _gradient("ReciprocalGrad", lambda y, g: -g * np.conj(y) ** 2, _SMALL),
    OpRecord(
        "BiasAdd",
        [
            sample([[1.0, 2.0], [3.0, 4.0]], [10.0, 20.0]),
            sample(np.arange(8.0).reshape(1, 2, 2, 2), [10.0, 20.0], data_format="NCHW"),
            sample(np.zeros((0, 2)), [1.0, 2.0]),
        ],
        _bias,
        [bad("InvalidArgumentError", "", [[1.0, 2.0]], [1.0, 2.0, 3.0])],
        differentiable=True,
    ),
    OpRecord(
        "BiasAddV1",
        [sample([[1.0, 2.0], [3.0, 4.0]], [10.0, 20.0])],
        np.add,
        [bad("InvalidArgumentError", "", [[1.0, 2.0]], [1.0, 2.0, 3.0])],
        differentiable=True,
    ),
    OpRecord(
        "BiasAddGrad",
        [sample([[1.0, 2.0], [3.0, 4.0]]), sample(np.arange(8.0).reshape(1, 2, 2, 2), data_format="NCHW")],
        _bias_grad,
        differentiable=True,
    ),
    OpRecord(
        "L2Loss",
        [sample([[1.0, -2.0, 3.0]]), sample(np.zeros((0,)))],
        lambda x: (x**2).sum() / 2,
        loose=3,
        differentiable=True,
    ),
    OpRecord(
        "Softmax",
        [sample(_SCORES), sample(_SCORES[0]), sample(np.zeros((0, 3))), sample([[1000.0, 999.0]])],
        lambda x: _softmax(x) if x.size else x,
        [bad("InvalidArgumentError", "", 1.0)],
        loose=2,
        differentiable=True,
    ),
    OpRecord(
        "LogSoftmax",
        [sample(_SCORES), sample(np.zeros((0, 3))), sample([[1000.0, 999.0]])],
        lambda x: _log_softmax(x) if x.size else x,
        [bad("InvalidArgumentError", "", 1.0)],
        loose=3,
        differentiable=True,
    ),
    OpRecord(
        "SoftmaxCrossEntropyWithLogits",
        [sample(_SCORES, _LABELS), sample(_SCORES, _LABELS[:1])],
        _cross_entropy,
        [bad("InvalidArgumentError", "[2,3]", _SCORES, [[1.0, 2.0]])],
        loose=3,
        differentiable=True,
    ),
    OpRecord(
        "SparseSoftmaxCrossEntropyWithLogits",
        [sample(_SCORES, [2, 0])],
        _sparse_cross_entropy,
        [
            bad("InvalidArgumentError", "7", _SCORES, [7, 0]),
            bad("InvalidArgumentError", "[3]", _SCORES, [0, 1, 2]),
        ],
        loose=3,
        differentiable=True,
    ),
    OpRecord(
        "LRN",
        [sample(_PICTURE), sample(_PICTURE, depth_radius=1, bias=2.0, alpha=0.5, beta=0.75)],
        _lrn,
        [bad("InvalidArgumentError", "", [1.0])],
        loose=4,
        differentiable=True,
    ),
    OpRecord(
        "LRNGrad",
        [
            sample(
                np.cos(_PICTURE),
                _PICTURE,
                _lrn(_PICTURE, depth_radius=1, bias=2.0, alpha=0.5, beta=0.75),
                depth_radius=1,
                bias=2.0,
                alpha=0.5,
                beta=0.75,
            )
        ],
        _lrn_grad,
        dtypes={"T": ("float32", "float16")},
        loose=20,
    ),
    OpRecord("FusedBatchNorm", _NORM, check=_norm_values, dtypes={"T": ("float32",)}, differentiable=True),
    OpRecord("FusedBatchNormV2", _NORM, check=_norm_values, only=_MIXED, differentiable=True),
    OpRecord("FusedBatchNormV3", _NORM, check=_norm_values, only=_MIXED, partial=True, differentiable=True),
    OpRecord(
        "FusedBatchNormGrad", _NORM_GRADS, check=_norm_grad_values, dtypes={"T": ("float32",)}, partial=True
    ),
    OpRecord("FusedBatchNormGradV2", _NORM_GRADS, check=_norm_grad_values, only=_MIXED, partial=True),
    OpRecord(
        "FusedBatchNormGradV3",
        [type(each)((*each.inputs, _NONE), each.attrs) for each in _NORM_GRADS],
        check=_norm_grad_values,
        only=_MIXED,
        partial=True,
    ),
    OpRecord(
        "BatchNormWithGlobalNormalization",
        [
            sample(
                _PICTURE, *_MOMENTS, *_PER_CHANNEL, variance_epsilon=0.01, scale_after_normalization=scaled
            )
            for scaled in (True, False)
        ],
        _global_norm,
        loose=4,
    ),
    OpRecord(
        "TopKV2",
        [
            sample([[1.0, 4.0, 2.0, 4.0], [0.0, 3.0, 9.0, 5.0]], 2),
            sample([3.0, 1.0], 0),
            sample([3.0, 1.0], 2),
        ],
        _top_k,
        [bad("InvalidArgumentError", "3", [1.0, 2.0], 3), bad("InvalidArgumentError", "-1", [1.0, 2.0], -1)],
        differentiable=True,
    ),
    OpRecord(
        "TopK",
        [sample([[1.0, 4.0, 2.0, 4.0]], k=2)],
        lambda x, *, k: _top_k(x, k),
        [bad("InvalidArgumentError", "3", [1.0, 2.0], k=3)],
        differentiable=True,
    ),
    OpRecord(
        "NthElement",
        [sample([[3.0, 1.0, 2.0], [9.0, 8.0, 7.0]], 1), sample([3.0, 1.0, 2.0], 0, reverse=True)],
        lambda x, n, *, reverse: np.sort(x, -1)[..., -1 - int(n) if reverse else int(n)],
        [bad("InvalidArgumentError", "3", [1.0, 2.0], 3)],
    ),
    OpRecord(
        "InTopKV2",
        [sample(_FEATURES, [3, 1], 2), sample(_FEATURES, [0, 3], 3)],
        _in_top_k,
        [bad("InvalidArgumentError", "", _FEATURES, [1, 2, 3], 2)],
    ),
    OpRecord(
        "InTopK",
        [sample(_FEATURES, [3, 1], k=2)],
        lambda p, t, *, k: _in_top_k(p, t, k),
        [bad("InvalidArgumentError", "", _FEATURES, [1, 2, 3], k=2)],
    ),
]
