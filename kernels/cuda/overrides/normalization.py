"""FusedBatchNorm and its gradients of nodes: `kernels/cuda/batch_norm.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.dtypes import float16, float32
from flowengine.ir.graph import Node
from flowengine.kernels.common.windows import is_channels_first
from flowengine.kernels.cuda import batch_norm as kernels
from flowengine.kernels.cuda.serving import dense, serves
from flowengine.kernels.cuda.session_launcher import SessionLauncher

#: The first version has one type for features and statistics.
_TYPES: Final = {"T": (float16, float32)}
_OF_FLOAT32: Final = {"T": (float32,)}
#: The version that reserves one number more for the gradient.
_RESERVES: Final = "FusedBatchNormV3"


def _is_usual(x: Array, first: bool, *vectors: Array) -> bool:
    """Whether there are images, and a number for each channel in every vector."""
    return bool(x.ndim == 4 and x.size) and all(v.shape == (x.shape[1 if first else -1],) for v in vectors)


def _normalizing(launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    attrs = node.attrs
    first, epsilon = is_channels_first(attrs["data_format"]), attrs["epsilon"]
    share = float(np.float32(attrs.get("exponential_avg_factor", 1.0)))
    reserves = node.op == _RESERVES

    def ended(*outputs: Any) -> tuple[Any, ...]:
        return (*outputs, launcher.xp.zeros((), np.float32)) if reserves else outputs

    def trained(x: Array, scale: Array, offset: Array, mean: Array, variance: Array) -> Any:
        given = () if share == 1 else (mean, variance)
        if not _is_usual(x, first, scale, offset, *given):
            return otherwise(x, scale, offset, mean, variance)
        if share == 1 and any(v.size and v.shape != scale.shape for v in (mean, variance)):
            return otherwise(x, scale, offset, mean, variance)
        x, scale, offset = (dense(launcher, each) for each in (x, scale, offset))
        y, found = kernels.by_batch_statistics(
            launcher, x, scale, offset, epsilon=epsilon, channels_first=first
        )
        moving = (found.mean.copy(), found.unbiased)
        if share != 1:
            moving = (
                kernels.moved(launcher, found.mean, dense(launcher, mean), share),
                kernels.moved(launcher, found.unbiased, dense(launcher, variance), share),
            )
        return ended(y, *moving, found.mean, found.biased)

    def given(x: Array, scale: Array, offset: Array, mean: Array, variance: Array) -> Any:
        if not _is_usual(x, first, scale, offset, mean, variance):
            return otherwise(x, scale, offset, mean, variance)
        every = (dense(launcher, each) for each in (x, scale, offset, mean, variance))
        y = kernels.by_given_statistics(launcher, *every, epsilon=epsilon, channels_first=first)
        return ended(y, mean.copy(), variance.copy(), mean.copy(), variance.copy())

    return trained if attrs["is_training"] else given


serves("FusedBatchNorm", family="batch_norm", types=_OF_FLOAT32)(_normalizing)
serves("FusedBatchNormV2", "FusedBatchNormV3", family="batch_norm", types=_TYPES)(_normalizing)


def _gradients(launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    attrs = node.attrs
    first, epsilon = is_channels_first(attrs["data_format"]), attrs["epsilon"]
    is_training = attrs["is_training"]

    def compute(
        gradient: Array, x: Array, scale: Array, mean: Array, variance: Array, *reserved: Array
    ) -> Any:
        if gradient.shape != x.shape or not _is_usual(x, first, scale, mean, variance):
            return otherwise(gradient, x, scale, mean, variance, *reserved)
        every = (dense(launcher, each) for each in (gradient, x, scale, mean, variance))
        found = kernels.gradients(
            launcher, *every, epsilon=epsilon, is_training=is_training, channels_first=first
        )
        nothing = launcher.xp.zeros((), np.float32)
        return *found, nothing, nothing.copy()

    return compute


serves("FusedBatchNormGrad", family="batch_norm", types=_OF_FLOAT32)(_gradients)
serves("FusedBatchNormGradV2", "FusedBatchNormGradV3", family="batch_norm", types=_TYPES)(_gradients)

__all__: list[str] = []
