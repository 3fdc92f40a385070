"""Pooling: the greatest element, or the mean, of each window.

inputs    (N, S_1, ..., S_k, C), with `data_format="channels_first"` (N, C, S_1, ..., S_k)
strides   those of the window itself unless they are given
returns   as inputs; S_i / stride_i rounded up with padding "same", else (S_i - W_i + 1) / stride_i
"""

from __future__ import annotations

from typing import Any

from flowengine.client.layers.base import (
    Window,
    channels_first,
    layout,
    need_rank,
    padding_of,
    spread,
    window,
)
from flowengine.graphs.conversion import convert, graph_of
from flowengine.graphs.tensor import Tensor


def max_pooling1d(
    inputs: Any,
    pool_size: Window = 2,
    strides: Window | None = None,
    padding: str = "valid",
    *,
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    """The greatest element of each window of a sequence; see the module."""
    return _pooled("max_pooling1d", "MaxPool", inputs, pool_size, strides, padding, data_format, name, 1)


def max_pooling2d(
    inputs: Any,
    pool_size: Window = 2,
    strides: Window | None = None,
    padding: str = "valid",
    *,
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    """The greatest element of each window of an image; see the module."""
    return _pooled("max_pooling2d", "MaxPool", inputs, pool_size, strides, padding, data_format, name, 2)


def max_pooling3d(
    inputs: Any,
    pool_size: Window = 2,
    strides: Window | None = None,
    padding: str = "valid",
    *,
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    """The greatest element of each window of a volume; see the module."""
    return _pooled("max_pooling3d", "MaxPool3D", inputs, pool_size, strides, padding, data_format, name, 3)


def average_pooling1d(
    inputs: Any,
    pool_size: Window = 2,
    strides: Window | None = None,
    padding: str = "valid",
    *,
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    """The mean of each window of a sequence, of what padding has not added; see the module."""
    return _pooled("average_pooling1d", "AvgPool", inputs, pool_size, strides, padding, data_format, name, 1)


def average_pooling2d(
    inputs: Any,
    pool_size: Window = 2,
    strides: Window | None = None,
    padding: str = "valid",
    *,
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    """The mean of each window of an image, of what padding has not added; see the module."""
    return _pooled("average_pooling2d", "AvgPool", inputs, pool_size, strides, padding, data_format, name, 2)


def average_pooling3d(
    inputs: Any,
    pool_size: Window = 2,
    strides: Window | None = None,
    padding: str = "valid",
    *,
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    """The mean of each window of a volume, of what padding has not added; see the module."""
    return _pooled(
        "average_pooling3d", "AvgPool3D", inputs, pool_size, strides, padding, data_format, name, 3
    )


def _pooled(
    what: str,
    op: str,
    inputs: Any,
    pool_size: Window,
    strides: Window | None,
    padding: str,
    data_format: str,
    name: str | None,
    rank: int,
) -> Tensor:
    graph = graph_of(inputs)
    with graph.name_scope(name or what):
        x = convert(graph, inputs)
        need_rank(what, x, rank + 2)
        sizes = window(what, "pool_size", pool_size, rank)
        steps = window(what, "strides", pool_size if strides is None else strides, rank)
        first, ops = channels_first(what, data_format), graph.ops
        extra = 2 if first else 1
        if rank == 1:
            # Ops pool along two axes or three: a sequence is an image of height 1.
            x, sizes, steps = ops.ExpandDims(x, extra), [1, *sizes], [1, *steps]
        result: Tensor = getattr(ops, op)(
            x,
            ksize=spread(sizes, first),
            strides=spread(steps, first),
            padding=padding_of(what, padding),
            data_format=layout(len(sizes), first),
        )
        if rank == 1:
            result = ops.Squeeze(result, squeeze_dims=[extra])
    return result
