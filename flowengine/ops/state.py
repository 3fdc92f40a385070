"""Reference variables and what changes them."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "Assign",
    inputs=["ref: Ref(T)", "value: T"],
    outputs=["output_ref: Ref(T)"],
    attrs=["T: type", "validate_shape: bool = true", "use_locking: bool = true"],
    allows_uninitialized_input=True,
)
define(
    "AssignAdd",
    inputs=["ref: Ref(T)", "value: T"],
    outputs=["output_ref: Ref(T)"],
    attrs=["T: numbertype", "use_locking: bool = false"],
)
define(
    "AssignSub",
    inputs=["ref: Ref(T)", "value: T"],
    outputs=["output_ref: Ref(T)"],
    attrs=["T: numbertype", "use_locking: bool = false"],
)
define("CountUpTo", inputs=["ref: Ref(T)"], outputs=["output: T"], attrs=["limit: int", "T: {int32, int64}"])
define(
    "DestroyTemporaryVariable",
    inputs=["ref: Ref(T)"],
    outputs=["value: T"],
    attrs=["T: type", "var_name: string"],
)
define(
    "IsVariableInitialized",
    inputs=["ref: Ref(dtype)"],
    outputs=["is_initialized: bool"],
    attrs=["dtype: type"],
    allows_uninitialized_input=True,
)
define(
    "ResourceCountUpTo",
    inputs=["resource: resource"],
    outputs=["output: T"],
    attrs=["limit: int", "T: {int32, int64}"],
    is_stateful=True,
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
define(
    "ScatterAdd",
    inputs=["ref: Ref(T)", "indices: Tindices", "updates: T"],
    outputs=["output_ref: Ref(T)"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
)
define(
    "ScatterDiv",
    inputs=["ref: Ref(T)", "indices: Tindices", "updates: T"],
    outputs=["output_ref: Ref(T)"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
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
)
define(
    "ScatterMul",
    inputs=["ref: Ref(T)", "indices: Tindices", "updates: T"],
    outputs=["output_ref: Ref(T)"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
)
define(
    "ScatterNdAdd",
    inputs=["ref: Ref(T)", "indices: Tindices", "updates: T"],
    outputs=["output_ref: Ref(T)"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
)
define(
    "ScatterNdSub",
    inputs=["ref: Ref(T)", "indices: Tindices", "updates: T"],
    outputs=["output_ref: Ref(T)"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
)
define(
    "ScatterNdUpdate",
    inputs=["ref: Ref(T)", "indices: Tindices", "updates: T"],
    outputs=["output_ref: Ref(T)"],
    attrs=["T: type", "Tindices: {int32, int64}", "use_locking: bool = true"],
)
define(
    "ScatterSub",
    inputs=["ref: Ref(T)", "indices: Tindices", "updates: T"],
    outputs=["output_ref: Ref(T)"],
    attrs=["T: numbertype", "Tindices: {int32, int64}", "use_locking: bool = false"],
)
define(
    "ScatterUpdate",
    inputs=["ref: Ref(T)", "indices: Tindices", "updates: T"],
    outputs=["output_ref: Ref(T)"],
    attrs=["T: type", "Tindices: {int32, int64}", "use_locking: bool = true"],
)
define(
    "TemporaryVariable",
    outputs=["ref: Ref(dtype)"],
    attrs=["shape: shape", "dtype: type", 'var_name: string = ""'],
    is_stateful=True,
)
define(
    "Variable",
    outputs=["ref: Ref(dtype)"],
    attrs=["shape: shape", "dtype: type", 'container: string = ""', 'shared_name: string = ""'],
    is_stateful=True,
)
define(
    "VariableV2",
    outputs=["ref: Ref(dtype)"],
    attrs=["shape: shape", "dtype: type", 'container: string = ""', 'shared_name: string = ""'],
    is_stateful=True,
)
