"""Layers of networks, their losses and gradients."""

from __future__ import annotations

from typing import Any, Final

from tests.benchmarks.op_tables.bench import Bench, One, called, channels, images, kept, matrix, named

_SAME: Final[dict[str, Any]] = {"strides": [1, 1, 1, 1], "padding": "SAME"}
_POOL: Final[dict[str, Any]] = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}


def _norm(b: Bench, n: int) -> tuple[Any, ...]:
    x = images(b, n)
    return (x, *(b.floats(channels(n)) for _ in range(4)))


def _filtered(outputs: int | None = None) -> Any:
    return lambda b, n: (images(b, n), b.floats(3, 3, channels(n), outputs or channels(n)))


def _pooled(b: Bench, n: int) -> tuple[Any, Any]:
    x = images(b, n)
    side = x.shape.dims[1] // 2
    return x, b.floats(4, side, side, channels(n))


def _logits(b: Bench, n: int) -> Any:
    return b.floats(max(n // 16, 1), 16)


OPS: Final[dict[str, One]] = {
    "Conv2D": kept(_filtered(16), called("Conv2D", **_SAME)),
    "Conv2DBackpropInput": kept(
        _filtered(), lambda b, x, f: b.ops.Conv2DBackpropInput(b.ops.Shape(x), f, x, **_SAME)
    ),
    "Conv2DBackpropFilter": kept(
        _filtered(), lambda b, x, f: b.ops.Conv2DBackpropFilter(x, b.ops.Shape(f), x, **_SAME)
    ),
    "DepthwiseConv2dNative": kept(_filtered(1), called("DepthwiseConv2dNative", **_SAME)),
    "FusedBatchNormV3": kept(_norm, called("FusedBatchNormV3", is_training=False)),
    "FusedBatchNormGradV3": kept(
        lambda b, n: (images(b, n), *_norm(b, n)),
        lambda b, dy, x, scale, _, mean, variance: b.ops.FusedBatchNormGradV3(
            dy, x, scale, mean, variance, mean
        ),
    ),
    "BiasAdd": kept(lambda b, n: (b.floats(n // 16, 16), b.floats(16)), called("BiasAdd")),
    "BiasAddGrad": kept(lambda b, n: (b.floats(n // 16, 16),), called("BiasAddGrad")),
    **named(lambda op: kept(lambda b, n: (images(b, n),), called(op, **_POOL)), "MaxPool AvgPool"),
    "MaxPoolGrad": kept(
        _pooled, lambda b, x, dy: b.ops.MaxPoolGrad(x, b.ops.MaxPool(x, **_POOL), dy, **_POOL)
    ),
    "AvgPoolGrad": kept(_pooled, lambda b, x, dy: b.ops.AvgPoolGrad(b.ops.Shape(x), dy, **_POOL)),
    "LRN": kept(lambda b, n: (images(b, n),), called("LRN")),
    **named(lambda op: kept(lambda b, n: (_logits(b, n),), called(op)), "Softmax LogSoftmax"),
    "SoftmaxCrossEntropyWithLogits": kept(
        lambda b, n: (_logits(b, n), _logits(b, n)), called("SoftmaxCrossEntropyWithLogits")
    ),
    "SparseSoftmaxCrossEntropyWithLogits": kept(
        lambda b, n: (_logits(b, n), b.integers(max(n // 16, 1), below=16, least=0)),
        called("SparseSoftmaxCrossEntropyWithLogits"),
    ),
    "TopKV2": kept(lambda b, n: (b.floats(matrix(n), matrix(n)),), lambda b, x: b.ops.TopKV2(x, 5)),
    "InTopKV2": kept(
        lambda b, n: (_logits(b, n), b.integers(max(n // 16, 1), below=16, least=0)),
        lambda b, x, y: b.ops.InTopKV2(x, y, 3),
    ),
    "ResizeBilinear": kept(lambda b, n: (images(b, n),), lambda b, x: b.ops.ResizeBilinear(x, [24, 24])),
}
