"""Barriers as nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.ir.graph import Node
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel
from flowengine.resources.barrier import Barrier
from flowengine.resources.names import resource_name


@kernel("Barrier", heavy=False)
def barrier(
    *,
    ctx: KernelContext,
    node: Node,
    component_types: tuple[DType, ...],
    shapes: tuple[TensorShape, ...],
    capacity: int,
    container: bytes,
    shared_name: bytes,
) -> Barrier:
    """A barrier of this container and name."""
    if capacity != -1:
        raise InvalidArgumentError(
            f"Barrier only accepts capacity=-1.  Feed the inputs to your Barrier through "
            f"a queue to enforce a limited capacity (capacity was {capacity})"
        )
    where, name = resource_name(container, shared_name, node.name)
    found = ctx.resources.lookup_or_create(
        where, name, Barrier, lambda: Barrier(name, component_types, shapes, container=where)
    )
    if found.component_types != component_types:
        raise InvalidArgumentError(f"Shared barrier '{name}' has other component types than were requested")
    return found


def _checked(handle: Any) -> Barrier:
    if isinstance(handle, Barrier):
        return handle
    raise InvalidArgumentError(f"the handle of a barrier is wanted, not a {type(handle).__name__}")


@kernel("BarrierInsertMany")
def barrier_insert_many(handle: Any, keys: Any, values: Any, *, component_index: int) -> None:
    """Give component `component_index` (n, ...) of the keys (string, (n,))."""
    _checked(handle).insert_many(component_index, keys, values)


def _count(num_elements: Any) -> int:
    if getattr(num_elements, "ndim", 0):
        raise InvalidArgumentError(f"num_elements must be a scalar, not of shape {list(num_elements.shape)}")
    return int(num_elements)


def _check_timeout(timeout_ms: int) -> None:
    if timeout_ms != -1:
        raise InvalidArgumentError(
            f"Timeout not supported yet: timeout_ms is {timeout_ms}; set RunOptions(timeout_seconds=...)"
        )


def _take_nowait(handle: Any, num_elements: Any, *, allow_small_batch: bool, timeout_ms: int) -> Any:
    _check_timeout(timeout_ms)
    return _checked(handle).take_many_nowait(_count(num_elements), up_to=allow_small_batch)


@kernel("BarrierTakeMany", heavy=False, nowait=_take_nowait)
async def barrier_take_many(
    handle: Any, num_elements: Any, *, allow_small_batch: bool, timeout_ms: int
) -> Any:
    """Indices (int64), keys and components of `num_elements` (int32, rank 0) ready keys, waiting for them."""
    _check_timeout(timeout_ms)
    return await _checked(handle).take_many(_count(num_elements), up_to=allow_small_batch)


@kernel("BarrierClose", heavy=False)
def barrier_close(handle: Any, *, cancel_pending_enqueues: bool) -> None:
    """Refuse new keys."""
    _checked(handle).close(cancel_pending_enqueues=cancel_pending_enqueues)


@kernel("BarrierReadySize", heavy=False)
def barrier_ready_size(handle: Any) -> Any:
    """How many keys have all their components (int32, rank 0)."""
    return np.int32(_checked(handle).ready_size)


@kernel("BarrierIncompleteSize", heavy=False)
def barrier_incomplete_size(handle: Any) -> Any:
    """How many keys lack a component (int32, rank 0)."""
    return np.int32(_checked(handle).incomplete_size)
