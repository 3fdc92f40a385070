"""Normalisation over a batch, with moving averages, and over the elements of an example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from flowengine.client.arguments import training_flag
from flowengine.client.layers.base import known_size, layer_scope
from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.conversion import convert, graph_of
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.graphs.variables import initializers, keys
from flowengine.graphs.variables.scopes import Reuse
from flowengine.graphs.variables.variable import GraphVariable

#: {axis of the channels of images with 4 axes: the data format of the fused op}
_IMAGE_FORMATS: Final = {1: "NCHW", 3: "NHWC"}


def batch_normalization(
    inputs: Any,
    axis: int = -1,
    *,
    momentum: float = 0.99,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    training: Any = False,
    trainable: bool = True,
    fused: bool | None = None,
    beta_initializer: Any = None,
    gamma_initializer: Any = None,
    moving_mean_initializer: Any = None,
    moving_variance_initializer: Any = None,
    beta_regularizer: Any = None,
    gamma_regularizer: Any = None,
    name: str | None = None,
    reuse: Reuse | None = None,
) -> Tensor:
    """Compute `gamma * (inputs - mean) / sqrt(variance + epsilon) + beta` for each channel.

    inputs      (D_1, ..., D_r) of floats; the channels, C of them, along `axis`
    training    a bool or a bool scalar Tensor: True uses the mean and variance of this batch, False the
                moving averages
    momentum    the weight of the old moving average in an update
    fused       whether to use the op for images of 4 axes; None uses it if it applies
    beta_initializer, gamma_initializer, moving_mean_initializer, moving_variance_initializer
                of the variables: by default zeros, ones, zeros and ones
    beta_regularizer, gamma_regularizer   of the variables: by default none
    returns     as inputs

    Variables, all (C,): `gamma` and `beta` (unless left out), `moving_mean` and `moving_variance`, which are
    not trainable. Their updates are listed under "update_ops": a training step must run them, as by
    `with graph.control_dependencies(graph.collection("update_ops"))`.

    Raises InvalidArgumentError for an invalid axis, or one of unknown size. Ioffe, Szegedy 2015.
    """
    graph = graph_of(inputs)
    with layer_scope(graph, name, "batch_normalization", reuse):
        x = convert(graph, inputs)
        rank = x.shape.rank
        if rank is None or not -rank <= axis < rank:
            raise InvalidArgumentError(
                f"layers.batch_normalization: axis {axis} is out of range for '{x.name}' of shape {x.shape}"
            )
        place = axis % rank
        channels = known_size("batch_normalization", x, place)
        kind = dtypes.float32 if x.dtype.base.size < 4 else x.dtype.base
        zeros, ones = initializers.zeros(), initializers.ones()

        def variable(key: str, initializer: Any, changes: bool, regularizer: Any = None) -> GraphVariable:
            made: GraphVariable = graph.get_variable(
                key,
                [channels],
                dtype=kind,
                initializer=initializer,
                trainable=changes,
                regularizer=regularizer,
            )
            return made

        gamma = variable("gamma", gamma_initializer or ones, trainable, gamma_regularizer) if scale else None
        beta = variable("beta", beta_initializer or zeros, trainable, beta_regularizer) if center else None
        mean = variable("moving_mean", moving_mean_initializer or zeros, False)
        variance = variable("moving_variance", moving_variance_initializer or ones, False)
        normalization = _NormalizationLayer(graph, x, place, epsilon, gamma, beta, mean, variance, momentum)
        training = training_flag(graph, "layers.batch_normalization", training)
        has_op = rank == 4 and place in _IMAGE_FORMATS and kind is dtypes.float32
        if fused and not has_op:
            raise InvalidArgumentError(
                "layers.batch_normalization: fused=True needs images of float16 or float32: leave it out"
            )
        return (
            normalization.fused(training) if has_op and fused is not False else normalization.plain(training)
        )


class _NormalizationLayer:
    """One layer's normalisation: the tensors that both ways of computing it share."""

    def __init__(
        self,
        graph: Graph,
        x: Tensor,
        axis: int,
        epsilon: float,
        gamma: GraphVariable | None,
        beta: GraphVariable | None,
        mean: GraphVariable,
        variance: GraphVariable,
        momentum: float,
    ) -> None:
        self._graph, self._x, self._axis, self._epsilon = graph, x, axis, epsilon
        self._gamma, self._beta, self._mean, self._variance = gamma, beta, mean, variance
        self._momentum = momentum

    def fused(self, training: Any) -> Tensor:
        """By the op that does mean, variance and scaling at once."""
        graph, ops = self._graph, self._graph.ops
        channels = self._mean.shape.as_list()
        ones, zeros = (graph.constant(each, self._mean.dtype, channels) for each in (1.0, 0.0))
        gamma = ones if self._gamma is None else self._gamma.value()
        beta = zeros if self._beta is None else self._beta.value()

        def normalized(is_training: bool) -> tuple[Tensor, Tensor, Tensor]:
            empty = graph.constant([], self._mean.dtype, [0])
            made = ops.FusedBatchNormV3(
                self._x,
                gamma,
                beta,
                empty if is_training else self._mean.value(),
                empty if is_training else self._variance.value(),
                epsilon=self._epsilon,
                data_format=_IMAGE_FORMATS[self._axis],
                is_training=is_training,
            )
            return made.y, made.batch_mean, made.batch_variance

        if isinstance(training, Tensor):
            y, mean, variance = graph.cond(training, lambda: normalized(True), lambda: normalized(False))
            self._update(mean, variance, training)
            found: Tensor = y
            return found
        y, mean, variance = normalized(bool(training))
        if training:
            self._update(mean, variance, None)
        return y

    def plain(self, training: Any) -> Tensor:
        """By reductions over all axes but the channels'."""
        ops, x = self._graph.ops, self._x
        if isinstance(training, Tensor):
            mean, variance = self._moments()
            chosen = (
                ops.SelectV2(training, mean, self._mean.value()),
                ops.SelectV2(training, variance, self._variance.value()),
            )
            self._update(mean, variance, training)
            mean, variance = chosen
        elif training:
            mean, variance = self._moments()
            self._update(mean, variance, None)
        else:
            mean, variance = self._mean.value(), self._variance.value()
        with self._graph.name_scope("batchnorm"):
            factor = ops.Rsqrt(ops.Add(variance, self._epsilon))
            if self._gamma is not None:
                factor = ops.Mul(factor, self._gamma.value())
            offset = ops.Neg(ops.Mul(mean, factor))
            if self._beta is not None:
                offset = ops.Add(offset, self._beta.value())
            factor, offset = self._along_axis(factor), self._along_axis(offset)
            kind = x.dtype.base
            if factor.dtype.base is not kind:
                factor, offset = ops.Cast(factor, DstT=kind), ops.Cast(offset, DstT=kind)
            result: Tensor = ops.Add(ops.Mul(x, factor), offset)
        return result

    def _moments(self) -> tuple[Tensor, Tensor]:
        """Mean and variance of the batch, (C,)."""
        graph, ops = self._graph, self._graph.ops
        axes = [axis for axis in range(self._x.shape.rank or 0) if axis != self._axis]
        with graph.name_scope("moments"):
            x = (
                self._x
                if self._x.dtype.base is self._mean.dtype
                else ops.Cast(self._x, DstT=self._mean.dtype)
            )
            mean = ops.Mean(x, axes, keep_dims=True, name="mean")
            squares = ops.SquaredDifference(x, ops.StopGradient(mean))
            variance = ops.Mean(squares, axes, name="variance")
            return ops.Squeeze(mean, squeeze_dims=axes), variance

    def _along_axis(self, values: Tensor) -> Tensor:
        """(C,) with axes of 1 so that it stands along the channels' axis."""
        behind = (self._x.shape.rank or 0) - 1 - self._axis
        if not behind:
            return values
        result: Tensor = self._graph.ops.Reshape(values, [-1] + [1] * behind)
        return result

    def _update(self, mean: Tensor, variance: Tensor, training: Tensor | None) -> None:
        """Move the averages towards this batch; not at all where `training` is False."""
        graph, ops = self._graph, self._graph.ops
        share: Any = graph.constant(1 - self._momentum, self._mean.dtype)
        if training is not None:
            share = ops.SelectV2(training, share, ops.ZerosLike(share))
        for variable, value in ((self._mean, mean), (self._variance, variance)):
            with graph.name_scope("AssignMovingAvg"):
                # Nothing of the batch is looked at where the averages stay: it may be nothing but NaN.
                step = ops.Mul(ops.Sub(variable.value(), value), share)
                if training is not None:
                    step = ops.SelectV2(training, step, ops.ZerosLike(step))
                graph.add_to_collection(keys.UPDATE_OPS, variable.assign_sub_op(step))


