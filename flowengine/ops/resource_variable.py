"""Variables behind resource handles."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "AssignAddVariableOp",
    inputs=["resource: resource", "value: dtype"],
    attrs=["dtype: type"],
    is_stateful=True,
)
define(
    "AssignSubVariableOp",
    inputs=["resource: resource", "value: dtype"],
    attrs=["dtype: type"],
    is_stateful=True,
)
define(
    "AssignVariableOp", inputs=["resource: resource", "value: dtype"], attrs=["dtype: type"], is_stateful=True
)
define("ConsumeMutexLock", inputs=["mutex_lock: variant"], is_stateful=True)
define(
    "DestroyResourceOp",
    inputs=["resource: resource"],
    attrs=["ignore_lookup_error: bool = true"],
    is_stateful=True,
)
define("DisableCopyOnRead", inputs=["resource: resource"], is_stateful=True)
define("MutexLock", inputs=["mutex: resource"], outputs=["mutex_lock: variant"], is_stateful=True)
define(
    "MutexV2",
    outputs=["resource: resource"],
    attrs=['container: string = ""', 'shared_name: string = ""'],
    is_stateful=True,
)
define(
    "ReadVariableOp",
    inputs=["resource: resource"],
    outputs=["value: dtype"],
    attrs=["dtype: type"],
    is_stateful=True,
)
define(
    "ResourceGather",
    inputs=["resource: resource", "indices: Tindices"],
    outputs=["output: dtype"],
    attrs=["batch_dims: int = 0", "validate_indices: bool = true", "dtype: type", "Tindices: {int32, int64}"],
    is_stateful=True,
)
define(
    "ResourceGatherNd",
    inputs=["resource: resource", "indices: Tindices"],
    outputs=["output: dtype"],
    attrs=["dtype: type", "Tindices: {int32, int64}"],
    is_stateful=True,
)
define(
    "ResourceScatterAdd",
    inputs=["resource: resource", "indices: Tindices", "updates: dtype"],
    attrs=["dtype: numbertype", "Tindices: {int32, int64}"],
    is_stateful=True,
)
define(
    "ResourceScatterDiv",
    inputs=["resource: resource", "indices: Tindices", "updates: dtype"],
    attrs=["dtype: numbertype", "Tindices: {int32, int64}"],
    is_stateful=True,
)
define(
    "ResourceScatterMax",
    inputs=["resource: resource", "indices: Tindices", "updates: dtype"],
    attrs=["dtype: numbertype", "Tindices: {int32, int64}"],
    is_stateful=True,
)
define(
    "ResourceScatterMin",
    inputs=["resource: resource", "indices: Tindices", "updates: dtype"],
    attrs=["dtype: numbertype", "Tindices: {int32, int64}"],
    is_stateful=True,
)
define(
    "ResourceScatterMul",
    inputs=["resource: resource", "indices: Tindices", "updates: dtype"],
    attrs=["dtype: numbertype", "Tindices: {int32, int64}"],
    is_stateful=True,
)
define(
    "ResourceScatterSub",
    inputs=["resource: resource", "indices: Tindices", "updates: dtype"],
    attrs=["dtype: numbertype", "Tindices: {int32, int64}"],
    is_stateful=True,
)
define(
    "ResourceScatterUpdate",
    inputs=["resource: resource", "indices: Tindices", "updates: dtype"],
    attrs=["dtype: type", "Tindices: {int32, int64}"],
    is_stateful=True,
)
define(
    "VarHandleOp",
    outputs=["resource: resource"],
    attrs=['container: string = ""', 'shared_name: string = ""', "dtype: type", "shape: shape"],
    is_stateful=True,
)
define(
    "VarIsInitializedOp", inputs=["resource: resource"], outputs=["is_initialized: bool"], is_stateful=True
)
define(
    "VariableShape",
    inputs=["input: resource"],
    outputs=["output: out_type"],
    attrs=["out_type: {int32, int64} = int32"],
    is_stateful=True,
)
define(
    "_ReadVariablesOp",
    inputs=["resources: N * resource"],
    outputs=["values: dtypes"],
    attrs=["N: int >= 0", "dtypes: list(type) >= 1"],
    is_stateful=True,
)
define(
    "_VarHandlesOp",
    outputs=["resources: N * resource"],
    attrs=[
        "containers: list(string)",
        "shared_names: list(string)",
        "N: int >= 0",
        "dtypes: list(type)",
        "shapes: list(shape)",
    ],
    is_stateful=True,
)
