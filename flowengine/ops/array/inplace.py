"""Rows and strided slices that are written over."""

from __future__ import annotations

from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import unchanged

# Rows of a tensor replaced.

define("InplaceAdd(x: T, i: int32, v: T) -> y: T", "T: type", shape=unchanged)
define("InplaceSub(x: T, i: int32, v: T) -> y: T", "T: type", shape=unchanged)
define("InplaceUpdate(x: T, i: int32, v: T) -> y: T", "T: type", shape=unchanged)


# Assignment to a strided slice of a variable.

define(
    "StridedSliceAssign(ref: Ref(T), begin, end, strides: Index, value: T) -> output_ref: Ref(T)",
    "T: type; Index: indextype",
    "begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask: int = 0",
    NotDifferentiable(),
    shape=unchanged,
)
define(
    "ResourceStridedSliceAssign(ref: resource, begin, end, strides: Index, value: T)",
    "stateful; T: type; Index: indextype",
    "begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask: int = 0",
    NotDifferentiable(),
)
