"""The larger or the smaller of slices of variables and updates, in place."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.kernels.registry import kernel
from flowengine.kernels.state import device_scatter
from flowengine.kernels.state.resource_variables import existing
from flowengine.kernels.state.scatter import scatter_cost, scatter_slices
from flowengine.resources.variable import Variable


@kernel("ScatterNdMax", heavy=scatter_cost)
def scatter_nd_max(ref: Variable, indices: Any, updates: Any, *, bad_indices_policy: bytes = b"") -> Variable:
    """Elementwise maximum of slices and updates."""
    scatter_slices(ref, indices, updates, np.maximum, bad_indices_policy)
    return ref


@kernel("ScatterNdMin", heavy=scatter_cost)
def scatter_nd_min(ref: Variable, indices: Any, updates: Any, *, bad_indices_policy: bytes = b"") -> Variable:
    """Elementwise minimum of slices and updates."""
    scatter_slices(ref, indices, updates, np.minimum, bad_indices_policy)
    return ref


@kernel("ResourceScatterNdMax", heavy=scatter_cost)
def resource_scatter_nd_max(ref: Any, indices: Any, updates: Any, *, bad_indices_policy: bytes = b"") -> None:
    """Elementwise maximum of slices and updates."""
    scatter_slices(existing(ref), indices, updates, np.maximum, bad_indices_policy)


@kernel("ResourceScatterNdMin", heavy=scatter_cost)
def resource_scatter_nd_min(ref: Any, indices: Any, updates: Any, *, bad_indices_policy: bytes = b"") -> None:
    """Elementwise minimum of slices and updates."""
    scatter_slices(existing(ref), indices, updates, np.minimum, bad_indices_policy)


for _name in ("Max", "Min"):
    _way = device_scatter.WAYS[_name]
    kernel(f"ScatterNd{_name}", device=None)(device_scatter.slices_by_reference(_way))
    kernel(f"ResourceScatterNd{_name}", device=None)(device_scatter.slices_by_handle(_way))
