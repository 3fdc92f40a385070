"""Gathers, scatters and sums of segments of nodes: `kernels/cuda/rows.py`.

Sums are added atomically, in no fixed order; where a session is to be deterministic rows are sorted by their
index first, and added one after another: the CPU's bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from flowengine.core.arrays import Array, in_host_memory
from flowengine.core.dtypes import float16, float32, float64, int32, int64
from flowengine.ir.graph import Node
from flowengine.kernels.common.array_args import integer
from flowengine.kernels.common.indices import check_indices
from flowengine.kernels.cuda import rows as kernels
from flowengine.kernels.cuda.serving import dense, serves
from flowengine.kernels.cuda.session_launcher import SessionLauncher
from flowengine.kernels.state.variables import check_dtype, existing
from flowengine.resources.variable import Variable

_INDICES: Final = (int32, int64)
_SUMMED: Final = (float16, float32, float64, int32, int64)


def _is_far(indices: Any) -> bool:
    """Whether these are indices in the device's memory, of types that there are kernels for."""
    return not in_host_memory(indices) and indices.dtype.name in ("int32", "int64")


def _gathered(
    launcher: SessionLauncher, params: Array, indices: Array, axis: int, batch_dims: int = 0
) -> Any:
    """Slices along an axis; None where the sources have no kernel for it, or something is wrong."""
    rank = params.ndim
    axis += rank if axis < 0 else 0
    batch_dims += indices.ndim if batch_dims < 0 else 0
    if not _is_far(indices) or not 0 <= batch_dims <= min(axis, indices.ndim) or not axis < rank:
        return None
    if indices.shape[:batch_dims] != params.shape[:batch_dims] or not params.size:
        return None
    return kernels.gather(
        launcher, dense(launcher, params), dense(launcher, indices), axis, batch_dims=batch_dims
    )


@serves("Gather", family="rows", types={"Tindices": _INDICES})
def gather_kernel(launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    def compute(params: Array, indices: Array) -> Any:
        found = _gathered(launcher, params, indices, 0)
        return otherwise(params, indices) if found is None else found

    return compute


@serves("GatherV2", family="rows", types={"Tindices": _INDICES})
def gather_v2_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    batch_dims = node.attrs.get("batch_dims", 0)

    def compute(params: Array, indices: Array, axis: Any) -> Any:
        number = integer(axis, "axis")
        found = None
        if -params.ndim <= number < params.ndim:
            found = _gathered(launcher, params, indices, number, batch_dims)
        return otherwise(params, indices, axis) if found is None else found

    return compute


@serves("ResourceGather", family="rows", types={"Tindices": _INDICES})
def resource_gather_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    batch_dims, dtype = node.attrs.get("batch_dims", 0), node.attrs["dtype"]

    def compute(resource: Any, indices: Array) -> Any:
        variable = existing(resource)
        check_dtype(variable, dtype)
        shared = batch_dims + indices.ndim if batch_dims < 0 else batch_dims
        found = _gathered(launcher, variable.read(), indices, shared, shared)
        return otherwise(resource, indices) if found is None else found

    return compute


def _sum_rows(
    launcher: SessionLauncher, out: Array, positions: Array, rows: Array, *, subtracts: bool = False
) -> None:
    """out[positions[i]] += rows[i], or -=; rows of negative positions are left out."""
    rows, positions = dense(launcher, rows), dense(launcher, positions)
    if launcher.device.settings.deterministic or out.dtype.name not in kernels.ATOMIC:
        ordered, order = kernels.sorted_positions(launcher.xp, positions)
        kernels.add_rows(launcher, out, ordered, rows, order=order, subtracts=subtracts, drops_negative=True)
        return
    kernels.add_rows_atomically(launcher, out, positions, rows, subtracts=subtracts, drops_negative=True)


@serves("UnsortedSegmentSum", "SegmentSumV2", family="rows", types={"T": _SUMMED, "Tindices": _INDICES})
def unsorted_segment_sum_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    def compute(data: Array, segment_ids: Array, num_segments: Any) -> Any:
        depth = segment_ids.ndim
        if not _is_far(segment_ids) or data.shape[:depth] != segment_ids.shape or not depth:
            return otherwise(data, segment_ids, num_segments)
        count = integer(num_segments, "num_segments")
        if count < 0:
            return otherwise(data, segment_ids, num_segments)
        inner = data.shape[depth:]
        out = launcher.xp.zeros((count, *inner), data.dtype)
        rows = dense(launcher, data).reshape((segment_ids.size, *inner))
        _sum_rows(launcher, out, dense(launcher, segment_ids).reshape(-1), rows)
        return out

    return compute


def _scattered(
    launcher: SessionLauncher, variable: Variable, indices: Array, updates: Array, *, subtracts: bool
) -> bool:
    """Whether rows of a variable were changed; False, nothing being changed, for what is not usual."""
    shape = variable.value_shape
    if not variable.is_initialized or not shape or not _is_far(indices):
        return False
    if updates.shape != indices.shape + shape[1:] or not updates.size:
        return False
    check_indices(indices, shape[0])
    positions = dense(launcher, indices).reshape(-1)
    rows = dense(launcher, updates).reshape((positions.size, *shape[1:]))
    # Where an index is outside nothing of the variable changes.
    wrong = ((positions < 0) | (positions >= shape[0])).any()
    positions = launcher.xp.where(wrong, positions.dtype.type(-1), positions)
    _sum_rows(launcher, variable.mutable(), positions, rows, subtracts=subtracts)
    return True


@serves("ScatterAdd", "ScatterSub", family="rows", types={"T": _SUMMED, "Tindices": _INDICES})
def scatter_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    subtracts = node.op == "ScatterSub"

    def compute(ref: Variable, indices: Array, updates: Array) -> Any:
        if _scattered(launcher, ref, indices, updates, subtracts=subtracts):
            return ref
        return otherwise(ref, indices, updates)

    return compute


@serves(
    "ResourceScatterAdd", "ResourceScatterSub", family="rows", types={"dtype": _SUMMED, "Tindices": _INDICES}
)
def resource_scatter_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    subtracts, dtype = node.op == "ResourceScatterSub", node.attrs["dtype"]

    def compute(resource: Any, indices: Array, updates: Array) -> None:
        variable = existing(resource)
        check_dtype(variable, dtype)
        if not _scattered(launcher, variable, indices, updates, subtracts=subtracts):
            otherwise(resource, indices, updates)

    return compute


__all__ = [
    "gather_kernel",
    "gather_v2_kernel",
    "resource_gather_kernel",
    "resource_scatter_kernel",
    "scatter_kernel",
    "unsorted_segment_sum_kernel",
]
