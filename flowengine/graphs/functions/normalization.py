"""Normalisation, and the losses that stand beside a softmax or a sigmoid.

`x`, `input`, `value`, `logits`, `labels`, `targets` and `log_input` are tensors of any shape, variables or
values that become constants; `axis` is an integer. Floating point of any width (bfloat16 among them);
arguments are of one type, which the result has too. Losses are elementwise unless a function says otherwise.

>>> graph = fe.Graph()
>>> def show(*tensors):
...     for value in fe.testing.evaluate(graph, [each.name for each in tensors]):
...         print(np.round(value.astype(float), 2).tolist())
>>> x = graph.constant([[3.0, 4.0], [0.0, 1.0]])
>>> mean, variance = fe.nn.moments(x, axes=0)
>>> show(mean, variance, fe.nn.l2_loss(x), fe.nn.l2_normalize(x, axis=1), fe.nn.zero_fraction(x))
[1.5, 2.5]
[2.25, 2.25]
13.0
[[0.6, 0.8], [0.0, 1.0]]
0.25
>>> show(fe.nn.batch_normalization(x, mean, variance, None, None, 1e-3))
[[1.0, 1.0], [-1.0, -1.0]]
>>> show(fe.nn.softmax_cross_entropy_with_logits([[1.0, 0.0], [0.0, 1.0]], x))
[1.31, 0.31]
>>> show(fe.nn.sparse_softmax_cross_entropy_with_logits([0, 1], x))
[1.31, 0.31]
>>> show(fe.nn.sigmoid_cross_entropy_with_logits([[1.0, 0.0], [0.0, 1.0]], x))
[[0.05, 4.02], [0.69, 0.31]]
>>> show(fe.nn.weighted_cross_entropy_with_logits([[1.0, 0.0], [0.0, 1.0]], x, 2.0))
[[0.1, 4.02], [0.69, 0.63]]
>>> show(fe.nn.log_poisson_loss([[1.0, 2.0], [0.0, 3.0]], x))
[[17.09, 46.6], [1.0, -0.28]]
>>> image = fe.reshape(x, [1, 2, 1, 2])
>>> show(fe.nn.lrn(image), fe.nn.local_response_normalization(image, depth_radius=1))
[[[[0.59, 0.78]], [[0.0, 0.71]]]]
[[[[0.59, 0.78]], [[0.0, 0.71]]]]
>>> show(fe.nn.fused_batch_norm(image, [1.0, 1.0], [0.0, 0.0])[0])
[[[[1.0, 1.0]], [[-1.0, -1.0]]]]
"""

from __future__ import annotations

from typing import Any

from flowengine.core import dtypes
from flowengine.graphs.conversion import TensorLike, convert, graph_of
from flowengine.graphs.errors import ConstructionValueError
from flowengine.graphs.functions.array import shape as shape_of
from flowengine.graphs.functions.reductions import reduce_mean, reduce_sum
from flowengine.graphs.functions.support import alike, axes_of, call, one, tensor_of
from flowengine.graphs.tensor import Tensor


def l2_loss(t: TensorLike, name: str | None = None) -> Tensor:
    """Return half the sum of squares of `t`: one number. Floating point."""
    return one("L2Loss", t, name=name)


def l2_normalize(x: TensorLike, axis: Any = None, epsilon: float = 1e-12, name: str | None = None) -> Tensor:
    """x / sqrt(max(sum(x squared), epsilon)) along axes. Floating point."""
    value = tensor_of(x)
    with value.graph.name_scope(name or "l2_normalize") as scope:
        total = reduce_sum(one("Square", value), axis, keepdims=True)
        return one("Mul", value, one("Rsqrt", one("Maximum", total, epsilon)), name=scope)


