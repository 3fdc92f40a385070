"""LRN and LRNGrad of nodes: `kernels/cuda/response_norm.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowengine.core.arrays import Array
from flowengine.ir.graph import Node
from flowengine.kernels.cuda import response_norm as kernels
from flowengine.kernels.cuda.serving import dense, serves
from flowengine.kernels.cuda.session_launcher import SessionLauncher


def _numbers(node: Node) -> dict[str, Any]:
    return {name: node.attrs[name] for name in ("depth_radius", "bias", "alpha", "beta")}


@serves("LRN", family="response_norm")
def response_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    numbers = _numbers(node)

    def compute(x: Array) -> Any:
        return kernels.response_norm(launcher, dense(launcher, x), **numbers) if x.ndim == 4 else otherwise(x)

    return compute


@serves("LRNGrad", family="response_norm")
def response_gradient_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    numbers = _numbers(node)

    def compute(gradient: Array, x: Array, y: Array) -> Any:
        if x.ndim != 4 or not gradient.shape == x.shape == y.shape:
            return otherwise(gradient, x, y)
        given = (dense(launcher, each) for each in (gradient, x, y))
        return kernels.response_norm_gradient(launcher, *given, **numbers)

    return compute


__all__ = ["response_gradient_kernel", "response_kernel"]
