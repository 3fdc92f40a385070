"""Operations on the bits of integers."""

from __future__ import annotations

from flowengine.ops.registry import define
from flowengine.ops.shape_functions import broadcast, unchanged

define(
    "BitwiseAnd",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {int8, int16, int32, int64, uint8, uint16, uint32, uint64}"],
    is_commutative=True,
    shape=broadcast,
)
define(
    "BitwiseOr",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {int8, int16, int32, int64, uint8, uint16, uint32, uint64}"],
    is_commutative=True,
    shape=broadcast,
)
define(
    "BitwiseXor",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {int8, int16, int32, int64, uint8, uint16, uint32, uint64}"],
    is_commutative=True,
    shape=broadcast,
)
define(
    "LeftShift",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {int8, int16, int32, int64, uint8, uint16, uint32, uint64}"],
    shape=broadcast,
)
define(
    "RightShift",
    inputs=["x: T", "y: T"],
    outputs=["z: T"],
    attrs=["T: {int8, int16, int32, int64, uint8, uint16, uint32, uint64}"],
    shape=broadcast,
)
define(
    "Invert",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=["T: {int8, int16, int32, int64, uint8, uint16, uint32, uint64}"],
    shape=unchanged,
)
define(
    "PopulationCount",
    inputs=["x: T"],
    outputs=["y: uint8"],
    attrs=["T: {int8, int16, int32, int64, uint8, uint16, uint32, uint64}"],
    shape=unchanged,
)
