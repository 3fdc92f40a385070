"""Pooling and its gradients."""

from __future__ import annotations

from flowengine.ops.registry import define

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
)
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
)
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
)
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
)
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
)
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
)
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
)
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
)
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
)
define(
    "MaxPoolGradGradV2",
    inputs=["orig_input: T", "orig_output: T", "grad: T", "ksize: int32", "strides: int32"],
    outputs=["output: T"],
    attrs=["padding: {'SAME', 'VALID'}", "data_format: {'NHWC', 'NCHW'} = \"NHWC\"", "T: realnumbertype"],
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
)
define(
    "MaxPoolV2",
    inputs=["input: T", "ksize: int32", "strides: int32"],
    outputs=["output: T"],
    attrs=[
        "T: {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, qint8} = float",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = \"NHWC\"",
    ],
)
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
)
