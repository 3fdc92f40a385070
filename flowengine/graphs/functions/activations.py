"""Activations: functions of each number, or of each row of them, after a layer.

`features`, `logits`, `value` or `x`, with `weights`, `bias` and `biases`, are tensors, variables or values
that become constants; `axis` is an integer. Floating point of any width. Elementwise ones return the shape
and the type of their argument.

>>> graph = fe.Graph()
>>> def show(*tensors):
...     for value in fe.testing.evaluate(graph, [each.name for each in tensors]):
...         print(np.round(value.astype(float), 2).tolist())
>>> x = graph.constant([-1.0, 0.5, 8.0])
>>> show(fe.nn.relu(x), fe.nn.relu6(x), fe.nn.leaky_relu(x), fe.nn.elu(x), fe.nn.selu(x), fe.nn.softplus(x))
[0.0, 0.5, 8.0]
[0.0, 0.5, 6.0]
[-0.2, 0.5, 8.0]
[-0.63, 0.5, 8.0]
[-1.11, 0.53, 8.41]
[0.31, 0.97, 8.0]
>>> show(fe.nn.softsign(x), fe.nn.swish(x), fe.nn.gelu(x))
[-0.5, 0.33, 0.89]
[-0.27, 0.31, 8.0]
[-0.16, 0.35, 8.0]
>>> show(fe.nn.softmax(x), fe.nn.log_softmax(x), fe.nn.crelu(x))
[0.0, 0.0, 1.0]
[-9.0, -7.5, -0.0]
[0.0, 0.5, 8.0, 1.0, 0.0, 0.0]
>>> rows, ones = graph.constant([[1.0, -2.0]]), graph.constant([1.0, 1.0])
>>> show(fe.nn.bias_add(rows, ones), fe.nn.xw_plus_b(rows, [[1.0, 0.0], [0.0, 1.0]], ones))
[[2.0, -1.0]]
[[2.0, -1.0]]
>>> show(fe.nn.relu_layer(rows, [[1.0, 0.0], [0.0, 1.0]], ones), fe.nn.sigmoid(x), fe.nn.tanh(x))
[[2.0, 0.0]]
[0.27, 0.62, 1.0]
[-0.76, 0.46, 1.0]
>>> fe.nn.dropout(x, rate=0.5)
<Tensor 'dropout/mul:0' shape=[3] dtype=float32>
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flowengine.graphs.conversion import TensorLike, convert, graph_of
from flowengine.graphs.errors import ConstructionValueError
from flowengine.graphs.functions.math import sigmoid, tanh
from flowengine.graphs.functions.support import one, tensor_of
from flowengine.graphs.seeds import seeds_for
from flowengine.graphs.tensor import Tensor


def relu(features: TensorLike, name: str | None = None) -> Tensor:
    """max(x, 0). Real numbers."""
    return one("Relu", features, name=name)


def relu6(features: TensorLike, name: str | None = None) -> Tensor:
    """min(max(x, 0), 6). Real numbers."""
    return one("Relu6", features, name=name)


def leaky_relu(features: TensorLike, alpha: float = 0.2, name: str | None = None) -> Tensor:
    """x where it is positive, alpha x elsewhere. Floating point."""
    return one("LeakyRelu", features, alpha=alpha, name=name)


def elu(features: TensorLike, name: str | None = None) -> Tensor:
    """x where it is positive, exp(x) - 1 elsewhere (Clevert et al. 2015). Floating point."""
    return one("Elu", features, name=name)


def selu(features: TensorLike, name: str | None = None) -> Tensor:
    """Return the scaled exponential linear unit of self-normalising networks (Klambauer et al. 2017)."""
    return one("Selu", features, name=name)


def softplus(features: TensorLike, name: str | None = None) -> Tensor:
    """log(exp(x) + 1). Floating point."""
    return one("Softplus", features, name=name)


def softsign(features: TensorLike, name: str | None = None) -> Tensor:
    """x / (|x| + 1). Floating point."""
    return one("Softsign", features, name=name)


def swish(features: TensorLike, name: str | None = None) -> Tensor:
    """x sigmoid(x) (Ramachandran et al. 2017). Floating point."""
    x = tensor_of(features)
    with x.graph.name_scope(name or "swish"):
        return x * sigmoid(x)


def gelu(features: TensorLike, approximate: bool = False, name: str | None = None) -> Tensor:
    """x times the normal distribution's probability of less than x (Hendrycks and Gimpel 2016, section 2).

    `approximate` takes the form with tanh. Floating point.
    """
    x = tensor_of(features)
    with x.graph.name_scope(name or "Gelu"):
        if approximate:
            inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
            return 0.5 * x * (1.0 + tanh(inner))
        return 0.5 * x * (1.0 + one("Erf", x / math.sqrt(2.0)))


def softmax(logits: TensorLike, axis: int = -1, name: str | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) along an axis. Floating point."""
    return _along("Softmax", logits, axis, name)


