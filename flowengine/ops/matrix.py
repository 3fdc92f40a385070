"""Products of matrices."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "BatchMatMul",
    inputs=["x: T", "y: T"],
    outputs=["output: T"],
    attrs=[
        "T: {bfloat16, half, float, double, int32, int64, complex64, complex128}",
        "adj_x: bool = false",
        "adj_y: bool = false",
    ],
)
define(
    "BatchMatMulV2",
    inputs=["x: T", "y: T"],
    outputs=["output: T"],
    attrs=[
        "T: {bfloat16, half, float, double, int32, int64, complex64, complex128}",
        "adj_x: bool = false",
        "adj_y: bool = false",
    ],
)
define("Cross", inputs=["a: T", "b: T"], outputs=["product: T"], attrs=["T: realnumbertype"])
define(
    "MatMul",
    inputs=["a: T", "b: T"],
    outputs=["product: T"],
    attrs=[
        "transpose_a: bool = false",
        "transpose_b: bool = false",
        "T: {bfloat16, half, float, double, int32, int64, complex64, complex128}",
    ],
)
define(
    "SparseMatMul",
    inputs=["a: Ta", "b: Tb"],
    outputs=["product: float"],
    attrs=[
        "transpose_a: bool = false",
        "transpose_b: bool = false",
        "a_is_sparse: bool = false",
        "b_is_sparse: bool = false",
        "Ta: {float, bfloat16} = float",
        "Tb: {float, bfloat16} = float",
    ],
)
