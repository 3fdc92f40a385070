"""Pooling on a CPU: windows reduced axis by axis, a block of rows at a time, on every core."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.ir.graph import Node
from flowengine.kernels.common.array_args import integers
from flowengine.kernels.common.ufuncs import NARROW, float_kernel, widened
from flowengine.kernels.nn import pooling as plain
from flowengine.kernels.nn.pooling import accepts
from flowengine.kernels.numpy import window_extremes as pool
from flowengine.kernels.registry import kernel


@kernel("MaxPool", device="CPU", supports=accepts, fresh=True)
def max_pool(x: Array, *, ksize: Any, strides: Any, padding: bytes, data_format: bytes) -> Any:
    """The greatest of each window of (N, H, W, C)."""
    plain.check_rank(x, 4)
    return plain.max_pooled(np, pool, x, ksize, strides, padding, data_format)


@kernel("MaxPoolV2", device="CPU", fresh=True, host=("ksize", "strides"))
def max_pool_v2(x: Array, ksize: Array, strides: Array, *, padding: bytes, data_format: bytes) -> Any:
    """`MaxPool` with window and strides as tensors of four numbers."""
    plain.check_rank(x, 4)
    window, steps = integers(ksize, "ksize"), integers(strides, "strides")
    return plain.max_pooled(np, pool, x, window, steps, padding, data_format)


@kernel("MaxPool3D", device="CPU", supports=accepts, fresh=True)
def max_pool_3d(x: Array, *, ksize: Any, strides: Any, padding: bytes, data_format: bytes) -> Any:
    """The greatest of each window of (N, D, H, W, C)."""
    plain.check_rank(x, 5)

    def pooled(values: Array) -> Any:
        return plain.max_pooled(np, pool, values, ksize, strides, padding, data_format)

    return plain.without_numbers(np, x, pooled)


@kernel("MaxPoolGrad", "MaxPool3DGrad", device="CPU", supports=accepts, fresh=True)
def max_pool_grad(
    x: Array, y: Array, g: Array, *, ksize: Any, strides: Any, padding: bytes, data_format: bytes
) -> Any:
    """The gradient of the input from input, output and the output's gradient."""
    return plain.max_pooled_gradient(np, pool, x, y, g, ksize, strides, padding, data_format)


@kernel("MaxPoolGradV2", device="CPU", fresh=True, host=("ksize", "strides"))
def max_pool_grad_v2(
    x: Array, y: Array, g: Array, ksize: Array, strides: Array, *, padding: bytes, data_format: bytes
) -> Any:
    """`MaxPoolGrad` with window and strides as tensors of four numbers."""
    window, steps = ksize.reshape(-1).tolist(), strides.reshape(-1).tolist()
    return plain.max_pooled_gradient(np, pool, x, y, g, window, steps, padding, data_format)


@float_kernel("AvgPool", "AvgPool3D", device="CPU", supports=accepts, fresh=True)
def avg_pool(xp: Any, x: Array, *, ksize: Any, strides: Any, padding: bytes, data_format: bytes) -> Any:
    """The mean of each window; padding does not count."""
    return plain.average_pooled(xp, pool, x, ksize, strides, padding, data_format)


@kernel(
    "AvgPoolGrad",
    "AvgPool3DGrad",
    device="CPU",
    types={"T": NARROW},
    fresh=True,
    host=("orig_input_shape",),
)
@widened
def avg_pool_grad_narrow(xp: Any, orig_input_shape: Array, grad: Array, *, node: Node) -> Any:
    return plain.average_gradient(xp, pool, orig_input_shape, grad, node.attrs)


@kernel(
    "AvgPoolGrad", "AvgPool3DGrad", device="CPU", supports=accepts, fresh=True, host=("orig_input_shape",)
)
def avg_pool_grad(orig_input_shape: Array, grad: Array, *, node: Node) -> Any:
    """The gradient of a mean over windows, spread evenly over each window's real elements."""
    return plain.average_gradient(np, pool, orig_input_shape, grad, node.attrs)
