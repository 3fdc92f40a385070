"""BiasAdd and BiasAddGrad of nodes: `kernels/cuda/bias.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowengine.core.arrays import Array
from flowengine.ir.graph import Node
from flowengine.kernels.common.windows import is_channels_first
from flowengine.kernels.cuda import bias as kernels
from flowengine.kernels.cuda.serving import dense, serves
from flowengine.kernels.cuda.session_launcher import SessionLauncher


def _is_first(node: Node) -> bool:
    return is_channels_first(node.attrs.get("data_format", b"NHWC"))


@serves("BiasAdd", "BiasAddV1", family="bias")
def bias_kernel(launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    first = _is_first(node)

    def compute(value: Array, bias: Array) -> Any:
        channels_first = first and value.ndim > 2
        if value.ndim < 2 or bias.shape != (value.shape[1 if channels_first else -1],):
            return otherwise(value, bias)
        return kernels.bias_add(
            launcher, dense(launcher, value), dense(launcher, bias), channels_first=channels_first
        )

    return compute


@serves("BiasAddGrad", family="bias")
def bias_gradient_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    first = _is_first(node)

    def compute(gradient: Array) -> Any:
        if gradient.ndim < 2:
            return otherwise(gradient)
        channels_first = first and gradient.ndim > 2
        return kernels.bias_gradients(launcher, dense(launcher, gradient), channels_first=channels_first)[1]

    return compute


__all__ = ["bias_gradient_kernel", "bias_kernel"]
