"""Batch normalisation on a CPU, over blocks of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.ir.graph import Node
from flowengine.kernels.nn import normalization as plain
from flowengine.kernels.numpy import row_norms
from flowengine.kernels.numpy.activations import relu
from flowengine.kernels.registry import kernel


@kernel("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", device="CPU", fresh=True)
def fused_batch_norm(
    x: Array, scale: Array, offset: Array, mean: Array, variance: Array, *, node: Node
) -> Any:
    """Normalise each channel of (N, H, W, C) or (N, C, H, W), then scale and shift it."""
    return plain.batch_normalized(np, row_norms, x, scale, offset, mean, variance, node)


@kernel("_BatchNormRelu", device="CPU", fresh=True)
def batch_norm_relu(
    x: Array, scale: Array, offset: Array, mean: Array, variance: Array, *, node: Node
) -> Any:
    """`FusedBatchNormV3`, the first result through Relu: see `kernels/onednn/claims/rectify_norms.py`."""
    y, *others = fused_batch_norm(x, scale, offset, mean, variance, node=node)
    return (relu(y), *others)


@kernel("FusedBatchNormGrad", "FusedBatchNormGradV2", device="CPU", fresh=True)
def fused_batch_norm_grad(
    y_backprop: Array, x: Array, scale: Array, mean: Array, variance: Array, *, node: Node
) -> Any:
    """Gradients of x, scale and offset from the saved mean and (biased) variance."""
    return plain.batch_gradients(np, row_norms, y_backprop, x, scale, mean, variance, node)


@kernel("FusedBatchNormGradV3", device="CPU", fresh=True)
def fused_batch_norm_grad_v3(
    y_backprop: Array, x: Array, scale: Array, mean: Array, variance: Array, reserved: Array, *, node: Node
) -> Any:
    """`FusedBatchNormGradV2` with a reserved input that is not needed here."""
    return plain.batch_gradients(np, row_norms, y_backprop, x, scale, mean, variance, node)
