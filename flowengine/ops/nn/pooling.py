"""Pooling, where maxima were, and gradients of first and second order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flowengine.core.arrays import to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import Dimension, TensorShape, unknown_of_rank
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import Droppable, NetworkLayer
from flowengine.ops.nn.convolution import NO_EXPLICIT_PADDINGS, join_layout, sizes_from, split_layout
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import dims_of, of_rank, ranked, windowed

#: How windows lie in volumes.
VOLUMES: Final = (
    "ksize, strides: list(int) >= 5; padding: {'SAME', 'VALID'}; data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'"
)
#: How windows lie in images.
PLANES: Final = (
    "ksize, strides: list(int) >= 4; padding: {'SAME', 'VALID'}; data_format: {'NHWC', 'NCHW'} = 'NHWC'"
)


@define(
    "MaxPool(input: T) -> output: T",
    "T: {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, qint8} = float",
    "ksize, strides: list(int) >= 4; padding: {'SAME', 'VALID'}",
    "data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'",
    NetworkLayer(),
    NO_EXPLICIT_PADDINGS,
)
@define("AvgPool(value: T) -> output: T", PLANES, "T: floattype", NetworkLayer())
def pool_2d(c: ShapeContext) -> Shapes:
    """(N, H, W, C) -> (N, H', W', C)"""
    return [pooled(c, 4, c.attrs["ksize"], c.attrs["strides"])]


def pooled(c: ShapeContext, rank: int, ksize: Sequence[int], strides: Sequence[int]) -> TensorShape:
    """The shape of a pooled input; windows may also go over batch and channels."""
    data_format: bytes = c.attrs.get("data_format", b"NHWC")
    if data_format == b"NCHW_VECT_C":
        ranked(c, 0, 5)
        return unknown_of_rank(5)
    dims = dims_of(ranked(c, 0, rank), rank)
    if len(ksize) != rank or len(strides) != rank:
        raise InvalidArgumentError(f"ksize and strides must have {rank} elements: {ksize}, {strides}")
    padding: bytes = c.attrs["padding"]
    batch, spatial, depth = split_layout(dims, data_format)
    batch_k, spatial_k, depth_k = split_layout(ksize, data_format)
    batch_s, spatial_s, depth_s = split_layout(strides, data_format)
    sizes = [_pooled_size(*each, padding) for each in zip(spatial, spatial_k, spatial_s, strict=True)]
    return join_layout(
        _pooled_size(batch, batch_k, batch_s, padding),
        sizes,
        _pooled_size(depth, depth_k, depth_s, padding),
        data_format,
    )


def _pooled_size(size: Dimension, window: Dimension, stride: Dimension, padding: bytes) -> Dimension:
    return size if window == stride == 1 else windowed(size, window, stride or 0, padding)


@define("MaxPool3D(input: T) -> output: T", VOLUMES, "T: {half, bfloat16, float}")
@define("AvgPool3D(input: T) -> output: T", VOLUMES, "T: floattype")
def pool_3d(c: ShapeContext) -> Shapes:
    """(N, D, H, W, C) -> (N, D', H', W', C)"""
    return [pooled(c, 5, c.attrs["ksize"], c.attrs["strides"])]


@define(
    "MaxPoolV2(input: T, ksize, strides: int32) -> output: T",
    "T: {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, qint8} = float",
    "padding: {'SAME', 'VALID'}; data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'",
)
def pool_2d_inputs(c: ShapeContext) -> Shapes:
    ranked(c, 1, 1)
    ranked(c, 2, 1)
    ksize, strides = c.input_value(1), c.input_value(2)
    if ksize is None or strides is None:
        rank = 5 if c.attrs["data_format"] == b"NCHW_VECT_C" else 4
        ranked(c, 0, rank)
        return [unknown_of_rank(rank)]
    return [pooled(c, 4, to_array(ksize).tolist(), to_array(strides).tolist())]


@define(
    "MaxPoolWithArgmax(input: T) -> output: T, argmax: Targmax",
    "ksize, strides: list(int) >= 4; Targmax: indextype = int64; padding: {'SAME', 'VALID'}",
    "include_batch_in_index: bool = false; T: realnumbertype",
)
def pool_argmax(c: ShapeContext) -> Shapes:
    return [pooled(c, 4, c.attrs["ksize"], c.attrs["strides"])] * 2


define(
    "MaxPoolGrad(orig_input, orig_output, grad: T) -> output: T",
    PLANES,
    "T: realnumbertype = float",
    NO_EXPLICIT_PADDINGS,
    Droppable(),
    shape=of_rank(4),
)
define(
    "MaxPoolGradV2(orig_input, orig_output, grad: T, ksize, strides: int32) -> output: T",
    "padding: {'SAME', 'VALID'}; data_format: {'NHWC', 'NCHW'} = 'NHWC'; T: realnumbertype = float",
    shape=of_rank(4),
)
define(
    "MaxPoolGradWithArgmax(input, grad: T, argmax: Targmax) -> output: T",
    "ksize, strides: list(int) >= 4; padding: {'SAME', 'VALID'}; include_batch_in_index: bool = false",
    "Targmax: indextype; T: realnumbertype",
    shape=of_rank(4),
)
define(
    "MaxPool3DGrad(orig_input, orig_output: TInput, grad: T) -> output: T",
    VOLUMES,
    "T, TInput: {half, bfloat16, float} = float",
    shape=of_rank(5),
)


@define("MaxPoolGradGrad(orig_input, orig_output, grad: T) -> output: T", PLANES, "T: realnumbertype")
@define(
    "MaxPoolGradGradV2(orig_input, orig_output, grad: T, ksize, strides: int32) -> output: T",
    "padding: {'SAME', 'VALID'}; data_format: {'NHWC', 'NCHW'} = 'NHWC'; T: realnumbertype",
)
def pool_grad_grad(c: ShapeContext) -> Shapes:
    """The shape of the pooled output."""
    ranked(c, 0, 4)
    ranked(c, 2, 4)
    return [ranked(c, 1, 4)]


@define("MaxPool3DGradGrad(orig_input, orig_output, grad: T) -> output: T", VOLUMES, "T: realnumbertype")
def pool_3d_grad_grad(c: ShapeContext) -> Shapes:
    ranked(c, 0, 5)
    ranked(c, 2, 5)
    return [ranked(c, 1, 5)]


@define(
    "MaxPoolGradGradWithArgmax(input, grad: T, argmax: Targmax) -> output: T",
    "ksize, strides: list(int) >= 4; padding: {'SAME', 'VALID'}; include_batch_in_index: bool = false",
    "Targmax: indextype; T: realnumbertype",
)
def pool_grad_grad_with_places(c: ShapeContext) -> Shapes:
    """The shape of the places, one for each window."""
    ranked(c, 0, 4)
    ranked(c, 1, 4)
    windows = pooled(c, 4, c.attrs["ksize"], c.attrs["strides"])
    places = ranked(c, 2, 4)
    if not windows.is_compatible_with(places):
        raise InvalidArgumentError(f"argmax is {places} for windows {windows}")
    return [windows.merge_with(places)]


define(
    "AvgPoolGrad(orig_input_shape: int32, grad: T) -> output: T",
    PLANES,
    "T: floattype",
    Droppable(),
    shape=sizes_from(0, 4),
)


define(
    "AvgPool3DGrad(orig_input_shape: int32, grad: T) -> output: T",
    VOLUMES,
    "T: floattype",
    shape=sizes_from(0, 5),
)
