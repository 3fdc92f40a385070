"""Transposed convolutions: the gradient of a convolution as a layer, which makes images larger.

inputs    (N, S_1, ..., S_k, I), with `data_format="channels_first"` (N, I, S_1, ..., S_k); I known
kernel    (W_1, ..., W_k, filters, I); bias (filters,)
returns   as inputs with filters for I and S_i * stride_i with padding "same", else
          S_i * stride_i + max(W_i - stride_i, 0)
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
from flowengine.client.layers.convolution import with_bias
from flowengine.graphs.conversion import convert, graph_of
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.graphs.variables.scopes import Reuse


def conv2d_transpose(
    inputs: Any,
    filters: int,
    kernel_size: Window,
    strides: Window = 1,
    padding: str = "valid",
    *,
    data_format: str = "channels_last",
    activation: Activation = None,
    use_bias: bool = True,
    name: str | None = None,
    reuse: Reuse | None = None,
    **weights: Unpack[LayerWeights],
) -> Tensor:
    """The transpose of a convolution of images; see the module."""
    graph = graph_of(inputs)
    with layer_scope(graph, name, "conv2d_transpose", reuse):
        x = convert(graph, inputs)
        return _transposed(
            "conv2d_transpose",
            graph,
            x,
            filters,
            kernel_size,
            strides,
            padding,
            data_format,
            activation,
            use_bias,
            weights,
            2,
        )


def conv3d_transpose(
    inputs: Any,
    filters: int,
    kernel_size: Window,
    strides: Window = 1,
    padding: str = "valid",
    *,
    data_format: str = "channels_last",
    activation: Activation = None,
    use_bias: bool = True,
    name: str | None = None,
    reuse: Reuse | None = None,
    **weights: Unpack[LayerWeights],
) -> Tensor:
    """The transpose of a convolution of volumes; see the module."""
    graph = graph_of(inputs)
    with layer_scope(graph, name, "conv3d_transpose", reuse):
        x = convert(graph, inputs)
        return _transposed(
            "conv3d_transpose",
            graph,
            x,
            filters,
            kernel_size,
            strides,
            padding,
            data_format,
            activation,
            use_bias,
            weights,
            3,
        )


def _transposed(
    what: str,
    graph: Graph,
    x: Tensor,
    filters: int,
    kernel_size: Window,
    strides: Window,
    padding: str,
    data_format: str,
    activation: Activation,
    use_bias: bool,
    options: LayerWeights,
    rank: int,
) -> Tensor:
    need_rank(what, x, rank + 2)
    sizes = window(what, "kernel_size", kernel_size, rank)
    steps = window(what, "strides", strides, rank)
    first, pads = channels_first(what, data_format), padding_of(what, padding)
    channels = known_size(what, x, 1 if first else -1)
    kernel = weight(graph, "kernel", [*sizes, filters, channels], x.dtype.base, options)
    ops = graph.ops
    convolve = ops.Conv2DBackpropInput if rank == 2 else ops.Conv3DBackpropInputV2
    result = convolve(
        _output_shape(graph, x, sizes, steps, filters, pads, first),
        kernel,
        x,
        strides=spread(steps, first),
        padding=pads,
        data_format=layout(rank, first),
    )
    if use_bias:
        result = with_bias(graph, result, bias(graph, filters, x.dtype.base, options), first)
    return finished(result, activation)


def _output_shape(
    graph: Graph, x: Tensor, sizes: list[int], steps: list[int], filters: int, padding: str, first: bool
) -> Any:
    ops, dims = graph.ops, x.shape.as_list()
    whole: Any = None if None not in dims else ops.Shape(x)
    extra = [
        max(size - step, 0) if padding == "VALID" else 0 for size, step in zip(sizes, steps, strict=True)
    ]
    result: list[Any] = []
    for number, known in enumerate(dims):
        axis = number - (2 if first else 1)
        if number == (1 if first else len(dims) - 1):
            result.append(filters)
        elif known is not None:
            result.append(known if number == 0 else known * steps[axis] + extra[axis])
        else:
            size = ops.GatherV2(whole, number, 0)
            result.append(size if number == 0 else ops.Add(ops.Mul(size, steps[axis]), extra[axis]))
    return ops.Pack(result) if whole is not None else result
