"""The larger or the smaller of slices of variables and updates."""

from __future__ import annotations

from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.array.gather import BAD_INDICES
from flowengine.ops.registry import define
from flowengine.ops.state.scatter import ROWS, scatter_nd_ref

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
