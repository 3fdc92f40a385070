"""Convolutions of each channel by itself, alone or followed by one across channels.

inputs             (N, S_1, ..., S_k, I) of floats, I known; with `data_format="channels_first"`
                   (N, I, S_1, ..., S_k)
depthwise_kernel   (W_1, ..., W_k, I, depth_multiplier)
pointwise_kernel   (1, ..., 1, I * depth_multiplier, filters)
padding            "valid" or "same"; the strides along all axes are equal
returns            as inputs; S_i / stride_i rounded up with padding "same", else
                   (S_i - (W_i - 1) * dilation_i) / stride_i rounded up

Errors: InvalidArgumentError for another rank, unknown channels, or invalid numbers and options.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from flowengine.client.layers.base import Activation, LayerEnd, ended, scope_of, weight
from flowengine.client.layers.windows import ChannelOrder, Window, WindowForm
from flowengine.graphs.conversion import convert, graph_of
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor


class DepthwiseOptions(LayerEnd, ChannelOrder, total=False):
    """Options of a convolution by channel: `LayerEnd`, `ChannelOrder`, and

    depth_multiplier   how many channels are made of each, 1 unless it is given
    dilation_rate      how far apart the elements of a window are, 1 unless it is given
    activation         applied at the end, a function of a tensor or its name
    depthwise_...      initializer, regularizer, constraint of the kernel; bias_... those of the bias; see
                       `LayerWeights`
    trainable          whether optimizers change the variables; True unless it is given
    """

    depth_multiplier: int
    dilation_rate: Window
    activation: Activation
    depthwise_initializer: Any
    depthwise_regularizer: Any
    depthwise_constraint: Any
    bias_initializer: Any
    bias_regularizer: Any
    bias_constraint: Any
    trainable: bool


class SeparableOptions(DepthwiseOptions, total=False):
    """Options of a separable convolution: `DepthwiseOptions`, and those of the kernel across channels."""

    pointwise_initializer: Any
    pointwise_regularizer: Any
    pointwise_constraint: Any


def separable_conv1d(
    inputs: Any,
    filters: int,
    kernel_size: Window,
    strides: Window = 1,
    padding: str = "valid",
    **options: Unpack[SeparableOptions],
) -> Tensor:
    """Convolve sequences by channel, then across channels: (N, S', filters).

    inputs    (N, S, I) of floats, I known; with data_format="channels_first" I comes second

    Raises InvalidArgumentError for another rank, unknown channels, or invalid numbers and options.
    Chollet 2017.
    """
    what = "separable_conv1d"
    graph = graph_of(inputs)
    with scope_of(graph, what, options, SeparableOptions):
        x = convert(graph, inputs)
        form = WindowForm.of(what, x, 1, kernel_size, strides, padding, options)
        return _by_channel(graph, x, form, filters, options)


def separable_conv2d(
    inputs: Any,
    filters: int,
    kernel_size: Window,
    strides: Window = 1,
    padding: str = "valid",
    **options: Unpack[SeparableOptions],
) -> Tensor:
    """Convolve images by channel, then across channels: (N, S_1', S_2', filters).

    inputs    (N, H, W, I) of floats, I known; with data_format="channels_first" I comes second

    Raises InvalidArgumentError for another rank, unknown channels, or invalid numbers and options.
    Chollet 2017.
    """
    what = "separable_conv2d"
    graph = graph_of(inputs)
    with scope_of(graph, what, options, SeparableOptions):
        x = convert(graph, inputs)
        form = WindowForm.of(what, x, 2, kernel_size, strides, padding, options)
        return _by_channel(graph, x, form, filters, options)


def depthwise_conv2d(
    inputs: Any,
    kernel_size: Window,
    strides: Window = 1,
    padding: str = "valid",
    **options: Unpack[DepthwiseOptions],
) -> Tensor:
    """Convolve images by channel: (N, S_1', S_2', I * depth_multiplier).

    inputs    (N, H, W, I) of floats, I known; with data_format="channels_first" I comes second

    Raises InvalidArgumentError for another rank, unknown channels, or invalid numbers and options.
    """
    what = "depthwise_conv2d"
    graph = graph_of(inputs)
    with scope_of(graph, what, options, DepthwiseOptions):
        x = convert(graph, inputs)
        form = WindowForm.of(what, x, 2, kernel_size, strides, padding, options)
        return _by_channel(graph, x, form, None, options)


def _by_channel(
    graph: Graph, x: Tensor, form: WindowForm, filters: int | None, options: Mapping[str, Any]
) -> Tensor:
    """The convolution by channel, and the one across channels where `filters` are wanted."""
    ops, dtype = graph.ops, x.dtype.base
    channels, multiplier = form.channels(x), options.get("depth_multiplier", 1)
    units = channels * multiplier
    by_channel = [*form.sizes, channels, multiplier]
    depth = weight(graph, "depthwise_kernel", by_channel, dtype, options, "depthwise")
    if filters is not None:
        across = [*(1 for _ in form.sizes), units, filters]
        point = weight(graph, "pointwise_kernel", across, dtype, options, "pointwise")
    # The op requires equal strides, also along the height of a sequence's image.
    strides = form.spread(form.strides * 2 if len(form.sizes) == 1 else form.strides)
    attrs = {**form.attrs, "strides": strides}

    def convolved(image: Tensor) -> Tensor:
        kernel = form.kernel_of_image(depth)
        rates = form.spread(form.rates)
        found: Tensor = ops.DepthwiseConv2dNative(image, kernel, dilations=rates, **attrs, name="depthwise")
        if filters is None:
            return found
        layout = attrs["data_format"]
        across = form.kernel_of_image(point)
        result: Tensor = ops.Conv2D(found, across, strides=[1, 1, 1, 1], padding="VALID", data_format=layout)
        return result

    result = form.over_image(x, convolved)
    width = units if filters is None else filters
    return ended(result, width, options, options.get("activation"), form.axis)
