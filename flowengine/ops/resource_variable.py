"""Variables behind resource handles."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import prefix, ranked_at_least, scalars, suffix, vector

define(
    "VarHandleOp",
    outputs=["resource: resource"],
    attrs=['container: string = ""', 'shared_name: string = ""', "dtype: type", "shape: shape"],
    is_stateful=True,
    shape=scalars,
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
    shape=scalars,
)
define(
    "MutexV2",
    outputs=["resource: resource"],
    attrs=['container: string = ""', 'shared_name: string = ""'],
    is_stateful=True,
    shape=scalars,
)
define(
    "MutexLock", inputs=["mutex: resource"], outputs=["mutex_lock: variant"], is_stateful=True, shape=scalars
)
define(
    "VarIsInitializedOp",
    inputs=["resource: resource"],
    outputs=["is_initialized: bool"],
    is_stateful=True,
    shape=scalars,
)


def read_variable(c: ShapeContext) -> Sequence[TensorShape]:
    return [c.handle_shape(0)]


define(
    "ReadVariableOp",
    inputs=["resource: resource"],
    outputs=["value: dtype"],
    attrs=["dtype: type"],
    is_stateful=True,
    shape=read_variable,
)


def read_variables(c: ShapeContext) -> Sequence[TensorShape]:
    return [c.handle_shape(i) for i in range(c.num_inputs)]


define(
    "_ReadVariablesOp",
    inputs=["resources: N * resource"],
    outputs=["values: dtypes"],
    attrs=["N: int >= 0", "dtypes: list(type) >= 1"],
    is_stateful=True,
    shape=read_variables,
)


def variable_shape(c: ShapeContext) -> Sequence[TensorShape]:
    return [vector(c.handle_shape(0).rank)]


define(
    "VariableShape",
    inputs=["input: resource"],
    outputs=["output: out_type"],
    attrs=["out_type: {int32, int64} = int32"],
    is_stateful=True,
    shape=variable_shape,
)


def resource_gather(c: ShapeContext) -> Sequence[TensorShape]:
    """(rows, rest...), indices -> (indices..., rest...), the first batch_dims shared"""
    params, indices = c.handle_shape(0), c.input(1)
    batch: int = c.attrs["batch_dims"]
    if batch < 0:
        if indices.rank is None:
            return [UNKNOWN_SHAPE]
        batch += indices.rank
    if params.dims is None or indices.dims is None:
        return [UNKNOWN_SHAPE]
    if batch > len(indices.dims) or batch >= len(params.dims):
        raise InvalidArgumentError(f"batch_dims {batch} does not fit params {params} and indices {indices}")
    return [indices.concatenate(suffix(params, batch + 1))]


define(
    "ResourceGather",
    inputs=["resource: resource", "indices: Tindices"],
    outputs=["output: dtype"],
    attrs=["batch_dims: int = 0", "validate_indices: bool = true", "dtype: type", "Tindices: {int32, int64}"],
    is_stateful=True,
    shape=resource_gather,
)


def resource_gather_nd(c: ShapeContext) -> Sequence[TensorShape]:
    params, indices = c.handle_shape(0), ranked_at_least(c, 1, 1)
    if params.dims is None or indices.dims is None or indices.dims[-1] is None:
        return [UNKNOWN_SHAPE]
    depth = indices.dims[-1]
    if depth > len(params.dims):
        raise InvalidArgumentError(
            f"indices.shape[-1] must be <= params.rank, but saw indices shape {indices} and params {params}"
        )
    return [prefix(indices, -1).concatenate(suffix(params, depth))]


define(
    "ResourceGatherNd",
    inputs=["resource: resource", "indices: Tindices"],
    outputs=["output: dtype"],
    attrs=["dtype: type", "Tindices: {int32, int64}"],
    is_stateful=True,
    shape=resource_gather_nd,
)
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
