"""Depthwise convolution and its two gradients: one group of filters for each channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from flowengine.core.arrays import Array
from flowengine.ir.graph import Node
from flowengine.kernels.onednn.convolution import (
    Convolution,
    filter_gradient_kernel,
    input_gradient_kernel,
)
from flowengine.kernels.onednn.layers.shapes import WindowAttributes
from flowengine.kernels.onednn.serving import FLOAT32, serves

#: Multiplications and additions of one core in a microsecond.
_PRODUCTS: Final = 20_000.0


def _forward_cost(x: Array, filters: Array) -> float:
    return x.size * filters[..., 0, 0].size / _PRODUCTS if filters.ndim == 4 else 0.0


def _gradient_cost(sizes: Array, other: Array, gradient: Array) -> float:
    return gradient.size * 9 / _PRODUCTS


@serves("DepthwiseConv2dNative", types=FLOAT32, heavy=_forward_cost)
def depthwise(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    return Convolution(WindowAttributes.of(node, depthwise=True), otherwise)


@serves("DepthwiseConv2dNativeBackpropInput", types=FLOAT32, heavy=_gradient_cost)
def depthwise_backprop_input(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    return input_gradient_kernel(WindowAttributes.of(node, depthwise=True), otherwise)


@serves("DepthwiseConv2dNativeBackpropFilter", types=FLOAT32, heavy=_gradient_cost)
def depthwise_backprop_filter(node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    return filter_gradient_kernel(WindowAttributes.of(node, depthwise=True), otherwise)
