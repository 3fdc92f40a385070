"""Transposed convolutions: the gradient of a convolution as a layer, which makes images larger.

inputs    (N, S_1, ..., S_k, I), with `data_format="channels_first"` (N, I, S_1, ..., S_k), of floats; I known
kernel    (W_1, ..., W_k, filters, I); bias (filters,)
padding   "valid" or "same"
returns   as inputs with filters for I and S_i * stride_i with padding "same", else
          S_i * stride_i + max(W_i - stride_i, 0)

Errors: InvalidArgumentError for another rank, unknown channels, or invalid numbers and options.
"""

from __future__ import annotations

from typing import Any, Unpack

from flowengine.client.layers.base import ended, scope_of, weight
from flowengine.client.layers.windows import Window, WindowForm, WindowOptions
from flowengine.graphs.conversion import convert, graph_of
from flowengine.graphs.functions import array
from flowengine.graphs.tensor import Tensor


def conv1d_transpose(
    inputs: Any,
    filters: int,
    kernel_size: Window,
    strides: Window = 1,
    padding: str = "valid",
    **options: Unpack[WindowOptions],
) -> Tensor:
    """Return the transpose of a convolution of sequences.

    inputs    (N, S, I) of floats, I known; with data_format="channels_first" I comes second
    returns   (N, S', filters) of their type, with sizes as the module says

    Raises InvalidArgumentError for another rank, unknown channels, or invalid numbers and options.
    Dumoulin, Visin 2016.
    """
    return _transposed(1, inputs, filters, kernel_size, strides, padding, options)


def conv2d_transpose(
    inputs: Any,
    filters: int,
    kernel_size: Window,
    strides: Window = 1,
    padding: str = "valid",
    **options: Unpack[WindowOptions],
) -> Tensor:
    """Return the transpose of a convolution of images.

    inputs    (N, H, W, I) of floats, I known; with data_format="channels_first" I comes second
    returns   (N, H', W', filters) of their type, with sizes as the module says

    Raises InvalidArgumentError for another rank, unknown channels, or invalid numbers and options.
    Dumoulin, Visin 2016.
    """
    return _transposed(2, inputs, filters, kernel_size, strides, padding, options)


def conv3d_transpose(
    inputs: Any,
    filters: int,
    kernel_size: Window,
    strides: Window = 1,
    padding: str = "valid",
    **options: Unpack[WindowOptions],
) -> Tensor:
    """Return the transpose of a convolution of volumes.

    inputs    (N, D, H, W, I) of floats, I known; with data_format="channels_first" I comes second
    returns   (N, D', H', W', filters) of their type, with sizes as the module says

    Raises InvalidArgumentError for another rank, unknown channels, or invalid numbers and options.
    Dumoulin, Visin 2016.
    """
    return _transposed(3, inputs, filters, kernel_size, strides, padding, options)


def _transposed(
    rank: int,
    inputs: Any,
    filters: int,
    kernel_size: Window,
    strides: Window,
    padding: str,
    options: WindowOptions,
) -> Tensor:
    what = f"conv{rank}d_transpose"
    graph = graph_of(inputs)
    with scope_of(graph, what, options, WindowOptions):
        x = convert(graph, inputs)
        form = WindowForm.of(what, x, rank, kernel_size, strides, padding, options)
        kernel = weight(graph, "kernel", [*form.sizes, filters, form.channels(x)], x.dtype.base, options)
        convolve = graph.ops.Conv3DBackpropInputV2 if rank == 3 else graph.ops.Conv2DBackpropInput
        result = form.over_image(
            x,
            lambda image: convolve(
                _output_shape(image, form, filters), form.kernel_of_image(kernel), image, **form.attrs
            ),
        )
        return ended(result, filters, options, options.get("activation"), form.axis)


def _output_shape(image: Tensor, form: WindowForm, filters: int) -> Any:
    """Return the shape of the result, as numbers if the graph knows it."""
    ops, dims = image.graph.ops, image.shape.as_list()
    extra = [
        max(size - step, 0) if form.padding == "VALID" else 0
        for size, step in zip(form.sizes, form.strides, strict=True)
    ]
    factors = form.spread(form.strides)
    added = [each - 1 for each in form.spread([more + 1 for more in extra])]
    whole = array.shape(image)
    sizes = [ops.GatherV2(whole, axis, 0) if size is None else size for axis, size in enumerate(dims)]
    result = [
        size if (factor, more) == (1, 0) else size * factor + more
        for size, factor, more in zip(sizes, factors, added, strict=True)
    ]
    result[form.axis] = filters
    return ops.Pack(result) if None in dims else result
