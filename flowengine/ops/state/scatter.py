"""Updates of rows and slices of variables."""

from __future__ import annotations

from typing import Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable, Reads
from flowengine.ops.array.gather import BAD_INDICES
from flowengine.ops.array.scatter import check_scatter_nd
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import prefix, ranked_at_least, suffix

# Updates of rows of variables.

#: Of arithmetic on rows, picked by index.
ROWS: Final = "T: numbertype; Tindices: indextype; use_locking: bool = false"


@define(
    "ScatterAdd(ref: Ref(T), indices: Tindices, updates: T) -> output_ref: Ref(T)", ROWS, NotDifferentiable()
)
@define(
    "ScatterDiv(ref: Ref(T), indices: Tindices, updates: T) -> output_ref: Ref(T)", ROWS, NotDifferentiable()
)
@define(
    "ScatterMax, ScatterMin(ref: Ref(T), indices: Tindices, updates: T) -> output_ref: Ref(T)",
    "T: {half, bfloat16, float, double, int32, int64}; Tindices: indextype; use_locking: bool = false",
    NotDifferentiable(),
)
@define(
    "ScatterMul(ref: Ref(T), indices: Tindices, updates: T) -> output_ref: Ref(T)", ROWS, NotDifferentiable()
)
@define(
    "ScatterSub(ref: Ref(T), indices: Tindices, updates: T) -> output_ref: Ref(T)", ROWS, NotDifferentiable()
)
@define(
    "ScatterUpdate(ref: Ref(T), indices: Tindices, updates: T) -> output_ref: Ref(T)",
    "T: type; Tindices: indextype; use_locking: bool = true",
    NotDifferentiable(),
)
def scatter(c: ShapeContext) -> Shapes:
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


@define(
    "ScatterNdAdd(ref: Ref(T), indices: Tindices, updates: T) -> output_ref: Ref(T)",
    ROWS,
    *BAD_INDICES,
    NotDifferentiable(),
)
@define(
    "ScatterNdSub(ref: Ref(T), indices: Tindices, updates: T) -> output_ref: Ref(T)",
    ROWS,
    *BAD_INDICES,
    NotDifferentiable(),
)
@define(
    "ScatterNdUpdate(ref: Ref(T), indices: Tindices, updates: T) -> output_ref: Ref(T)",
    "T: type; Tindices: indextype; use_locking: bool = true",
    *BAD_INDICES,
    NotDifferentiable(),
)
def scatter_nd_ref(c: ShapeContext) -> Shapes:
    check_scatter_nd(c.input(0), c.input(1), c.input(2))
    return [c.input(0)]


define(
    "ResourceScatterNdAdd, ResourceScatterNdSub, "
    "ResourceScatterNdUpdate(ref: resource, indices: Tindices, updates: T)",
    "stateful; T: type; Tindices: indextype; use_locking: bool = true",
    *BAD_INDICES,
    NotDifferentiable(),
)


@define(
    "ResourceGather(resource: resource, indices: Tindices) -> output: dtype",
    "stateful; batch_dims: int = 0; validate_indices: bool = true; dtype: type; Tindices: indextype",
    Reads("resource"),
)
def resource_gather(c: ShapeContext) -> Shapes:
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


@define(
    "ResourceGatherNd(resource: resource, indices: Tindices) -> output: dtype",
    "stateful; dtype: type; Tindices: indextype",
    Reads("resource"),
)
def resource_gather_nd(c: ShapeContext) -> Shapes:
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
    "ResourceScatterAdd, ResourceScatterDiv, ResourceScatterMax, ResourceScatterMin, ResourceScatterMul, "
    "ResourceScatterSub(resource: resource, indices: Tindices, updates: dtype)",
    "stateful; dtype: numbertype; Tindices: indextype",
    NotDifferentiable(),
)
define(
    "ResourceScatterUpdate(resource: resource, indices: Tindices, updates: dtype)",
    "stateful; dtype: type; Tindices: indextype",
    NotDifferentiable(),
)


# The larger or the smaller of slices of variables and updates.

define(
    "ScatterNdMax, ScatterNdMin(ref: Ref(T), indices: Tindices, updates: T) -> output_ref: Ref(T)",
    ROWS,
    *BAD_INDICES,
    NotDifferentiable(),
    shape=scatter_nd_ref,
)
define(
    "ResourceScatterNdMax, ResourceScatterNdMin(ref: resource, indices: Tindices, updates: T)",
    "stateful; T: type; Tindices: indextype; use_locking: bool = true",
    *BAD_INDICES,
    NotDifferentiable(),
)
