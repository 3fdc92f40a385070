"""Moving elements about: concatenation, padding, tiling, transposition, blocks."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "BatchToSpace",
    inputs=["input: T", "crops: Tidx"],
    outputs=["output: T"],
    attrs=["T: type", "block_size: int >= 2", "Tidx: {int32, int64} = int32"],
)
define(
    "BatchToSpaceND",
    inputs=["input: T", "block_shape: Tblock_shape", "crops: Tcrops"],
    outputs=["output: T"],
    attrs=["T: type", "Tblock_shape: {int32, int64} = int32", "Tcrops: {int32, int64} = int32"],
)
define(
    "BroadcastTo",
    inputs=["input: T", "shape: Tidx"],
    outputs=["output: T"],
    attrs=["T: type", "Tidx: {int32, int64} = int32"],
)
define(
    "Concat",
    inputs=["concat_dim: int32", "values: N * T"],
    outputs=["output: T"],
    attrs=["N: int >= 2", "T: type"],
)
define(
    "ConcatOffset",
    inputs=["concat_dim: int32", "shape: N * int32"],
    outputs=["offset: N * int32"],
    attrs=["N: int >= 2"],
)
define(
    "ConcatV2",
    inputs=["values: N * T", "axis: Tidx"],
    outputs=["output: T"],
    attrs=["N: int >= 2", "T: type", "Tidx: {int32, int64} = int32"],
)
define(
    "DepthToSpace",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: type", "block_size: int >= 2", "data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = \"NHWC\""],
)
define(
    "ExtractImagePatches",
    inputs=["images: T"],
    outputs=["patches: T"],
    attrs=[
        "ksizes: list(int) >= 4",
        "strides: list(int) >= 4",
        "rates: list(int) >= 4",
        "T: realnumbertype",
        "padding: {'SAME', 'VALID'}",
    ],
)
define(
    "ExtractVolumePatches",
    inputs=["input: T"],
    outputs=["patches: T"],
    attrs=[
        "ksizes: list(int) >= 5",
        "strides: list(int) >= 5",
        "T: realnumbertype",
        "padding: {'SAME', 'VALID'}",
    ],
)
define(
    "MirrorPad",
    inputs=["input: T", "paddings: Tpaddings"],
    outputs=["output: T"],
    attrs=["T: type", "Tpaddings: {int32, int64} = int32", "mode: {'REFLECT', 'SYMMETRIC'}"],
)
define(
    "MirrorPadGrad",
    inputs=["input: T", "paddings: Tpaddings"],
    outputs=["output: T"],
    attrs=["T: type", "Tpaddings: {int32, int64} = int32", "mode: {'REFLECT', 'SYMMETRIC'}"],
)
define(
    "Pack", inputs=["values: N * T"], outputs=["output: T"], attrs=["N: int >= 1", "T: type", "axis: int = 0"]
)
define(
    "Pad",
    inputs=["input: T", "paddings: Tpaddings"],
    outputs=["output: T"],
    attrs=["T: type", "Tpaddings: {int32, int64} = int32"],
)
define(
    "PadV2",
    inputs=["input: T", "paddings: Tpaddings", "constant_values: T"],
    outputs=["output: T"],
    attrs=["T: type", "Tpaddings: {int32, int64} = int32"],
)
define(
    "ParallelConcat",
    inputs=["values: N * T"],
    outputs=["output: T"],
    attrs=["N: int >= 1", "T: type", "shape: shape"],
)
define(
    "Reverse",
    inputs=["tensor: T", "dims: bool"],
    outputs=["output: T"],
    attrs=[
        (
            "T: {uint8, int8, uint16, int16, int32, int64, bool, half, float, double, complex64, "
            "complex128, string}"
        )
    ],
)
define(
    "ReverseV2",
    inputs=["tensor: T", "axis: Tidx"],
    outputs=["output: T"],
    attrs=[
        "Tidx: {int32, int64} = int32",
        (
            "T: {uint8, int8, uint16, int16, int32, int64, bool, bfloat16, half, float, double, "
            "complex64, complex128, string}"
        ),
    ],
)
define(
    "Roll",
    inputs=["input: T", "shift: Tshift", "axis: Taxis"],
    outputs=["output: T"],
    attrs=["T: type", "Tshift: {int32, int64}", "Taxis: {int32, int64}"],
)
define(
    "SpaceToBatch",
    inputs=["input: T", "paddings: Tpaddings"],
    outputs=["output: T"],
    attrs=["T: type", "Tpaddings: {int32, int64} = int32", "block_size: int >= 2"],
)
define(
    "SpaceToBatchND",
    inputs=["input: T", "block_shape: Tblock_shape", "paddings: Tpaddings"],
    outputs=["output: T"],
    attrs=["T: type", "Tblock_shape: {int32, int64} = int32", "Tpaddings: {int32, int64} = int32"],
)
define(
    "SpaceToDepth",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: type", "block_size: int >= 2", "data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = \"NHWC\""],
)
define(
    "Split",
    inputs=["split_dim: int32", "value: T"],
    outputs=["output: num_split * T"],
    attrs=["num_split: int >= 1", "T: type"],
)
define(
    "SplitV",
    inputs=["value: T", "size_splits: Tlen", "split_dim: int32"],
    outputs=["output: num_split * T"],
    attrs=["num_split: int >= 1", "T: type", "Tlen: {int32, int64} = int64"],
)
define(
    "Tile",
    inputs=["input: T", "multiples: Tmultiples"],
    outputs=["output: T"],
    attrs=["T: type", "Tmultiples: {int32, int64} = int32"],
)
define("TileGrad", inputs=["input: T", "multiples: int32"], outputs=["output: T"], attrs=["T: type"])
define(
    "Transpose",
    inputs=["x: T", "perm: Tperm"],
    outputs=["y: T"],
    attrs=["T: type", "Tperm: {int32, int64} = int32"],
)
define(
    "Unpack",
    inputs=["value: T"],
    outputs=["output: num * T"],
    attrs=["num: int >= 0", "T: type", "axis: int = 0"],
)
