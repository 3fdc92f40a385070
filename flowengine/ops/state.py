"""Reference variables and what changes them."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.array_indexing import check_scatter_nd
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    attr_shape,
    merge,
    merged,
    of_rank,
    ranked,
    ranked_at_least,
    scalars,
    suffix,
    unchanged,
)

define(
    "VariableV2",
    outputs=["ref: Ref(dtype)"],
    attrs=["shape: shape", "dtype: type", 'container: string = ""', 'shared_name: string = ""'],
    is_stateful=True,
    shape=attr_shape,
)
define(
    "TemporaryVariable",
    outputs=["ref: Ref(dtype)"],
    attrs=["shape: shape", "dtype: type", 'var_name: string = ""'],
    is_stateful=True,
    shape=attr_shape,
)


def variable(c: ShapeContext) -> Sequence[TensorShape]:
    """The attribute, except that of old a scalar's shape stands for an unknown one."""
    shape: TensorShape = c.attrs["shape"]
    return [shape if shape.rank else UNKNOWN_SHAPE]


define(
    "Variable",
    outputs=["ref: Ref(dtype)"],
    attrs=["shape: shape", "dtype: type", 'container: string = ""', 'shared_name: string = ""'],
    is_stateful=True,
    shape=variable,
)
define(
    "IsVariableInitialized",
    inputs=["ref: Ref(dtype)"],
    outputs=["is_initialized: bool"],
    attrs=["dtype: type"],
    allows_uninitialized_input=True,
    shape=scalars,
)
define(
    "DestroyTemporaryVariable",
    inputs=["ref: Ref(T)"],
    outputs=["value: T"],
    attrs=["T: type", "var_name: string"],
    shape=unchanged,
)


def assign(c: ShapeContext) -> Sequence[TensorShape]:
    """The value's shape; where it is validated, the variable's too."""
    return [merge(c, (0, 1)) if c.attrs["validate_shape"] else c.input(1)]


define(
    "Assign",
    inputs=["ref: Ref(T)", "value: T"],
    outputs=["output_ref: Ref(T)"],
    attrs=["T: type", "validate_shape: bool = true", "use_locking: bool = true"],
    allows_uninitialized_input=True,
    shape=assign,
)
define(
    "AssignAdd",
    inputs=["ref: Ref(T)", "value: T"],
    outputs=["output_ref: Ref(T)"],
    attrs=["T: numbertype", "use_locking: bool = false"],
    shape=merged,
)
define(
    "AssignSub",
    inputs=["ref: Ref(T)", "value: T"],
    outputs=["output_ref: Ref(T)"],
    attrs=["T: numbertype", "use_locking: bool = false"],
    shape=merged,
)
define(
    "CountUpTo",
    inputs=["ref: Ref(T)"],
    outputs=["output: T"],
    attrs=["limit: int", "T: {int32, int64}"],
    shape=of_rank(0),
)


def resource_count_up_to(c: ShapeContext) -> Sequence[TensorShape]:
    ranked(c, 0, 0)
    return [c.handle_shape(0).with_rank(0)]


define(
    "ResourceCountUpTo",
    inputs=["resource: resource"],
    outputs=["output: T"],
    attrs=["limit: int", "T: {int32, int64}"],
    is_stateful=True,
    shape=resource_count_up_to,
)


def scatter(c: ShapeContext) -> Sequence[TensorShape]:
    """ref (rows, rest...), indices, updates (indices..., rest...) or a scalar -> ref"""
    ref, indices, updates = ranked_at_least(c, 0, 1), c.input(1), c.input(2)
    check_scatter(ref, indices, updates)
    return [ref]


def check_scatter(ref: TensorShape, indices: TensorShape, updates: TensorShape) -> None:
    """Whether updates of this shape fit rows at such indices."""
    expected = indices.concatenate(suffix(ref, 1))
    if updates.rank != 0 and not expected.is_compatible_with(updates):
        raise InvalidArgumentError(
            f"Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], "
            f"got updates.shape {updates}, indices.shape {indices}, params.shape {ref}"
        )


define(
    "ScatterAdd",
    inputs=["ref: Ref(T)", "indices: Tindices", "updates: T"],
    outputs=["output_ref: Ref(T)"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
    shape=scatter,
)
define(
    "ScatterDiv",
    inputs=["ref: Ref(T)", "indices: Tindices", "updates: T"],
    outputs=["output_ref: Ref(T)"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
    shape=scatter,
)
define(
    "ScatterMax",
    inputs=["ref: Ref(T)", "indices: Tindices", "updates: T"],
    outputs=["output_ref: Ref(T)"],
    attrs=[
        "T: {half, bfloat16, float, double, int32, int64}",
        "Tindices: {int32, int64}",
        "use_locking: bool = false",
    ],
    shape=scatter,
)
define(
    "ScatterMin",
    inputs=["ref: Ref(T)", "indices: Tindices", "updates: T"],
    outputs=["output_ref: Ref(T)"],
    attrs=[
        "T: {half, bfloat16, float, double, int32, int64}",
        "Tindices: {int32, int64}",
        "use_locking: bool = false",
    ],
    shape=scatter,
)
define(
    "ScatterMul",
    inputs=["ref: Ref(T)", "indices: Tindices", "updates: T"],
    outputs=["output_ref: Ref(T)"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
    shape=scatter,
)
define(
    "ScatterSub",
    inputs=["ref: Ref(T)", "indices: Tindices", "updates: T"],
    outputs=["output_ref: Ref(T)"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
    shape=scatter,
)
define(
    "ScatterUpdate",
    inputs=["ref: Ref(T)", "indices: Tindices", "updates: T"],
    outputs=["output_ref: Ref(T)"],
    attrs=["T: type", "Tindices: {int32, int64}", "use_locking: bool = true"],
    shape=scatter,
)


def scatter_nd_ref(c: ShapeContext) -> Sequence[TensorShape]:
    check_scatter_nd(c.input(0), c.input(1), c.input(2))
    return [c.input(0)]


define(
    "ScatterNdAdd",
    inputs=["ref: Ref(T)", "indices: Tindices", "updates: T"],
    outputs=["output_ref: Ref(T)"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
    shape=scatter_nd_ref,
)
define(
    "ScatterNdSub",
    inputs=["ref: Ref(T)", "indices: Tindices", "updates: T"],
    outputs=["output_ref: Ref(T)"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
    shape=scatter_nd_ref,
)
define(
    "ScatterNdUpdate",
    inputs=["ref: Ref(T)", "indices: Tindices", "updates: T"],
    outputs=["output_ref: Ref(T)"],
    attrs=["T: type", "Tindices: {int32, int64}", "use_locking: bool = true"],
    shape=scatter_nd_ref,
)
define(
    "ResourceScatterNdAdd",
    inputs=["ref: resource", "indices: Tindices", "updates: T"],
    attrs=["T: type", "Tindices: {int32, int64}", "use_locking: bool = true"],
    is_stateful=True,
)
define(
    "ResourceScatterNdSub",
    inputs=["ref: resource", "indices: Tindices", "updates: T"],
    attrs=["T: type", "Tindices: {int32, int64}", "use_locking: bool = true"],
    is_stateful=True,
)
define(
    "ResourceScatterNdUpdate",
    inputs=["ref: resource", "indices: Tindices", "updates: T"],
    attrs=["T: type", "Tindices: {int32, int64}", "use_locking: bool = true"],
    is_stateful=True,
)
