"""The place of one index in a random order of all."""

from __future__ import annotations

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, broadcast_shapes
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import prefix, ranked_at_least, ranked_at_most


@define(
    "RandomIndexShuffle(index: dtype, seed: Tseed, max_index: dtype) -> output: dtype",
    "rounds: int = 4; dtype, Tseed: {int32, uint32, int64, uint64}",
    NotDifferentiable(),
)
def index_shuffle(c: ShapeContext) -> Shapes:
    """indices, seeds (..., 3), greatest indices -> indices; scalars or vectors"""
    index, seed, most = ranked_at_most(c, 0, 1), ranked_at_least(c, 1, 1), ranked_at_most(c, 2, 1)
    if index.dims is None or seed.dims is None or most.dims is None:
        return [UNKNOWN_SHAPE]
    if seed.dims[-1] not in (None, 3) or len(seed.dims) > 2:
        raise InvalidArgumentError(f"seed must have shape [3] or [n, 3], not {seed}")
    return [broadcast_shapes(broadcast_shapes(index, most), prefix(seed, -1))]
