"""Activations, biases, softmax and the cross entropies."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.elementwise import ANYWHERE, SMALL_GRADS, gradient, unary
from tests.oprecords.record import REALS, OpRecord, bad, sample

# Activations and their gradients, biases, the halved sum of squares.


def _selu(x: Any) -> Any:
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    return scale * np.where(x > 0, x, alpha * np.expm1(x))


def _leaky(x: Any, *, alpha: float) -> Any:
    return np.where(x > 0, x, x * alpha)


_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.7580993408473768


def _bias(x: Any, b: Any, *, data_format: bytes) -> Any:
    return x + (b.reshape((-1,) + (1,) * (x.ndim - 2)) if data_format == b"NCHW" else b)


def _bias_grad(g: Any, *, data_format: bytes) -> Any:
    channel = 1 if data_format == b"NCHW" else g.ndim - 1
    return g.sum(tuple(i for i in range(g.ndim) if i != channel), dtype=g.dtype)


_OF_ACTIVATIONS: Final = [
    unary("Relu", lambda x: np.maximum(x, 0), dtypes=REALS),
    unary("Relu6", lambda x: np.clip(x, 0, 6), [*ANYWHERE, sample([5.0, 6.0, 7.0])], REALS),
    unary("Elu", lambda x: np.where(x > 0, x, np.expm1(x))),
    unary("Selu", _selu),
    OpRecord("LeakyRelu", [*ANYWHERE, sample([-2.0, 2.0], alpha=0.5)], _leaky, differentiable=True),
    unary("Softplus", lambda x: np.logaddexp(x, 0), [*ANYWHERE, sample([-50.0, 50.0])]),
    unary("Softsign", lambda x: x / (1 + np.abs(x))),
    gradient("ReluGrad", lambda g, x: np.where(x > 0, g, 0), dtypes={"T": REALS}),
    gradient("Relu6Grad", lambda g, x: np.where((x > 0) & (x < 6), g, 0), dtypes={"T": REALS}),
    gradient("LeakyReluGrad", lambda g, x, *, alpha: np.where(x > 0, g, g * alpha)),
    gradient("EluGrad", lambda g, y: np.where(y < 0, (y + 1) * g, g), SMALL_GRADS),
    gradient("SeluGrad", lambda g, y: np.where(y < 0, (y + _SELU_ALPHA) * g, g * _SELU_SCALE), SMALL_GRADS),
    gradient("SoftplusGrad", lambda g, x: g / (1 + np.exp(-x))),
    gradient("SoftsignGrad", lambda g, x: g / (1 + np.abs(x)) ** 2),
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
]


# Softmax, its logarithm, and the cross entropies.


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


_SCORES = np.array([[1.0, -2.0, 0.5], [3.0, 0.0, -1.0]])
_LABELS = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])

_OF_SOFTMAX: Final = [
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
]


RECORDS: Final = [*_OF_ACTIVATIONS, *_OF_SOFTMAX]
