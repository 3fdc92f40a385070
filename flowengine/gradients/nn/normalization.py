"""Batch normalisation in its versions, and local response normalisation.

Below, x is normalised over a batch, for each channel by itself: with the mean m and the variance v of n
elements, r = 1 / sqrt(v + epsilon) and h = (x - m) r. A gradient passes through the normalisation as r P(g),
where P(g) = g - mean(g) - h mean(g h): what is left of g when its mean and its part along h are taken away.
P is symmetric.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import same
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor

#: How a batch is normalised.
BATCH_NORM: Final = ("epsilon", "data_format", "is_training")
#: How neighbouring channels are.
NEIGHBOURS: Final = ("depth_radius", "bias", "alpha", "beta")

Function: TypeAlias = Callable[[Tensor], Tensor]


@gradient("FusedBatchNorm", lazy=True)
def fused_norm(b: Backward, op: Operation, y: Tensor | None, *_: Tensor | None) -> Results:
    """The gradient by x, scale and offset of y alone, as in TensorFlow; the statistics are taken as given."""
    found = b.ops.FusedBatchNormGrad(*_gradient_inputs(b, op, y), **same(op, *BATCH_NORM))
    return [*found[:3], None, None]


def _gradient_inputs(b: Backward, op: Operation, y: Tensor | None) -> list[Tensor]:
    """Return the inputs of all versions of the gradient: dy, x, scale, and the statistics that were used."""
    dy = b.zeros_like(op.outputs[0]) if y is None else y
    statistics = op.outputs[3:5] if op.get_attr("is_training") else op.inputs[3:5]
    return [dy, *op.inputs[:2], *statistics]


@gradient("FusedBatchNormV2", lazy=True)
def fused_norm_v2(b: Backward, op: Operation, y: Tensor | None, *_: Tensor | None) -> Results:
    found = b.ops.FusedBatchNormGradV2(*_gradient_inputs(b, op, y), **same(op, *BATCH_NORM))
    return [*found[:3], None, None]


@gradient("FusedBatchNormV3", lazy=True)
def fused_norm_v3(b: Backward, op: Operation, y: Tensor | None, *_: Tensor | None) -> Results:
    found = b.ops.FusedBatchNormGradV3(*_gradient_inputs(b, op, y), op.outputs[5], **same(op, *BATCH_NORM))
    return [*found[:3], None, None]


@gradient("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3")
def fused_norm_grad(b: Backward, op: Operation, gx: Tensor, gs: Tensor, go: Tensor, *_: Tensor) -> Results:
    """Gradients by dy, x and scale, from those of dx, d scale and d offset."""
    dy, x, scale = op.inputs[:3]
    kind, wide_kind = x.dtype, scale.dtype
    if kind != wide_kind:
        dy, x, gx = [b.ops.Cast(each, DstT=wide_kind) for each in (dy, x, gx)]
    by_channel = _channels_of(b, op)
    scale, gs, go = by_channel(scale), by_channel(gs), by_channel(go)
    rule = _of_batch if op.get_attr("is_training") else _of_given
    d_dy, d_x, d_scale = rule(b, op, dy, x, scale, gx, gs, go)
    if kind != wide_kind:
        d_dy, d_x = [b.ops.Cast(each, DstT=kind) for each in (d_dy, d_x)]
    return [d_dy, d_x, d_scale, *[None] * (len(op.inputs) - 3)]


def _channels_of(b: Backward, op: Operation) -> Function:
    """Return a function that lays a vector (C) along the channels of the layout."""
    if op.get_attr("data_format") == b"NCHW":
        layout = b.constant([1, -1, 1, 1], "int32")
        return lambda vector: b.ops.Reshape(vector, layout)
    return lambda vector: vector


def _axes(b: Backward, op: Operation) -> Tensor:
    """All but the channels."""
    return b.constant([0, 2, 3] if op.get_attr("data_format") == b"NCHW" else [0, 1, 2], "int32")


def _of_batch(
    b: Backward, op: Operation, dy: Tensor, x: Tensor, scale: Tensor, gx: Tensor, gs: Tensor, go: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The op computed dx = scale r P(dy), d scale = sum(dy h) and d offset = sum(dy), for each channel.

    h depends on x, by way of r P; and r depends on x, with the slope -r^2 h / n.
    """
    o, axes = b.ops, _axes(b, op)

    def mean(t: Tensor) -> Tensor:
        found: Tensor = o.Mean(t, axes, keep_dims=True)
        return found

    centred = o.Sub(x, mean(x))
    epsilon = b.constant(op.get_attr("epsilon"), scale.dtype)
    r = o.Rsqrt(o.Add(mean(o.Square(centred)), epsilon))
    h = o.Mul(centred, r)

    def project(g: Tensor, along: Tensor) -> Tensor:
        found: Tensor = o.Sub(o.Sub(g, mean(g)), o.Mul(h, along))
        return found

    dy_along, gx_along = mean(o.Mul(dy, h)), mean(o.Mul(gx, h))
    projected = project(dy, dy_along)
    strength = o.Mul(scale, r)
    d_dy = o.Add(o.Add(o.Mul(strength, project(gx, gx_along)), o.Mul(gs, h)), go)
    by_h = o.Sub(o.Mul(gs, dy), o.Mul(strength, o.Add(o.Mul(gx, dy_along), o.Mul(dy, gx_along))))
    agreement = mean(o.Mul(gx, projected))
    by_r = o.Mul(o.Mul(strength, agreement), h)
    d_x = o.Mul(r, o.Sub(project(by_h, mean(o.Mul(by_h, h))), by_r))
    return d_dy, d_x, o.Sum(o.Mul(o.Mul(gx, projected), r), axes)


