"""Convolutions of 1, 2 and 3 axes.

inputs    (N, S_1, ..., S_k, I), with `data_format="channels_first"` (N, I, S_1, ..., S_k); I known
kernel    (W_1, ..., W_k, I / groups, filters); bias (filters,)
returns   as inputs with filters for I; S_i / stride_i rounded up with padding "same", else
          (S_i - (W_i - 1) * dilation_i) / stride_i rounded up
"""

from __future__ import annotations

from typing import Any, Unpack

from flowengine.client.layers.base import (
    Activation,
    LayerWeights,
    Window,
    bias,
    channels_first,
    finished,
    known_size,
    layer_scope,
    layout,
    need_rank,
    padding_of,
    spread,
    weight,
    window,
)
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.conversion import convert, graph_of
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.graphs.variables.scopes import Reuse


def conv1d(
    inputs: Any,
    filters: int,
    kernel_size: Window,
    strides: Window = 1,
    padding: str = "valid",
    *,
    data_format: str = "channels_last",
    dilation_rate: Window = 1,
    activation: Activation = None,
    use_bias: bool = True,
    name: str | None = None,
    reuse: Reuse | None = None,
    **weights: Unpack[LayerWeights],
) -> Tensor:
    """Convolve sequences; see the module. Padding "causal" lets a step see itself and earlier ones only."""
    graph = graph_of(inputs)
    with layer_scope(graph, name, "conv1d", reuse):
        x = convert(graph, inputs)
        sizes, steps, rates = _windows("conv1d", 1, kernel_size, strides, dilation_rate)
        first = channels_first("conv1d", data_format)
        kernel = _kernel("conv1d", graph, x, sizes, filters, first, weights)
        if padding == "causal":
            before = [(sizes[0] - 1) * rates[0], 0]
            x = graph.ops.Pad(x, [[0, 0], [0, 0], before] if first else [[0, 0], before, [0, 0]])
            padding = "valid"
        with graph.name_scope("conv1d"):
            wide = graph.ops.ExpandDims(x, 2 if first else 1)
            tall = graph.ops.ExpandDims(kernel, 0)
            found = graph.ops.Conv2D(
                wide,
                tall,
                strides=spread([1, *steps], first),
                padding=padding_of("conv1d", padding),
                data_format=layout(2, first),
                dilations=spread([1, *rates], first),
            )
            result = graph.ops.Squeeze(found, squeeze_dims=[2 if first else 1])
        if use_bias:
            result = with_bias(graph, result, bias(graph, filters, x.dtype.base, weights), first)
        return finished(result, activation)


def conv2d(
    inputs: Any,
    filters: int,
    kernel_size: Window,
    strides: Window = 1,
    padding: str = "valid",
    *,
    data_format: str = "channels_last",
    dilation_rate: Window = 1,
    activation: Activation = None,
    use_bias: bool = True,
    name: str | None = None,
    reuse: Reuse | None = None,
    **weights: Unpack[LayerWeights],
) -> Tensor:
    """Convolve images; see the module."""
    graph = graph_of(inputs)
    with layer_scope(graph, name, "conv2d", reuse):
        x = convert(graph, inputs)
        sizes, steps, rates = _windows("conv2d", 2, kernel_size, strides, dilation_rate)
        first = channels_first("conv2d", data_format)
        result = graph.ops.Conv2D(
            x,
            _kernel("conv2d", graph, x, sizes, filters, first, weights),
            strides=spread(steps, first),
            padding=padding_of("conv2d", padding),
            data_format=layout(2, first),
            dilations=spread(rates, first),
        )
        if use_bias:
            result = with_bias(graph, result, bias(graph, filters, x.dtype.base, weights), first)
        return finished(result, activation)


def conv3d(
    inputs: Any,
    filters: int,
    kernel_size: Window,
    strides: Window = 1,
    padding: str = "valid",
    *,
    data_format: str = "channels_last",
    dilation_rate: Window = 1,
    activation: Activation = None,
    use_bias: bool = True,
    name: str | None = None,
    reuse: Reuse | None = None,
    **weights: Unpack[LayerWeights],
) -> Tensor:
    """Convolve volumes; see the module."""
    graph = graph_of(inputs)
    with layer_scope(graph, name, "conv3d", reuse):
        x = convert(graph, inputs)
        sizes, steps, rates = _windows("conv3d", 3, kernel_size, strides, dilation_rate)
        first = channels_first("conv3d", data_format)
        result = graph.ops.Conv3D(
            x,
            _kernel("conv3d", graph, x, sizes, filters, first, weights),
            strides=spread(steps, first),
            padding=padding_of("conv3d", padding),
            data_format=layout(3, first),
            dilations=spread(rates, first),
        )
        if use_bias:
            result = with_bias(graph, result, bias(graph, filters, x.dtype.base, weights), first)
        return finished(result, activation)


def _windows(
    what: str, rank: int, kernel_size: Window, strides: Window, rate: Window
) -> tuple[list[int], list[int], list[int]]:
    sizes = window(what, "kernel_size", kernel_size, rank)
    steps = window(what, "strides", strides, rank)
    rates = window(what, "dilation_rate", rate, rank)
    if max(steps) > 1 and max(rates) > 1:
        raise InvalidArgumentError(f"layers.{what}: either strides {steps} or dilation_rate {rates} is all 1")
    return sizes, steps, rates


def _kernel(
    what: str, graph: Graph, x: Tensor, sizes: list[int], filters: int, first: bool, options: LayerWeights
) -> Tensor:
    need_rank(what, x, len(sizes) + 2)
    channels = known_size(what, x, 1 if first else -1)
    return weight(graph, "kernel", [*sizes, channels, filters], x.dtype.base, options)


def with_bias(graph: Graph, x: Tensor, offset: Tensor, first: bool) -> Tensor:
    """x with a bias (C,) added along its channels."""
    result: Tensor = graph.ops.BiasAdd(x, offset, data_format="NCHW" if first else "NHWC")
    return result
