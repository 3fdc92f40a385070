"""Sequences, selections and sums of many tensors."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "AccumulateNV2",
    inputs=["inputs: N * T"],
    outputs=["sum: T"],
    attrs=["N: int >= 1", "T: numbertype", "shape: shape"],
    is_commutative=True,
    is_aggregate=True,
)
define(
    "AddN",
    inputs=["inputs: N * T"],
    outputs=["sum: T"],
    attrs=[
        "N: int >= 1",
        (
            "T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, "
            "bfloat16, uint16, complex128, half, uint32, uint64, variant}"
        ),
    ],
    is_commutative=True,
    is_aggregate=True,
)
define("Betainc", inputs=["a: T", "b: T", "x: T"], outputs=["z: T"], attrs=["T: {float, double}"])
define(
    "ClipByValue",
    inputs=["t: T", "clip_value_min: T", "clip_value_max: T"],
    outputs=["output: T"],
    attrs=["T: numbertype"],
)
define(
    "LinSpace",
    inputs=["start: T", "stop: T", "num: Tidx"],
    outputs=["output: T"],
    attrs=["T: {bfloat16, float, double}", "Tidx: {int32, int64} = int32"],
)
define(
    "Range",
    inputs=["start: Tidx", "limit: Tidx", "delta: Tidx"],
    outputs=["output: Tidx"],
    attrs=["Tidx: {bfloat16, float, double, int32, int64} = int32"],
)
define("Select", inputs=["condition: bool", "t: T", "e: T"], outputs=["output: T"], attrs=["T: type"])
define("SelectV2", inputs=["condition: bool", "t: T", "e: T"], outputs=["output: T"], attrs=["T: type"])