def layer_normalization(
    inputs: Any,
    axis: int | Sequence[int] = -1,
    *,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Any = None,
    gamma_initializer: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Reuse | None = None,
) -> Tensor:
    """Compute `gamma * (inputs - mean) / sqrt(variance + epsilon) + beta` for each example alone.

    inputs     (D_1, ..., D_r) of floats
    axis       the axes of mean and variance, of known sizes, which are also the shape of `gamma` and `beta`
    beta_initializer, gamma_initializer   of the variables: by default zeros and ones
    returns    as inputs

    Raises InvalidArgumentError for invalid axes, or axes of unknown size. Ba, Kiros, Hinton 2016.
    """
    graph = graph_of(inputs)
    with layer_scope(graph, name, "layer_normalization", reuse):
        x = convert(graph, inputs)
        rank, ops = x.shape.rank, graph.ops
        if rank is None:
            raise InvalidArgumentError(
                f"layers.layer_normalization: the rank of '{x.name}' must be known: use set_shape"
            )
        axes = sorted(each % rank for each in ([axis] if isinstance(axis, int) else axis))
        sizes = [known_size("layer_normalization", x, each) for each in axes]
        with graph.name_scope("moments"):
            mean = ops.Mean(x, axes, keep_dims=True)
            variance = ops.Mean(ops.SquaredDifference(x, ops.StopGradient(mean)), axes, keep_dims=True)
        factor = ops.Rsqrt(ops.Add(variance, epsilon))
        known = dict(zip(axes, sizes, strict=True))
        along = [known.get(each, 1) for each in range(rank)]

        def variable(key: str, initializer: Any) -> Tensor:
            made = graph.get_variable(
                key, sizes, dtype=x.dtype.base, initializer=initializer, trainable=trainable
            )
            value = convert(graph, made)
            whole = axes == list(range(rank - len(axes), rank))
            result: Tensor = value if whole else ops.Reshape(value, along)
            return result

        if scale:
            factor = ops.Mul(factor, variable("gamma", gamma_initializer or initializers.ones()))
        offset = ops.Neg(ops.Mul(mean, factor))
        if center:
            offset = ops.Add(offset, variable("beta", beta_initializer or initializers.zeros()))
        result: Tensor = ops.Add(ops.Mul(x, factor), offset)
        return result
