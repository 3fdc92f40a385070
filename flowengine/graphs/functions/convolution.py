"""Convolution and pooling. Channels are the last axis, or the second if `data_format` says so ("NCHW").

`input` or `value`, `filter` or `filters`, `depthwise_filter` and `pointwise_filter` are tensors of one type,
variables or values that become constants. `strides` (`stride`), `ksize` and `dilations` (`rate`) are one
number for all axes of space, one for each of them, or one for each axis of the input. `padding` is "VALID" or
"SAME"; for conv2d also a list of (before, after) for each axis. `output_shape` is (rank,) int32.

>>> graph = fe.Graph()
>>> images, kernel = graph.placeholder("float32", [None, 8, 8, 3]), fe.ones([3, 3, 3, 4], graph=graph)
>>> fe.nn.conv2d(images, kernel, strides=2, padding="SAME")
<Tensor 'Conv2D:0' shape=[?,4,4,4] dtype=float32>
>>> fe.nn.conv2d_transpose(fe.nn.conv2d(images, kernel), kernel, [1, 8, 8, 3], padding="VALID").shape
TensorShape([1, 8, 8, 3])
>>> fe.nn.depthwise_conv2d(images, kernel).shape
TensorShape([None, 6, 6, 12])
>>> fe.nn.separable_conv2d(images, kernel, fe.ones([1, 1, 12, 5], graph=graph)).shape
TensorShape([None, 6, 6, 5])
>>> fe.nn.max_pool(images, 2, 2, "VALID").shape, fe.nn.avg_pool(images, 2, 2, "VALID").shape
(TensorShape([None, 4, 4, 3]), TensorShape([None, 4, 4, 3]))
>>> fe.nn.max_pool_with_argmax(images, 2, 2, "VALID")[1]
<Tensor 'MaxPoolWithArgmax:1' shape=[?,4,4,3] dtype=int64>
>>> fe.nn.conv1d(images[:, 0], kernel[0]).shape
TensorShape([None, 6, 4])
>>> volumes, cube = fe.expand_dims(images, 1), fe.expand_dims(kernel, 0)
>>> fe.nn.conv3d(volumes, cube).shape, fe.nn.max_pool3d(volumes, [1, 2, 2], 2, "SAME").shape
(TensorShape([None, 1, 6, 6, 4]), TensorShape([None, 1, 4, 4, 3]))
>>> fe.nn.avg_pool3d(volumes, [1, 2, 2], 2, "SAME").shape
TensorShape([None, 1, 4, 4, 3])
>>> fe.nn.conv3d_transpose(fe.nn.conv3d(volumes, cube), cube, [1, 1, 8, 8, 3], padding="VALID").shape
TensorShape([1, 1, 8, 8, 3])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowengine.graphs.conversion import TensorLike, convert, graph_of
from flowengine.graphs.errors import ConstructionValueError
from flowengine.graphs.functions.support import call, one, tensor_of
from flowengine.graphs.tensor import Tensor


def conv1d(
    value: TensorLike,
    filters: TensorLike,
    stride: int = 1,
    padding: str = "VALID",
    data_format: str = "NWC",
    name: str | None = None,
    dilations: int = 1,
) -> Tensor:
    """Convolve along one axis: (N, W, C) with filters (W_f, C, K) -> (N, W_out, K). Floating point."""
    x = tensor_of(value, filters)
    graph = x.graph
    first = data_format == "NCW"
    with graph.name_scope(name or "conv1d"):
        place = 2 if first else 1
        image = graph.ops.ExpandDims(x, place)
        kernel = graph.ops.ExpandDims(convert(graph, filters), 0)
        found = conv2d(
            image,
            kernel,
            [1, stride],
            padding,
            "NCHW" if first else "NHWC",
            [1, dilations],
            name="Conv2D",
        )
        squeezed: Tensor = graph.ops.Squeeze(found, squeeze_dims=[place])
        return squeezed


def conv2d(
    input: TensorLike,
    filter: TensorLike,
    strides: Any = 1,
    padding: Any = "VALID",
    data_format: str = "NHWC",
    dilations: Any = 1,
    name: str | None = None,
) -> Tensor:
    """Convolve images: (N, H, W, C) with a filter (H_f, W_f, C, K) -> (N, H_out, W_out, K).

    C may be a multiple of the filter's: then the filters work on groups of channels. Floating point.
    """
    kind, explicit = _padding(padding, data_format)
    return one(
        "Conv2D",
        input,
        filter,
        strides=_windows(strides, data_format),
        padding=kind,
        explicit_paddings=explicit,
        data_format=data_format,
        dilations=_windows(dilations, data_format),
        name=name,
    )


def conv3d(
    input: TensorLike,
    filter: TensorLike,
    strides: Any = 1,
    padding: str = "VALID",
    data_format: str = "NDHWC",
    dilations: Any = 1,
    name: str | None = None,
) -> Tensor:
    """Convolve volumes: (N, D, H, W, C) with (D_f, H_f, W_f, C, K) -> (N, D_out, H_out, W_out, K)."""
    return one(
        "Conv3D",
        input,
        filter,
        strides=_windows(strides, data_format),
        padding=padding,
        data_format=data_format,
        dilations=_windows(dilations, data_format),
        name=name,
    )


def conv2d_transpose(
    value: TensorLike,
    filter: TensorLike,
    output_shape: TensorLike,
    strides: Any = 1,
    padding: Any = "SAME",
    data_format: str = "NHWC",
    name: str | None = None,
    dilations: Any = 1,
) -> Tensor:
    """Return the transpose of conv2d.

    (N, H, W, K) with a filter (H_f, W_f, C, K) -> output_shape (N, H_out, W_out, C).
    """
    kind, explicit = _padding(padding, data_format)
    return one(
        "Conv2DBackpropInput",
        output_shape,
        filter,
        value,
        strides=_windows(strides, data_format),
        padding=kind,
        explicit_paddings=explicit,
        data_format=data_format,
        dilations=_windows(dilations, data_format),
        name=name or "conv2d_transpose",
    )


def conv3d_transpose(
    value: TensorLike,
    filter: TensorLike,
    output_shape: TensorLike,
    strides: Any = 1,
    padding: str = "SAME",
    data_format: str = "NDHWC",
    name: str | None = None,
) -> Tensor:
    """Return the transpose of conv3d: (N, D, H, W, K) with (D_f, H_f, W_f, C, K) -> output_shape."""
    return one(
        "Conv3DBackpropInputV2",
        output_shape,
        filter,
        value,
        strides=_windows(strides, data_format),
        padding=padding,
        data_format=data_format,
        name=name or "conv3d_transpose",
    )


def depthwise_conv2d(
    input: TensorLike,
    filter: TensorLike,
    strides: Any = 1,
    padding: str = "VALID",
    rate: Any = 1,
    name: str | None = None,
    data_format: str = "NHWC",
) -> Tensor:
    """Each channel with filters of its own: (N, H, W, C) with (H_f, W_f, C, M) -> (N, H_out, W_out, C M)."""
    return one(
        "DepthwiseConv2dNative",
        input,
        filter,
        strides=_windows(strides, data_format),
        padding=padding,
        data_format=data_format,
        dilations=_windows(rate, data_format),
        name=name or "depthwise",
    )


def separable_conv2d(
    input: TensorLike,
    depthwise_filter: TensorLike,
    pointwise_filter: TensorLike,
    strides: Any = 1,
    padding: str = "VALID",
    rate: Any = 1,
    name: str | None = None,
    data_format: str = "NHWC",
) -> Tensor:
    """Return a depthwise convolution, then one of each pixel: filters (H_f, W_f, C, M) and (1, 1, C M, K)."""
    graph = graph_of(input, depthwise_filter, pointwise_filter)
    with graph.name_scope(name or "separable_conv2d") as scope:
        within = depthwise_conv2d(input, depthwise_filter, strides, padding, rate, None, data_format)
        return conv2d(within, pointwise_filter, 1, "VALID", data_format, name=scope)


def max_pool(
    value: TensorLike,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str = "NHWC",
    name: str | None = None,
) -> Tensor:
    """Return the largest of each window of an image: (N, H, W, C) -> (N, H_out, W_out, C). Real numbers."""
    return _pooled("MaxPool", value, ksize, strides, padding, data_format, name)


def avg_pool(
    value: TensorLike,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str = "NHWC",
    name: str | None = None,
) -> Tensor:
    """Return the mean of each window of an image: (N, H, W, C) -> (N, H_out, W_out, C). Floating point."""
    return _pooled("AvgPool", value, ksize, strides, padding, data_format, name)


def max_pool3d(
    input: TensorLike,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str = "NDHWC",
    name: str | None = None,
) -> Tensor:
    """Return the largest of each window of a volume: (N, D, H, W, C) -> (N, D_out, H_out, W_out, C)."""
    return _pooled("MaxPool3D", input, ksize, strides, padding, data_format, name)


def avg_pool3d(
    input: TensorLike,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str = "NDHWC",
    name: str | None = None,
) -> Tensor:
    """Return the mean of each window of a volume: (N, D, H, W, C) -> (N, D_out, H_out, W_out, C)."""
    return _pooled("AvgPool3D", input, ksize, strides, padding, data_format, name)


def max_pool_with_argmax(
    input: TensorLike, ksize: Any, strides: Any, padding: str, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Return (output, argmax): as max_pool of NHWC, and each element's position in its image (int64)."""
    window, step = _windows(ksize, "NHWC"), _windows(strides, "NHWC")
    output, places = call("MaxPoolWithArgmax", input, ksize=window, strides=step, padding=padding, name=name)
    return output, places


