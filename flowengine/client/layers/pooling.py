"""Pooling: the greatest element, or the mean, of each window.

inputs    (N, S_1, ..., S_k, C), with `data_format="channels_first"` (N, C, S_1, ..., S_k), of real numbers
strides   those of the window itself unless they are given
padding   "valid" or "same"
returns   as inputs; S_i / stride_i rounded up with padding "same", else (S_i - W_i + 1) / stride_i rounded up

Errors: InvalidArgumentError for another rank, or invalid numbers and options.
"""

from __future__ import annotations

from typing import Any, Unpack

from flowengine.client.arguments import check_options
from flowengine.client.layers.windows import ChannelOrder, Window, WindowForm
from flowengine.graphs.conversion import convert, graph_of
from flowengine.graphs.tensor import Tensor


class PoolingOptions(ChannelOrder, total=False):
    """Options of pooling: `ChannelOrder`, and the `name` of its scope."""

    name: str | None


def max_pooling1d(
    inputs: Any,
    pool_size: Window = 2,
    strides: Window | None = None,
    padding: str = "valid",
    **options: Unpack[PoolingOptions],
) -> Tensor:
    """Return the greatest element of each window of a sequence.

    inputs    (N, S, C) of real numbers; with data_format="channels_first" C comes second
    returns   (N, S', C) of their type, with sizes as the module says

    Raises InvalidArgumentError for another rank, or invalid numbers and options.
    """
    return _pooled("max", 1, inputs, pool_size, strides, padding, options)


def max_pooling2d(
    inputs: Any,
    pool_size: Window = 2,
    strides: Window | None = None,
    padding: str = "valid",
    **options: Unpack[PoolingOptions],
) -> Tensor:
    """Return the greatest element of each window of an image.

    inputs    (N, H, W, C) of real numbers; with data_format="channels_first" C comes second
    returns   (N, H', W', C) of their type, with sizes as the module says

    Raises InvalidArgumentError for another rank, or invalid numbers and options.
    """
    return _pooled("max", 2, inputs, pool_size, strides, padding, options)


def max_pooling3d(
    inputs: Any,
    pool_size: Window = 2,
    strides: Window | None = None,
    padding: str = "valid",
    **options: Unpack[PoolingOptions],
) -> Tensor:
    """Return the greatest element of each window of a volume.

    inputs    (N, D, H, W, C) of real numbers; with data_format="channels_first" C comes second
    returns   (N, D', H', W', C) of their type, with sizes as the module says

    Raises InvalidArgumentError for another rank, or invalid numbers and options.
    """
    return _pooled("max", 3, inputs, pool_size, strides, padding, options)


def average_pooling1d(
    inputs: Any,
    pool_size: Window = 2,
    strides: Window | None = None,
    padding: str = "valid",
    **options: Unpack[PoolingOptions],
) -> Tensor:
    """Return the mean of each window of a sequence, of what padding has not added.

    inputs    (N, S, C) of floats; with data_format="channels_first" C comes second
    returns   (N, S', C) of their type, with sizes as the module says

    Raises InvalidArgumentError for another rank, or invalid numbers and options.
    """
    return _pooled("average", 1, inputs, pool_size, strides, padding, options)


def average_pooling2d(
    inputs: Any,
    pool_size: Window = 2,
    strides: Window | None = None,
    padding: str = "valid",
    **options: Unpack[PoolingOptions],
) -> Tensor:
    """Return the mean of each window of an image, of what padding has not added.

    inputs    (N, H, W, C) of floats; with data_format="channels_first" C comes second
    returns   (N, H', W', C) of their type, with sizes as the module says

    Raises InvalidArgumentError for another rank, or invalid numbers and options.
    """
    return _pooled("average", 2, inputs, pool_size, strides, padding, options)


def average_pooling3d(
    inputs: Any,
    pool_size: Window = 2,
    strides: Window | None = None,
    padding: str = "valid",
    **options: Unpack[PoolingOptions],
) -> Tensor:
    """Return the mean of each window of a volume, of what padding has not added.

    inputs    (N, D, H, W, C) of floats; with data_format="channels_first" C comes second
    returns   (N, D', H', W', C) of their type, with sizes as the module says

    Raises InvalidArgumentError for another rank, or invalid numbers and options.
    """
    return _pooled("average", 3, inputs, pool_size, strides, padding, options)


def _pooled(
    kind: str,
    rank: int,
    inputs: Any,
    pool_size: Window,
    strides: Window | None,
    padding: str,
    options: PoolingOptions,
) -> Tensor:
    what = f"{kind}_pooling{rank}d"
    op = ("MaxPool" if kind == "max" else "AvgPool") + ("3D" if rank == 3 else "")
    graph = graph_of(inputs)
    check_options(f"layers.{what}", options, PoolingOptions)
    with graph.name_scope(options.get("name") or what):
        x = convert(graph, inputs)
        steps = pool_size if strides is None else strides
        form = WindowForm.of(what, x, rank, pool_size, steps, padding, options, "pool_size")
        pool = getattr(graph.ops, op)
        return form.over_image(x, lambda image: pool(image, ksize=form.spread(form.sizes), **form.attrs))
