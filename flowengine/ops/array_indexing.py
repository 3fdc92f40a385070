"""Taking and putting parts of tensors: slices, gathers, scatters, uniques."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "Gather",
    inputs=["params: Tparams", "indices: Tindices"],
    outputs=["output: Tparams"],
    attrs=["validate_indices: bool = true", "Tparams: type", "Tindices: {int32, int64}"],
)
define(
    "GatherNd",
    inputs=["params: Tparams", "indices: Tindices"],
    outputs=["output: Tparams"],
    attrs=["Tparams: type", "Tindices: {int32, int64}"],
)
define(
    "GatherV2",
    inputs=["params: Tparams", "indices: Tindices", "axis: Taxis"],
    outputs=["output: Tparams"],
    attrs=["batch_dims: int = 0", "Tparams: type", "Tindices: {int32, int64}", "Taxis: {int32, int64}"],
)
define("InplaceAdd", inputs=["x: T", "i: int32", "v: T"], outputs=["y: T"], attrs=["T: type"])
define("InplaceSub", inputs=["x: T", "i: int32", "v: T"], outputs=["y: T"], attrs=["T: type"])
define("InplaceUpdate", inputs=["x: T", "i: int32", "v: T"], outputs=["y: T"], attrs=["T: type"])
define("InvertPermutation", inputs=["x: T"], outputs=["y: T"], attrs=["T: {int32, int64} = int32"])
define(
    "ListDiff",
    inputs=["x: T", "y: T"],
    outputs=["out: T", "idx: out_idx"],
    attrs=["T: type", "out_idx: {int32, int64} = int32"],
)
define(
    "LowerBound",
    inputs=["sorted_inputs: T", "values: T"],
    outputs=["output: out_type"],
    attrs=["T: type", "out_type: {int32, int64} = int32"],
)
define(
    "OneHot",
    inputs=["indices: TI", "depth: int32", "on_value: T", "off_value: T"],
    outputs=["output: T"],
    attrs=["axis: int = -1", "T: type", "TI: {uint8, int32, int64} = int64"],
)
define(
    "ResourceStridedSliceAssign",
    inputs=["ref: resource", "begin: Index", "end: Index", "strides: Index", "value: T"],
    attrs=[
        "T: type",
        "Index: {int32, int64}",
        "begin_mask: int = 0",
        "end_mask: int = 0",
        "ellipsis_mask: int = 0",
        "new_axis_mask: int = 0",
        "shrink_axis_mask: int = 0",
    ],
    is_stateful=True,
)
define(
    "ReverseSequence",
    inputs=["input: T", "seq_lengths: Tlen"],
    outputs=["output: T"],
    attrs=["seq_dim: int", "batch_dim: int = 0", "T: type", "Tlen: {int32, int64} = int64"],
)
define(
    "ScatterNd",
    inputs=["indices: Tindices", "updates: T", "shape: Tindices"],
    outputs=["output: T"],
    attrs=["T: type", "Tindices: {int32, int64}"],
)
define(
    "ScatterNdNonAliasingAdd",
    inputs=["input: T", "indices: Tindices", "updates: T"],
    outputs=["output: T"],
    attrs=[
        (
            "T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, "
            "bfloat16, uint16, complex128, half, uint32, uint64, bool}"
        ),
        "Tindices: {int32, int64}",
    ],
)
define(
    "Slice",
    inputs=["input: T", "begin: Index", "size: Index"],
    outputs=["output: T"],
    attrs=["T: type", "Index: {int32, int64}"],
)
define(
    "StridedSlice",
    inputs=["input: T", "begin: Index", "end: Index", "strides: Index"],
    outputs=["output: T"],
    attrs=[
        "T: type",
        "Index: {int32, int64}",
        "begin_mask: int = 0",
        "end_mask: int = 0",
        "ellipsis_mask: int = 0",
        "new_axis_mask: int = 0",
        "shrink_axis_mask: int = 0",
    ],
)
define(
    "StridedSliceAssign",
    inputs=["ref: Ref(T)", "begin: Index", "end: Index", "strides: Index", "value: T"],
    outputs=["output_ref: Ref(T)"],
    attrs=[
        "T: type",
        "Index: {int32, int64}",
        "begin_mask: int = 0",
        "end_mask: int = 0",
        "ellipsis_mask: int = 0",
        "new_axis_mask: int = 0",
        "shrink_axis_mask: int = 0",
    ],
)
define(
    "StridedSliceGrad",
    inputs=["shape: Index", "begin: Index", "end: Index", "strides: Index", "dy: T"],
    outputs=["output: T"],
    attrs=[
        "T: type",
        "Index: {int32, int64}",
        "begin_mask: int = 0",
        "end_mask: int = 0",
        "ellipsis_mask: int = 0",
        "new_axis_mask: int = 0",
        "shrink_axis_mask: int = 0",
    ],
)
define(
    "TensorScatterAdd",
    inputs=["tensor: T", "indices: Tindices", "updates: T"],
    outputs=["output: T"],
    attrs=["T: type", "Tindices: {int32, int64}"],
)
define(
    "TensorScatterSub",
    inputs=["tensor: T", "indices: Tindices", "updates: T"],
    outputs=["output: T"],
    attrs=["T: type", "Tindices: {int32, int64}"],
)
define(
    "TensorScatterUpdate",
    inputs=["tensor: T", "indices: Tindices", "updates: T"],
    outputs=["output: T"],
    attrs=["T: type", "Tindices: {int32, int64}"],
)
define(
    "TensorStridedSliceUpdate",
    inputs=["input: T", "begin: Index", "end: Index", "strides: Index", "value: T"],
    outputs=["output: T"],
    attrs=[
        "T: type",
        "Index: {int32, int64}",
        "begin_mask: int = 0",
        "end_mask: int = 0",
        "ellipsis_mask: int = 0",
        "new_axis_mask: int = 0",
        "shrink_axis_mask: int = 0",
    ],
)
define(
    "Unique",
    inputs=["x: T"],
    outputs=["y: T", "idx: out_idx"],
    attrs=["T: type", "out_idx: {int32, int64} = int32"],
)
define(
    "UniqueV2",
    inputs=["x: T", "axis: Taxis"],
    outputs=["y: T", "idx: out_idx"],
    attrs=["T: type", "Taxis: {int32, int64} = int64", "out_idx: {int32, int64} = int32"],
)
define(
    "UniqueWithCounts",
    inputs=["x: T"],
    outputs=["y: T", "idx: out_idx", "count: out_idx"],
    attrs=["T: type", "out_idx: {int32, int64} = int32"],
)
define(
    "UniqueWithCountsV2",
    inputs=["x: T", "axis: Taxis"],
    outputs=["y: T", "idx: out_idx", "count: out_idx"],
    attrs=["T: type", "Taxis: {int32, int64} = int64", "out_idx: {int32, int64} = int32"],
)
define(
    "UnravelIndex",
    inputs=["indices: Tidx", "dims: Tidx"],
    outputs=["output: Tidx"],
    attrs=["Tidx: {int32, int64} = int32"],
)
define(
    "UpperBound",
    inputs=["sorted_inputs: T", "values: T"],
    outputs=["output: out_type"],
    attrs=["T: type", "out_type: {int32, int64} = int32"],
)
define(
    "Where",
    inputs=["input: T"],
    outputs=["index: int64"],
    attrs=[
        (
            "T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, "
            "bfloat16, uint16, complex128, half, uint32, uint64, bool} = bool"
        )
    ],
)
