"""Convolutions of each channel by itself, alone or followed by one across channels.

inputs             (N, S_1, ..., S_k, I), with `data_format="channels_first"` (N, I, S_1, ..., S_k); I known
depthwise_kernel   (W_1, ..., W_k, I, depth_multiplier)
pointwise_kernel   (1, ..., 1, I * depth_multiplier, filters)
"""

from __future__ import annotations

from typing import Any

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
from flowengine.client.layers.convolution import with_bias
from flowengine.graphs.conversion import convert, graph_of
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.graphs.variables.scopes import Reuse


def separable_conv1d(
    inputs: Any,
    filters: int,
    kernel_size: Window,
    strides: Window = 1,
    padding: str = "valid",
    *,
    data_format: str = "channels_last",
    dilation_rate: Window = 1,
    depth_multiplier: int = 1,
    activation: Activation = None,
    use_bias: bool = True,
    depthwise_initializer: Any = None,
    pointwise_initializer: Any = None,
    bias_initializer: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Reuse | None = None,
) -> Tensor:
    """Sequences convolved by channel, then across channels: (N, S', filters); see the module."""
    what = "separable_conv1d"
    graph = graph_of(inputs)
    with layer_scope(graph, name, what, reuse):
        x = convert(graph, inputs)
        need_rank(what, x, 3)
        first, axis = channels_first(what, data_format), 2 if data_format == "channels_first" else 1
        ops, dtype = graph.ops, x.dtype.base
        channels = known_size(what, x, 1 if first else -1)
        sizes = window(what, "kernel_size", kernel_size, 1)
        depth = _weight(
            graph,
            "depthwise_kernel",
            [*sizes, channels, depth_multiplier],
            x,
            depthwise_initializer,
            trainable,
        )
        across = [1, channels * depth_multiplier, filters]
        point = _weight(graph, "pointwise_kernel", across, x, pointwise_initializer, trainable)
        step = window(what, "strides", strides, 1)[0]
        found = ops.DepthwiseConv2dNative(
            ops.ExpandDims(x, axis),
            ops.ExpandDims(depth, 0),
            strides=spread([step, step], first),
            padding=padding_of(what, padding),
            data_format=layout(2, first),
            dilations=spread([1, *window(what, "dilation_rate", dilation_rate, 1)], first),
        )
        found = _pointwise(graph, found, ops.ExpandDims(point, 0), first)
        if use_bias:
            offset = bias(graph, filters, dtype, _bias_options(bias_initializer, trainable))
            found = with_bias(graph, found, offset, first)
        return finished(ops.Squeeze(found, squeeze_dims=[axis]), activation)


def separable_conv2d(
    inputs: Any,
    filters: int,
    kernel_size: Window,
    strides: Window = 1,
    padding: str = "valid",
    *,
    data_format: str = "channels_last",
    dilation_rate: Window = 1,
    depth_multiplier: int = 1,
    activation: Activation = None,
    use_bias: bool = True,
    depthwise_initializer: Any = None,
    pointwise_initializer: Any = None,
    bias_initializer: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Reuse | None = None,
) -> Tensor:
    """Images convolved by channel, then across channels: (N, S_1', S_2', filters); see the module.

    The strides along both axes are equal.
    """
    what = "separable_conv2d"
    graph = graph_of(inputs)
    with layer_scope(graph, name, what, reuse):
        x = convert(graph, inputs)
        first = channels_first(what, data_format)
        found = _by_channel(
            graph,
            what,
            x,
            kernel_size,
            strides,
            padding,
            first,
            dilation_rate,
            depth_multiplier,
            depthwise_initializer,
            trainable,
        )
        across = [1, 1, known_size(what, found, 1 if first else -1), filters]
        point = _weight(graph, "pointwise_kernel", across, x, pointwise_initializer, trainable)
        found = _pointwise(graph, found, point, first)
        if use_bias:
            offset = bias(graph, filters, x.dtype.base, _bias_options(bias_initializer, trainable))
            found = with_bias(graph, found, offset, first)
        return finished(found, activation)


def depthwise_conv2d(
    inputs: Any,
    kernel_size: Window,
    strides: Window = 1,
    padding: str = "valid",
    *,
    data_format: str = "channels_last",
    dilation_rate: Window = 1,
    depth_multiplier: int = 1,
    activation: Activation = None,
    use_bias: bool = True,
    depthwise_initializer: Any = None,
    bias_initializer: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Reuse | None = None,
) -> Tensor:
    """Images convolved by channel: (N, S_1', S_2', I * depth_multiplier); see the module."""
    what = "depthwise_conv2d"
    graph = graph_of(inputs)
    with layer_scope(graph, name, what, reuse):
        x = convert(graph, inputs)
        first = channels_first(what, data_format)
        found = _by_channel(
            graph,
            what,
            x,
            kernel_size,
            strides,
            padding,
            first,
            dilation_rate,
            depth_multiplier,
            depthwise_initializer,
            trainable,
        )
        if use_bias:
            width = known_size(what, found, 1 if first else -1)
            options = _bias_options(bias_initializer, trainable)
            found = with_bias(graph, found, bias(graph, width, x.dtype.base, options), first)
        return finished(found, activation)


def _by_channel(
    graph: Graph,
    what: str,
    x: Tensor,
    kernel_size: Window,
    strides: Window,
    padding: str,
    first: bool,
    rate: Window,
    multiplier: int,
    initializer: Any,
    trainable: bool,
) -> Tensor:
    need_rank(what, x, 4)
    channels = known_size(what, x, 1 if first else -1)
    sizes = window(what, "kernel_size", kernel_size, 2)
    kernel = _weight(graph, "depthwise_kernel", [*sizes, channels, multiplier], x, initializer, trainable)
    result: Tensor = graph.ops.DepthwiseConv2dNative(
        x,
        kernel,
        strides=spread(window(what, "strides", strides, 2), first),
        padding=padding_of(what, padding),
        data_format=layout(2, first),
        dilations=spread(window(what, "dilation_rate", rate, 2), first),
        name="depthwise",
    )
    return result


def _pointwise(graph: Graph, x: Tensor, kernel: Tensor, first: bool) -> Tensor:
    result: Tensor = graph.ops.Conv2D(
        x, kernel, strides=[1, 1, 1, 1], padding="VALID", data_format=layout(2, first)
    )
    return result


def _weight(
    graph: Graph, name: str, shape: list[int], x: Tensor, initializer: Any, trainable: bool
) -> Tensor:
    options: LayerWeights = {"kernel_initializer": initializer, "trainable": trainable}
    return weight(graph, name, shape, x.dtype.base, options)


def _bias_options(initializer: Any, trainable: bool) -> LayerWeights:
    options: LayerWeights = {"trainable": trainable}
    if initializer is not None:
        options["bias_initializer"] = initializer
    return options