def _pooled(
    op: str, value: TensorLike, ksize: Any, strides: Any, padding: str, data_format: str, name: str | None
) -> Tensor:
    return one(
        op,
        value,
        ksize=_windows(ksize, data_format),
        strides=_windows(strides, data_format),
        padding=padding,
        data_format=data_format,
        name=name,
    )


def _windows(given: Any, data_format: str) -> list[int]:
    """One number for each axis of the input, of any of the three ways to give them."""
    space = len(data_format) - 2
    numbers = [given] if isinstance(given, int) else list(given)
    if len(numbers) == space + 2:
        return numbers
    if len(numbers) == 1:
        numbers = numbers * space
    if len(numbers) != space:
        raise ConstructionValueError(
            f"{given!r} is for no window of {data_format}: give 1, {space} or {space + 2} numbers"
        )
    return [1, 1, *numbers] if data_format[1] == "C" else [1, *numbers, 1]


def _padding(padding: Any, data_format: str) -> tuple[str, list[int]]:
    """The attributes padding and explicit_paddings."""
    if isinstance(padding, str):
        return padding, []
    pairs: Sequence[Any] = list(padding)
    if len(pairs) != len(data_format) or any(len(pair) != 2 for pair in pairs):
        raise ConstructionValueError(
            f"padding is 'VALID', 'SAME' or a pair for each axis of {data_format}, not {padding!r}"
        )
    return "EXPLICIT", [int(each) for pair in pairs for each in pair]


__all__ = [
    "avg_pool",
    "avg_pool3d",
    "conv1d",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "depthwise_conv2d",
    "max_pool",
    "max_pool3d",
    "max_pool_with_argmax",
    "separable_conv2d",
]
