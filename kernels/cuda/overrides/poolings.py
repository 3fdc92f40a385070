"""MaxPool, AvgPool and their gradients of nodes: `kernels/cuda/pooling.py`, channels last within."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowengine.core.arrays import Array
from flowengine.ir.graph import Node
from flowengine.kernels.common.array_args import integers
from flowengine.kernels.common.windows import Windows
from flowengine.kernels.cuda import pooling as kernels
from flowengine.kernels.cuda.serving import dense, serves
from flowengine.kernels.cuda.session_launcher import SessionLauncher
from flowengine.kernels.nn.pooling import (
    average_gradient,
    average_pooled,
    check_rank,
    max_pooled,
    max_pooled_gradient,
)


class CardWindows:
    """Reductions of windows, of arrays (N, *sizes, C): what `kernels/nn/pooling.py` asks for."""

    def __init__(self, launcher: SessionLauncher) -> None:
        self._launcher = launcher

    def maximum(self, x: Array, geometry: Windows) -> Any:
        """The greatest of each window, (N, *out, C); windows of axes more than one pass over NaN alone."""
        return kernels.max_pool(self._launcher, dense(self._launcher, x), geometry)

    def maximum_with_nan(self, x: Array, geometry: Windows) -> Any:
        """As `maximum`; a window of nothing but NaN gives NaN."""
        return kernels.max_pool(self._launcher, dense(self._launcher, x), geometry, keeps_nan=True)

    def maximum_gradient(self, x: Array, gradient: Array, geometry: Windows) -> Any:
        """The gradient of x: each window's goes to the first of its greatest elements."""
        launcher = self._launcher
        return kernels.max_pool_gradient(launcher, dense(launcher, x), dense(launcher, gradient), geometry)

    def mean(self, x: Array, geometry: Windows) -> Any:
        """The mean of each window, (N, *out, C)."""
        return kernels.avg_pool(self._launcher, dense(self._launcher, x), geometry)

    def mean_gradient(self, gradient: Array, geometry: Windows) -> Any:
        """The gradient of what was pooled: each window's spread evenly over its elements."""
        return kernels.avg_pool_gradient(self._launcher, dense(self._launcher, gradient), geometry)


class _KeepingNan(CardWindows):
    """Windows of three dimensions, in which a NaN among nothing else stays."""

    def maximum(self, x: Array, geometry: Windows) -> Any:
        return self.maximum_with_nan(x, geometry)


_Given = dict[str, Any]


def _attrs(node: Node, *names: str) -> _Given:
    return {name: node.attrs[name] for name in names}


@serves("MaxPool", "MaxPool3D", family="pooling")
def max_pool_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    rank = 4 if node.op == "MaxPool" else 5
    pool = (CardWindows if rank == 4 else _KeepingNan)(launcher)
    given = _attrs(node, "ksize", "strides", "padding", "data_format")

    def compute(x: Array) -> Any:
        check_rank(x, rank)
        return max_pooled(launcher.xp, pool, x, **given)

    return compute


@serves("MaxPoolV2", family="pooling")
def max_pool_v2_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    pool, given = CardWindows(launcher), _attrs(node, "padding", "data_format")

    def compute(x: Array, ksize: Array, strides: Array) -> Any:
        check_rank(x, 4)
        window, steps = integers(ksize, "ksize"), integers(strides, "strides")
        return max_pooled(launcher.xp, pool, x, window, steps, **given)

    return compute


@serves("MaxPoolGrad", "MaxPool3DGrad", family="pooling")
def max_pool_gradient_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    pool = CardWindows(launcher)
    given = _attrs(node, "ksize", "strides", "padding", "data_format")

    def compute(x: Array, y: Array, gradient: Array) -> Any:
        return max_pooled_gradient(launcher.xp, pool, x, y, gradient, **given)

    return compute


@serves("MaxPoolGradV2", family="pooling")
def max_pool_gradient_v2_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    pool, given = CardWindows(launcher), _attrs(node, "padding", "data_format")

    def compute(x: Array, y: Array, gradient: Array, ksize: Array, strides: Array) -> Any:
        window, steps = ksize.reshape(-1).tolist(), strides.reshape(-1).tolist()
        return max_pooled_gradient(launcher.xp, pool, x, y, gradient, window, steps, **given)

    return compute


@serves("AvgPool", "AvgPool3D", family="pooling")
def avg_pool_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    pool = CardWindows(launcher)
    given = _attrs(node, "ksize", "strides", "padding", "data_format")
    return lambda x: average_pooled(launcher.xp, pool, x, **given)


@serves("AvgPoolGrad", "AvgPool3DGrad", family="pooling")
def avg_pool_gradient_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    pool = CardWindows(launcher)

    def compute(orig_input_shape: Array, gradient: Array) -> Any:
        return average_gradient(launcher.xp, pool, orig_input_shape, gradient, node.attrs)

    return compute


__all__ = [
    "CardWindows",
    "avg_pool_gradient_kernel",
    "avg_pool_kernel",
    "max_pool_gradient_kernel",
    "max_pool_gradient_v2_kernel",
    "max_pool_kernel",
    "max_pool_v2_kernel",
]
