"""Convolutions of 1, 2 and 3 axes.

inputs    (N, S_1, ..., S_k, I), with `data_format="channels_first"` (N, I, S_1, ..., S_k), of floats; I known
kernel    (W_1, ..., W_k, I, filters); bias (filters,)
padding   "valid" or "same"
returns   as inputs with filters for I; S_i / stride_i rounded up with padding "same", else
          (S_i - (W_i - 1) * dilation_i) / stride_i rounded up

Errors: InvalidArgumentError for another rank, unknown channels, or invalid numbers and options.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Unpack

from flowengine.client.layers.base import ended, scope_of, weight
from flowengine.client.layers.windows import ConvolutionOptions, Window, WindowForm
from flowengine.graphs.conversion import convert, graph_of
from flowengine.graphs.tensor import Tensor


def conv1d(
    inputs: Any,
    filters: int,
    kernel_size: Window,
    strides: Window = 1,
    padding: str = "valid",
    **options: Unpack[ConvolutionOptions],
) -> Tensor:
    """Convolve sequences. Padding "causal" lets a step see itself and earlier ones only.

    inputs    (N, S, I) of floats, I known; with data_format="channels_first" I comes second
    returns   (N, S', filters) of their type, with sizes as the module says

    Raises InvalidArgumentError for another rank, unknown channels, or invalid numbers and options.
    """
    return _convolved("conv1d", 1, inputs, filters, kernel_size, strides, padding, options)


def conv2d(
    inputs: Any,
    filters: int,
    kernel_size: Window,
    strides: Window = 1,
    padding: str = "valid",
    **options: Unpack[ConvolutionOptions],
) -> Tensor:
    """Convolve images.

    inputs    (N, H, W, I) of floats, I known; with data_format="channels_first" I comes second
    returns   (N, H', W', filters) of their type, with sizes as the module says

    Raises InvalidArgumentError for another rank, unknown channels, or invalid numbers and options.
    """
    return _convolved("conv2d", 2, inputs, filters, kernel_size, strides, padding, options)


def conv3d(
    inputs: Any,
    filters: int,
    kernel_size: Window,
    strides: Window = 1,
    padding: str = "valid",
    **options: Unpack[ConvolutionOptions],
) -> Tensor:
    """Convolve volumes.

    inputs    (N, D, H, W, I) of floats, I known; with data_format="channels_first" I comes second
    returns   (N, D', H', W', filters) of their type, with sizes as the module says

    Raises InvalidArgumentError for another rank, unknown channels, or invalid numbers and options.
    """
    return _convolved("conv3d", 3, inputs, filters, kernel_size, strides, padding, options)


def _convolved(
    what: str,
    rank: int,
    inputs: Any,
    filters: int,
    kernel_size: Window,
    strides: Window,
    padding: str,
    options: ConvolutionOptions,
) -> Tensor:
    graph = graph_of(inputs)
    is_causal = rank == 1 and padding == "causal"
    with scope_of(graph, what, options, ConvolutionOptions):
        x = convert(graph, inputs)
        form = WindowForm.of(what, x, rank, kernel_size, strides, "valid" if is_causal else padding, options)
        kernel = weight(graph, "kernel", [*form.sizes, form.channels(x), filters], x.dtype.base, options)
        if is_causal:
            x = _after_nothing(x, form)
        convolve = graph.ops.Conv3D if rank == 3 else graph.ops.Conv2D
        with graph.name_scope(what) if rank == 1 else nullcontext():
            result = form.over_image(
                x,
                lambda image: convolve(
                    image, form.kernel_of_image(kernel), dilations=form.spread(form.rates), **form.attrs
                ),
            )
        return ended(result, filters, options, options.get("activation"), form.axis)


def _after_nothing(x: Tensor, form: WindowForm) -> Tensor:
    """Sequences with as many zeros before them as a window looks back."""
    before = [(form.sizes[0] - 1) * form.rates[0], 0]
    result: Tensor = x.graph.ops.Pad(x, [[0, 0], [0, 0], before] if form.first else [[0, 0], before, [0, 0]])
    return result