def moments(
    x: TensorLike, axes: Any, keepdims: bool = False, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Return (mean, variance) along `axes`, the variance divided by n. float16 is computed in float32.

    With `keepdims` a reduced axis stays with length 1.
    """
    value = tensor_of(x)
    graph, kind = value.graph, value.dtype.base
    with graph.name_scope(name or "moments"):
        wide = one("Cast", value, DstT=dtypes.float32) if kind is dtypes.float16 else value
        mean = reduce_mean(wide, axes, keepdims=True, name="mean")
        squares = one("SquaredDifference", wide, graph.ops.StopGradient(mean))
        variance = reduce_mean(squares, axes, keepdims=True, name="variance")
        found = [mean, variance]
        if not keepdims:
            reduced = axes_of(value, axes)
            if isinstance(reduced, Tensor):
                found = [reduce_mean(each, axes) for each in found]
            else:
                dims = [reduced] if isinstance(reduced, int) else list(reduced)
                found = [graph.ops.Squeeze(each, squeeze_dims=dims) for each in found]
        if kind is dtypes.float16:
            found = [graph.ops.Cast(each, DstT=kind) for each in found]
        return found[0], found[1]


def batch_normalization(
    x: TensorLike,
    mean: TensorLike,
    variance: TensorLike,
    offset: TensorLike | None,
    scale: TensorLike | None,
    variance_epsilon: float,
    name: str | None = None,
) -> Tensor:
    """scale (x - mean) / sqrt(variance + epsilon) + offset (Ioffe and Szegedy 2015); all broadcast.

    offset, scale      None to leave them out
    variance_epsilon   a number that keeps the root from zero
    """
    value = tensor_of(x)
    with value.graph.name_scope(name or "batchnorm"):
        factor = one("Rsqrt", tensor_of(variance, value) + variance_epsilon)
        if scale is not None:
            factor = factor * scale
        shift = -tensor_of(mean, value) * factor if offset is None else offset - mean * factor
        return value * factor + shift


def fused_batch_norm(
    x: TensorLike,
    scale: TensorLike,
    offset: TensorLike,
    mean: TensorLike = None,
    variance: TensorLike = None,
    epsilon: float = 0.001,
    data_format: str = "NHWC",
    is_training: bool = True,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalize images by channel: return (y, batch mean, batch variance).

    x               (N, H, W, C), or (N, C, H, W) if `data_format` is "NCHW"; float16 or float32
    scale, offset   (C,) float32
    mean, variance  (C,) float32; needed unless `is_training`, which uses those of the batch
    epsilon         a small number added to the variance

    Raises ValueError (as InvalidArgumentError) if mean and variance are needed and missing.
    """
    graph = graph_of(x, scale, offset)
    if not is_training and (mean is None or variance is None):
        raise ConstructionValueError("fused_batch_norm needs mean and variance where it is not training")
    known = graph.constant([], dtypes.float32) if mean is None else mean
    spread = graph.constant([], dtypes.float32) if variance is None else variance
    found = call(
        "FusedBatchNormV3",
        x,
        scale,
        offset,
        known,
        spread,
        epsilon=epsilon,
        data_format=data_format,
        is_training=is_training,
        name=name or "FusedBatchNorm",
    )
    return found[0], found[1], found[2]


def local_response_normalization(
    input: TensorLike,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
    name: str | None = None,
) -> Tensor:
    """x / (bias + alpha sum of squares of near channels) ** beta:

    (N, H, W, C) (Krizhevsky et al. 2012, 3.3).
    """
    return one("LRN", input, depth_radius=depth_radius, bias=bias, alpha=alpha, beta=beta, name=name)


lrn = local_response_normalization


def softmax_cross_entropy_with_logits(
    labels: TensorLike, logits: TensorLike, axis: int = -1, name: str | None = None
) -> Tensor:
    """- sum(labels log(softmax(logits))) along an axis, without that axis; both of one shape, floating point.

    The labels are differentiated, too: `stop_gradient` keeps that away.
    """
    scores, wanted = alike(logits, labels)
    graph, count = scores.graph, scores.shape.rank
    with graph.name_scope(name or "softmax_cross_entropy_with_logits"):
        last = axis in (-1, None) or (count is not None and axis == count - 1)
        if not last:
            if count is None:
                raise ConstructionValueError(f"'{scores.name}' has an unknown number of axes: use set_shape")
            place = axis % count
            order = [*range(place), *range(place + 1, count), place]
            scores, wanted = one("Transpose", scores, order), one("Transpose", wanted, order)
        if count == 2:
            found: Tensor = call("SoftmaxCrossEntropyWithLogits", scores, wanted)[0]
            return found
        shape = shape_of(scores)
        rows = [graph.ops.Reshape(each, _two_axes(shape)) for each in (scores, wanted)]
        loss = call("SoftmaxCrossEntropyWithLogits", *rows)[0]
        reshaped = one("Reshape", loss, shape[:-1])
        if scores.shape.rank is not None:
            reshaped.set_shape(list(scores.shape)[:-1])
        return reshaped


def sparse_softmax_cross_entropy_with_logits(
    labels: TensorLike, logits: TensorLike, name: str | None = None
) -> Tensor:
    """- log(softmax(logits)) of the class that each label names:

    (..., classes) and (...) integers -> (...).
    """
    graph = graph_of(labels, logits)
    scores, wanted = convert(graph, logits), convert(graph, labels)
    scope = name or "SparseSoftmaxCrossEntropyWithLogits"
    if scores.shape.rank == 2:
        plain: Tensor = call("SparseSoftmaxCrossEntropyWithLogits", scores, wanted, name=scope)[0]
        return plain
    with graph.name_scope(scope):
        rows = graph.ops.Reshape(scores, _two_axes(shape_of(scores)))
        loss = call("SparseSoftmaxCrossEntropyWithLogits", rows, graph.ops.Reshape(wanted, [-1]))[0]
        found = one("Reshape", loss, shape_of(wanted))
        found.set_shape(wanted.shape)
        return found


def sigmoid_cross_entropy_with_logits(
    labels: TensorLike, logits: TensorLike, name: str | None = None
) -> Tensor:
    """- z log(sigmoid(x)) - (1 - z) log(1 - sigmoid(x)) of logits x and labels z, element by element."""
    return weighted_cross_entropy_with_logits(labels, logits, None, name or "logistic_loss")


def weighted_cross_entropy_with_logits(
    labels: TensorLike, logits: TensorLike, pos_weight: TensorLike | None, name: str | None = None
) -> Tensor:
    """Do as sigmoid_cross_entropy_with_logits, with pos_weight as the weight of label 1. Floating point."""
    x, z = alike(logits, labels)
    with x.graph.name_scope(name or "logistic_loss") as scope:
        # max(x, 0) - x z + log(1 + exp(-|x|)): of x of either sign without overflow.
        soft = one("Log1p", one("Exp", -abs(x)))
        if pos_weight is None:
            return one("Add", one("Relu", x) - x * z, soft, name=scope)
        weight = 1 + (convert(x.graph, pos_weight, x.dtype.base) - 1) * z
        return one("Add", (1 - z) * x, weight * (soft + one("Relu", -x)), name=scope)


def log_poisson_loss(
    targets: TensorLike, log_input: TensorLike, compute_full_loss: bool = False, name: str | None = None
) -> Tensor:
    """exp(c) - z c of a rate's logarithm c, `log_input`, and counts z, `targets`.

    `compute_full_loss` adds Stirling's formula for log z!.
    """
    c, z = alike(log_input, targets)
    graph = c.graph
    with graph.name_scope(name or "log_poisson_loss"):
        found = one("Exp", c) - c * z
        if compute_full_loss:
            stirling = z * one("Log", z) - z + 0.5 * one("Log", z * 6.283185307179586)
            is_small = (z >= 0) & (z <= 1)
            found = found + one("Select", is_small, one("ZerosLike", z), stirling)
        return found


def zero_fraction(value: TensorLike, dtype: Any = dtypes.float32, name: str | None = None) -> Tensor:
    """Compute the share of zeros among all elements: one number of type `dtype`."""
    x = tensor_of(value)
    with x.graph.name_scope(name or "zero_fraction"):
        is_zero = one("Equal", x, x.graph.constant(0, x.dtype.base))
        return reduce_mean(one("Cast", is_zero, DstT=dtypes.as_dtype(dtype)))


def _two_axes(shape: Tensor) -> Tensor:
    """(-1, classes) of a shape (..., classes)."""
    graph = shape.graph
    found: Tensor = graph.ops.ConcatV2([[-1], shape[-1:]], 0)
    return found


__all__ = [
    "batch_normalization",
    "fused_batch_norm",
    "l2_loss",
    "l2_normalize",
    "local_response_normalization",
    "log_poisson_loss",
    "lrn",
    "moments",
    "sigmoid_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits",
    "sparse_softmax_cross_entropy_with_logits",
    "weighted_cross_entropy_with_logits",
    "zero_fraction",
]