def _of_given(
    b: Backward, op: Operation, dy: Tensor, x: Tensor, scale: Tensor, gx: Tensor, gs: Tensor, go: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """With statistics that are given, dx = scale r dy, d scale = sum(dy (x - m) r), d offset = sum(dy)."""
    o, by_channel = b.ops, _channels_of(b, op)
    mean, variance = by_channel(op.inputs[3]), by_channel(op.inputs[4])
    r = o.Rsqrt(o.Add(variance, b.constant(op.get_attr("epsilon"), scale.dtype)))
    strength, slope = o.Mul(scale, r), o.Mul(gs, r)
    d_dy = o.Add(o.Add(o.Mul(strength, gx), o.Mul(slope, o.Sub(x, mean))), go)
    return d_dy, o.Mul(slope, dy), o.Sum(o.Mul(o.Mul(gx, dy), r), _axes(b, op))


@gradient("BatchNormWithGlobalNormalization")
def global_norm(b: Backward, op: Operation, grad: Tensor) -> Results:
    x, mean, variance, _, gamma = op.inputs
    how = same(op, "variance_epsilon", "scale_after_normalization")
    return list(b.ops.BatchNormWithGlobalNormalizationGrad(x, mean, variance, gamma, grad, **how))


@gradient("BatchNormWithGlobalNormalizationGrad")
def global_norm_grad(
    b: Backward, op: Operation, gx: Tensor, gm: Tensor, gv: Tensor, gb: Tensor, gg: Tensor
) -> Results:
    """Gradients by x, mean, variance, gamma and dy; c = x - mean, and gamma is 1 where it does not scale.

    The op computed dx = dy gamma r, dm = -sum(dx), dv = -sum(dx c r^2) / 2, db = sum(dy) and
    dg = sum(dy c r).
    """
    o = b.ops
    x, mean, variance, gamma, dy = op.inputs
    kind, scales = x.dtype, op.get_attr("scale_after_normalization")
    r = o.Rsqrt(o.Add(variance, b.constant(op.get_attr("variance_epsilon"), kind)))
    c, strength = o.Sub(x, mean), o.Mul(gamma, r) if scales else r
    # What dx is multiplied by, and its slope in c: dx appears in the first three results.
    slope = o.Mul(b.constant(-0.5, kind), o.Mul(gv, o.Square(r)))
    factor = o.Add(o.Sub(gx, gm), o.Mul(slope, c))
    by_c = o.Mul(strength, slope)
    d_dy, by_r = (
        o.Add(o.Mul(strength, factor), gb),
        o.Add(factor, o.Mul(b.constant(2, kind), o.Mul(slope, c))),
    )
    if scales:
        along = o.Mul(gg, c)
        d_dy, by_c = o.Add(d_dy, o.Mul(along, r)), o.Add(by_c, o.Mul(gg, r))
        by_r = o.Add(o.Mul(gamma, by_r), along)
    axes = b.constant([0, 1, 2], "int32")
    d_x = o.Mul(dy, by_c)
    cubed = o.Mul(b.constant(-0.5, kind), o.Mul(r, o.Square(r)))
    d_gamma = o.Sum(o.Mul(o.Mul(dy, r), factor), axes) if scales else b.zeros_like(gamma)
    d_variance = o.Mul(cubed, o.Sum(o.Mul(dy, by_r), axes))
    return [d_x, o.Neg(o.Sum(d_x, axes)), d_variance, d_gamma, d_dy]


@gradient("LRN")
def local_norm(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [b.ops.LRNGrad(grad, op.inputs[0], op.outputs[0], **same(op, *NEIGHBOURS))]


@gradient("LRNGrad")
def local_norm_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """Gradients by dy, x and y of dx = dy n^-beta - 2 alpha beta x W(dy y / n).

    W sums over neighbouring channels, n = bias + alpha W(x^2).
    """
    o = b.ops
    dy, x, y = op.inputs
    kind = x.dtype
    alpha, beta = (b.constant(op.get_attr(name), kind) for name in ("alpha", "beta"))
    twice = b.constant(2 * op.get_attr("alpha") * op.get_attr("beta"), kind)
    window = _neighbours(b, op)
    n = o.Add(b.constant(op.get_attr("bias"), kind), o.Mul(alpha, window(o.Square(x))))
    power = o.Pow(n, o.Neg(beta))
    # What dy y / n is multiplied by, and the gradient by n.
    spread = o.Mul(twice, window(o.Mul(x, grad)))
    ratio = o.RealDiv(o.Mul(dy, y), n)
    by_n = o.RealDiv(o.Sub(o.Mul(spread, ratio), o.Mul(beta, o.Mul(o.Mul(grad, dy), power))), n)
    through_n = o.Mul(o.Mul(b.constant(2 * op.get_attr("alpha"), kind), x), window(by_n))
    d_x = o.Sub(through_n, o.Mul(twice, o.Mul(grad, window(ratio))))
    return [
        o.Sub(o.Mul(grad, power), o.RealDiv(o.Mul(spread, y), n)),
        d_x,
        o.Neg(o.RealDiv(o.Mul(spread, dy), n)),
    ]


def _neighbours(b: Backward, op: Operation) -> Function:
    """Return a function that sums channels within the radius: a product with a band of ones, (C, C)."""
    x = op.inputs[1]
    channels = b.ops.GatherV2(b.shape(x), b.constant([3, 3], "int32"), b.constant(0, "int32"))
    count = b.ops.GatherV2(channels, b.constant(0, "int32"), b.constant(0, "int32"))
    radius = b.ops.Minimum(b.constant(op.get_attr("depth_radius"), "int32"), count)
    band = b.ops.MatrixBandPart(b.ops.Fill(channels, b.constant(1, x.dtype)), radius, radius)
    return lambda t: b.ops.BatchMatMulV2(t, band)