def log_softmax(logits: TensorLike, axis: int = -1, name: str | None = None) -> Tensor:
    """x - log(sum(exp(x))) along an axis. Floating point."""
    return _along("LogSoftmax", logits, axis, name)


def bias_add(
    value: TensorLike, bias: TensorLike, data_format: str = "NHWC", name: str | None = None
) -> Tensor:
    """Add a bias, (channels,), to the last axis, or to the second if `data_format` is "NCHW"."""
    return one("BiasAdd", value, bias, data_format=_plain_format(data_format), name=name)


def xw_plus_b(x: TensorLike, weights: TensorLike, biases: TensorLike, name: str | None = None) -> Tensor:
    """x weights + biases: (n, m), (m, k) and (k,) -> (n, k)."""
    graph = graph_of(x, weights, biases)
    with graph.name_scope(name or "xw_plus_b") as scope:
        return one("BiasAdd", one("MatMul", x, weights, graph=graph), biases, name=scope)


def relu_layer(x: TensorLike, weights: TensorLike, biases: TensorLike, name: str | None = None) -> Tensor:
    """relu(x weights + biases): (n, m), (m, k) and (k,) -> (n, k)."""
    graph = graph_of(x, weights, biases)
    with graph.name_scope(name or "relu_layer") as scope:
        return one("Relu", one("BiasAdd", one("MatMul", x, weights, graph=graph), biases), name=scope)


def dropout(
    x: TensorLike,
    keep_prob: TensorLike = None,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
    rate: TensorLike = None,
) -> Tensor:
    """Set elements to 0 with probability `rate`, and divide the others by 1 - rate.

    Srivastava et al. 2014.

    keep_prob     1 - rate, instead of it
    noise_shape   the shape of the random choices, which broadcast to x: 1 for an axis that is dropped whole
    seed          of the random choices; with the graph's seed they are the same in each session

    Floating point. Raises ValueError (as InvalidArgumentError) for both or none of the two, or out of [0, 1).
    """
    value = tensor_of(x)
    graph, kind = value.graph, value.dtype.base
    if (keep_prob is None) == (rate is None):
        raise ConstructionValueError("dropout takes keep_prob or rate, one of them")
    if keep_prob is not None:
        rate = 1 - keep_prob
    if isinstance(rate, int | float):
        if not 0 <= rate < 1:
            raise ConstructionValueError(f"the rate of dropout is at least 0 and below 1, not {rate}")
        if rate == 0:
            return value
    with graph.name_scope(name or "dropout"):
        share = convert(graph, rate, kind, name="rate")
        known = value.shape.as_tuple()
        shape: Any = noise_shape
        if shape is None:
            shape = graph.ops.Shape(value) if known is None else np.array(known, np.int32)
        first, second = seeds_for(graph, seed)
        drawn = graph.ops.RandomUniform(shape, dtype=kind, seed=first, seed2=second)
        kept = graph.ops.Cast(graph.ops.GreaterEqual(drawn, share), DstT=kind)
        found: Tensor = (value / (1.0 - share)) * kept
        found.set_shape(value.shape)
        return found


def crelu(features: TensorLike, axis: int = -1, name: str | None = None) -> Tensor:
    """Concatenate relu(x) and relu(-x) along an axis (Shang et al. 2016)."""
    x = tensor_of(features)
    with x.graph.name_scope(name or "CRelu"):
        return one("Relu", one("ConcatV2", [x, -x], axis))


def _along(op: str, logits: TensorLike, axis: int, name: str | None) -> Tensor:
    """A function of the last axis, along any."""
    x = tensor_of(logits)
    count = x.shape.rank
    if axis == -1 or (count is not None and axis == count - 1):
        return one(op, x, name=name)
    if count is None or not -count <= axis < count:
        raise ConstructionValueError(f"there is no axis {axis} of shape {x.shape}")
    place = axis % count
    order = [*range(place), count - 1, *range(place + 1, count - 1), place]
    with x.graph.name_scope(name or op):
        return one("Transpose", one(op, one("Transpose", x, order)), order)


def _plain_format(data_format: str) -> str:
    """NHWC or NCHW, of a layout with any number of axes of space."""
    return "NCHW" if data_format.startswith("NC") else "NHWC"


__all__ = [
    "bias_add",
    "crelu",
    "dropout",
    "elu",
    "gelu",
    "leaky_relu",
    "log_softmax",
    "relu",
    "relu6",
    "relu_layer",
    "selu",
    "sigmoid",
    "softmax",
    "softplus",
    "softsign",
    "swish",
    "tanh",
    "xw_plus_b",
]
