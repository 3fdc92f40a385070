"""Rows picked by index, and the beams of a beam search."""

from __future__ import annotations

from typing import Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape, unknown_of_rank
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import Newer, NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    axis_of,
    merge,
    prefix,
    ranked,
    ranked_at_least,
    scalar_value,
    suffix,
)

# Rows picked by index.

#: In TensorFlow 2: whether an index outside is refused or, with IGNORE, passed over.
BAD_INDICES: Final = ("bad_indices_policy: string = ''", Newer(("bad_indices_policy",)))


@define(
    "Gather(params: Tparams, indices: Tindices) -> output: Tparams",
    "validate_indices: bool = true; Tparams: type; Tindices: shortindextype",
)
def gather_rows(c: ShapeContext) -> Shapes:
    """(rows, rest...), indices -> (indices..., rest...)"""
    params = ranked_at_least(c, 0, 1)
    return [c.input(1).concatenate(suffix(params, 1))]


@define(
    "GatherV2(params: Tparams, indices: Tindices, axis: Taxis) -> output: Tparams",
    "batch_dims: int = 0; Tparams: type; Tindices: shortindextype; Taxis: indextype",
)
def gather(c: ShapeContext) -> Shapes:
    """(before..., axis, after...), (batch..., indices...) -> (before..., indices..., after...)"""
    params, indices = ranked_at_least(c, 0, 1), c.input(1)
    axis = scalar_value(c, 2)
    batch: int = c.attrs["batch_dims"]
    if params.dims is None or indices.dims is None:
        return [UNKNOWN_SHAPE]
    rank = len(params.dims)
    if batch < 0:
        batch += len(indices.dims)
    if axis is None:
        return [unknown_of_rank(rank - 1 + len(indices.dims) - batch)]
    where = axis_of(axis, rank)
    if not 0 <= batch <= min(where, len(indices.dims)):
        raise InvalidArgumentError(
            f"batch_dims ({batch}) must not exceed axis ({where}) nor the rank of indices {indices}"
        )
    merged = prefix(params, batch).merge_with(prefix(indices, batch))
    before = TensorShape(params.dims[batch:where])
    picked = suffix(indices, batch)
    return [merged.concatenate(before).concatenate(picked).concatenate(suffix(params, where + 1))]


@define(
    "GatherNd(params: Tparams, indices: Tindices) -> output: Tparams",
    "Tparams: type; Tindices: shortindextype",
    *BAD_INDICES,
)
def gather_nd(c: ShapeContext) -> Shapes:
    """params, (outer..., k) -> (outer..., what k indices leave of params)"""
    params, indices = c.input(0), ranked_at_least(c, 1, 1)
    if params.dims is None or indices.dims is None or indices.dims[-1] is None:
        return [UNKNOWN_SHAPE]
    depth = indices.dims[-1]
    if depth > len(params.dims):
        raise InvalidArgumentError(
            f"indices.shape[-1] must be <= params.rank, but saw indices shape {indices} and params {params}"
        )
    return [prefix(indices, -1).concatenate(suffix(params, depth))]


# The beams of a beam search, read back from their last steps.


@define(
    "GatherTree, "
    "Addons>GatherTree(step_ids, parent_ids: T, max_sequence_lengths: int32, end_token: T) -> beams: T",
    "T: {int32}",
    NotDifferentiable(),
)
def gather_tree(c: ShapeContext) -> Shapes:
    """steps and parents (time, batch, beams) -> beams of that shape"""
    ranked(c, 0, 3)
    ranked(c, 1, 3)
    return [merge(c, (0, 1))]
