"""Pooling and its gradients."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.arrays import to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import Dimension, TensorShape, unknown_of_rank
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.nn_conv import join_layout, sizes_of_rank, split_layout
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import add_dims, dims_of, like_input, of_rank, ranked, vector, windowed


def pool_2d(c: ShapeContext) -> Sequence[TensorShape]:
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


define(
    "MaxPool",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=[
        "T: {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, qint8} = float",
        "ksize: list(int) >= 4",
        "strides: list(int) >= 4",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = \"NHWC\"",
    ],
    shape=pool_2d,
)
define(
    "AvgPool",
    inputs=["value: T"],
    outputs=["output: T"],
    attrs=[
        "ksize: list(int) >= 4",
        "strides: list(int) >= 4",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NHWC', 'NCHW'} = \"NHWC\"",
        "T: floattype",
    ],
    shape=pool_2d,
)


def pool_3d(c: ShapeContext) -> Sequence[TensorShape]:
    """(N, D, H, W, C) -> (N, D', H', W', C)"""
    return [pooled(c, 5, c.attrs["ksize"], c.attrs["strides"])]


define(
    "MaxPool3D",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=[
        "ksize: list(int) >= 5",
        "strides: list(int) >= 5",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NDHWC', 'NCDHW'} = \"NDHWC\"",
        "T: {half, bfloat16, float}",
    ],
    shape=pool_3d,
)
define(
    "AvgPool3D",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=[
        "ksize: list(int) >= 5",
        "strides: list(int) >= 5",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NDHWC', 'NCDHW'} = \"NDHWC\"",
        "T: floattype",
    ],
    shape=pool_3d,
)


def pool_2d_inputs(c: ShapeContext) -> Sequence[TensorShape]:
    ranked(c, 1, 1)
    ranked(c, 2, 1)
    ksize, strides = c.input_value(1), c.input_value(2)
    if ksize is None or strides is None:
        rank = 5 if c.attrs["data_format"] == b"NCHW_VECT_C" else 4
        ranked(c, 0, rank)
        return [unknown_of_rank(rank)]
    return [pooled(c, 4, to_array(ksize).tolist(), to_array(strides).tolist())]


define(
    "MaxPoolV2",
    inputs=["input: T", "ksize: int32", "strides: int32"],
    outputs=["output: T"],
    attrs=[
        "T: {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, qint8} = float",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = \"NHWC\"",
    ],
    shape=pool_2d_inputs,
)


def pool_argmax(c: ShapeContext) -> Sequence[TensorShape]:
    return [pooled(c, 4, c.attrs["ksize"], c.attrs["strides"])] * 2


define(
    "MaxPoolWithArgmax",
    inputs=["input: T"],
    outputs=["output: T", "argmax: Targmax"],
    attrs=[
        "ksize: list(int) >= 4",
        "strides: list(int) >= 4",
        "Targmax: {int32, int64} = int64",
        "padding: {'SAME', 'VALID'}",
        "include_batch_in_index: bool = false",
        "T: realnumbertype",
    ],
    shape=pool_argmax,
)
define(
    "MaxPoolGrad",
    inputs=["orig_input: T", "orig_output: T", "grad: T"],
    outputs=["output: T"],
    attrs=[
        "ksize: list(int) >= 4",
        "strides: list(int) >= 4",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NHWC', 'NCHW'} = \"NHWC\"",
        "T: realnumbertype = float",
    ],
    shape=of_rank(4),
)
define(
    "MaxPoolGradV2",
    inputs=["orig_input: T", "orig_output: T", "grad: T", "ksize: int32", "strides: int32"],
    outputs=["output: T"],
    attrs=[
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NHWC', 'NCHW'} = \"NHWC\"",
        "T: realnumbertype = float",
    ],
    shape=of_rank(4),
)
define(
    "MaxPoolGradWithArgmax",
    inputs=["input: T", "grad: T", "argmax: Targmax"],
    outputs=["output: T"],
    attrs=[
        "ksize: list(int) >= 4",
        "strides: list(int) >= 4",
        "padding: {'SAME', 'VALID'}",
        "include_batch_in_index: bool = false",
        "Targmax: {int32, int64}",
        "T: realnumbertype",
    ],
    shape=of_rank(4),
)
define(
    "MaxPool3DGrad",
    inputs=["orig_input: TInput", "orig_output: TInput", "grad: T"],
    outputs=["output: T"],
    attrs=[
        "ksize: list(int) >= 5",
        "strides: list(int) >= 5",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NDHWC', 'NCDHW'} = \"NDHWC\"",
        "T: {half, bfloat16, float} = float",
        "TInput: {half, bfloat16, float} = float",
    ],
    shape=of_rank(5),
)


def pool_grad_grad(c: ShapeContext) -> Sequence[TensorShape]:
    """The shape of the pooled output."""
    ranked(c, 0, 4)
    return [ranked(c, 1, 4)]


define(
    "MaxPoolGradGrad",
    inputs=["orig_input: T", "orig_output: T", "grad: T"],
    outputs=["output: T"],
    attrs=[
        "ksize: list(int) >= 4",
        "strides: list(int) >= 4",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NHWC', 'NCHW'} = \"NHWC\"",
        "T: realnumbertype",
    ],
    shape=pool_grad_grad,
)
define(
    "MaxPoolGradGradV2",
    inputs=["orig_input: T", "orig_output: T", "grad: T", "ksize: int32", "strides: int32"],
    outputs=["output: T"],
    attrs=["padding: {'SAME', 'VALID'}", "data_format: {'NHWC', 'NCHW'} = \"NHWC\"", "T: realnumbertype"],
    shape=pool_grad_grad,
)


def pool_3d_grad_grad(c: ShapeContext) -> Sequence[TensorShape]:
    ranked(c, 0, 5)
    return [ranked(c, 1, 5)]


define(
    "MaxPool3DGradGrad",
    inputs=["orig_input: T", "orig_output: T", "grad: T"],
    outputs=["output: T"],
    attrs=[
        "ksize: list(int) >= 5",
        "strides: list(int) >= 5",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NDHWC', 'NCDHW'} = \"NDHWC\"",
        "T: realnumbertype",
    ],
    shape=pool_3d_grad_grad,
)
define(
    "MaxPoolGradGradWithArgmax",
    inputs=["input: T", "grad: T", "argmax: Targmax"],
    outputs=["output: T"],
    attrs=[
        "ksize: list(int) >= 4",
        "strides: list(int) >= 4",
        "padding: {'SAME', 'VALID'}",
        "include_batch_in_index: bool = false",
        "Targmax: {int32, int64}",
        "T: realnumbertype",
    ],
    shape=like_input(2),
)


def avg_pool_grad(c: ShapeContext) -> Sequence[TensorShape]:
    return [sizes_of_rank(c, 0, 4)]


define(
    "AvgPoolGrad",
    inputs=["orig_input_shape: int32", "grad: T"],
    outputs=["output: T"],
    attrs=[
        "ksize: list(int) >= 4",
        "strides: list(int) >= 4",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NHWC', 'NCHW'} = \"NHWC\"",
        "T: floattype",
    ],
    shape=avg_pool_grad,
)


def avg_pool_3d_grad(c: ShapeContext) -> Sequence[TensorShape]:
    return [sizes_of_rank(c, 0, 5)]


define(
    "AvgPool3DGrad",
    inputs=["orig_input_shape: int32", "grad: T"],
    outputs=["output: T"],
    attrs=[
        "ksize: list(int) >= 5",
        "strides: list(int) >= 5",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NDHWC', 'NCDHW'} = \"NDHWC\"",
        "T: floattype",
    ],
    shape=avg_pool_3d_grad,
)


def fractional_pool(c: ShapeContext) -> Sequence[TensorShape]:
    """Each dimension divided by its ratio, rounded down; and where the rows and columns were cut."""
    dims = dims_of(ranked(c, 0, 4), 4)
    ratios = c.attrs["pooling_ratio"]
    if len(ratios) != 4 or any(ratio < 1 for ratio in ratios):
        raise InvalidArgumentError(f"pooling_ratio must have 4 elements of at least 1, not {list(ratios)}")
    sizes = [None if d is None else int(d / ratio) for d, ratio in zip(dims, ratios, strict=True)]
    return [TensorShape(sizes), vector(add_dims(sizes[1], 1)), vector(add_dims(sizes[2], 1))]


define(
    "FractionalAvgPool",
    inputs=["value: T"],
    outputs=["output: T", "row_pooling_sequence: int64", "col_pooling_sequence: int64"],
    attrs=[
        "pooling_ratio: list(float) >= 4",
        "pseudo_random: bool = false",
        "overlapping: bool = false",
        "deterministic: bool = false",
        "seed: int = 0",
        "seed2: int = 0",
        "T: {float, double, int32, int64}",
    ],
    shape=fractional_pool,
)
define(
    "FractionalMaxPool",
    inputs=["value: T"],
    outputs=["output: T", "row_pooling_sequence: int64", "col_pooling_sequence: int64"],
    attrs=[
        "pooling_ratio: list(float) >= 4",
        "pseudo_random: bool = false",
        "overlapping: bool = false",
        "deterministic: bool = false",
        "seed: int = 0",
        "seed2: int = 0",
        "T: {float, double, int32, int64}",
    ],
    shape=fractional_pool,
)


def fractional_avg_grad(c: ShapeContext) -> Sequence[TensorShape]:
    return [sizes_of_rank(c, 0, 4)]


define(
    "FractionalAvgPoolGrad",
    inputs=[
        "orig_input_tensor_shape: int64",
        "out_backprop: T",
        "row_pooling_sequence: int64",
        "col_pooling_sequence: int64",
    ],
    outputs=["output: T"],
    attrs=["overlapping: bool = false", "T: {float, double, int32, int64}"],
    shape=fractional_avg_grad,
)
define(
    "FractionalMaxPoolGrad",
    inputs=[
        "orig_input: T",
        "orig_output: T",
        "out_backprop: T",
        "row_pooling_sequence: int64",
        "col_pooling_sequence: int64",
    ],
    outputs=["output: T"],
    attrs=["overlapping: bool = false", "T: {float, double, int32, int64}"],
    shape=of_rank(4),
)
