"""Queues and barriers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flowengine.core.arrays import Value
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.ir.graph import Node
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel
from flowengine.resources.barrier import Barrier
from flowengine.resources.counted_queues import maker
from flowengine.resources.names import resource_name
from flowengine.resources.queue import UNBOUNDED, Queue
from flowengine.resources.queue_kinds import FIFOQueue, PaddingFIFOQueue, PriorityQueue, RandomShuffleQueue

# Queues as nodes: makers, and operations that wait as coroutines of the step.
#
# The older ops, whose handle is a reference to strings, share these kernels: the handle that flows is the
# queue itself either way.


def _verified(ctx: KernelContext, node: Node, container: bytes, shared_name: bytes) -> Queue | None:
    """The queue of the node's container and name, if it was found before to be what the node declares."""
    where, name = resource_name(container, shared_name, node.name)
    found = ctx.resources.find(where, name, Queue)
    return found if found is not None and found.verified is node else None


def _shared(
    ctx: KernelContext,
    node: Node,
    container: bytes,
    shared_name: bytes,
    make: Callable[[str, str], Queue],
    matches: Callable[[Queue], None],
) -> Queue:
    """The queue of this container and name, checked by `matches` where it was there already."""
    where, name = resource_name(container, shared_name, node.name)
    queue = ctx.resources.lookup_or_create(where, name, Queue, lambda: make(name, where))
    matches(queue)
    queue.verified = node
    return queue


def _require_same(queue: Queue, what: str, has: object, asked: object) -> None:
    if has != asked:
        raise InvalidArgumentError(
            f"Shared queue '{queue.name}' has {what} {has} but requested {what} was {asked}"
        )


def _match(
    queue: Queue,
    kind: type[Queue],
    types: Sequence[DType],
    shapes: Sequence[TensorShape] | None,
    capacity: int,
) -> None:
    """InvalidArgumentError where a queue that exists is not what another node of its name declares."""
    if queue.kind != kind.kind:
        raise InvalidArgumentError(
            f"Shared queue '{queue.name}' has type {queue.kind} but a {kind.kind} was requested"
        )
    _require_same(queue, "capacity", queue.capacity, UNBOUNDED if capacity < 0 else capacity)
    if queue.component_types is not types:
        _require_same(queue, "component types", queue.component_types, tuple(types))
    if queue.shapes is not shapes:
        _require_same(queue, "component shapes", queue.shapes, tuple(shapes) if shapes else None)


@kernel("FIFOQueue", "FIFOQueueV2", heavy=False)
def fifo_queue(
    *,
    ctx: KernelContext,
    node: Node,
    component_types: tuple[DType, ...],
    shapes: tuple[TensorShape, ...],
    capacity: int,
    container: bytes,
    shared_name: bytes,
) -> Queue:
    """A queue that is first in, first out."""
    found = _verified(ctx, node, container, shared_name)
    if found is not None:
        return found
    return _shared(
        ctx,
        node,
        container,
        shared_name,
        lambda name, where: maker(FIFOQueue, counted=ctx.resources.account is not None)(
            name, component_types, shapes, capacity=capacity, container=where
        ),
        lambda queue: _match(queue, FIFOQueue, component_types, shapes, capacity),
    )


@kernel("PaddingFIFOQueue", "PaddingFIFOQueueV2", heavy=False)
def padding_fifo_queue(
    *,
    ctx: KernelContext,
    node: Node,
    component_types: tuple[DType, ...],
    shapes: tuple[TensorShape, ...],
    capacity: int,
    container: bytes,
    shared_name: bytes,
) -> Queue:
    """First in, first out; batches are padded to the largest element."""
    found = _verified(ctx, node, container, shared_name)
    if found is not None:
        return found
    return _shared(
        ctx,
        node,
        container,
        shared_name,
        lambda name, where: maker(PaddingFIFOQueue, counted=ctx.resources.account is not None)(
            name, component_types, shapes, capacity=capacity, container=where
        ),
        lambda queue: _match(queue, PaddingFIFOQueue, component_types, shapes, capacity),
    )


@kernel("RandomShuffleQueue", "RandomShuffleQueueV2", heavy=False)
def random_shuffle_queue(
    *,
    ctx: KernelContext,
    node: Node,
    component_types: tuple[DType, ...],
    shapes: tuple[TensorShape, ...],
    capacity: int,
    min_after_dequeue: int,
    seed: int,
    seed2: int,
    container: bytes,
    shared_name: bytes,
) -> Queue:
    """Random order, with `min_after_dequeue` elements held back while it is open."""
    found = _verified(ctx, node, container, shared_name)
    if found is not None:
        return found

    def matches(queue: Queue) -> None:
        _match(queue, RandomShuffleQueue, component_types, shapes, capacity)
        assert isinstance(queue, RandomShuffleQueue)
        _require_same(queue, "min_after_dequeue", queue.min_after_dequeue, min_after_dequeue)
        if seed or seed2:
            _require_same(queue, "random seeds", queue.seeds, (seed, seed2))

    return _shared(
        ctx,
        node,
        container,
        shared_name,
        lambda name, where: maker(RandomShuffleQueue, counted=ctx.resources.account is not None)(
            name,
            component_types,
            shapes,
            capacity=capacity,
            container=where,
            min_after_dequeue=min_after_dequeue,
            seeds=(seed, seed2),
        ),
        matches,
    )


@kernel("PriorityQueue", "PriorityQueueV2", heavy=False)
def priority_queue(
    *,
    ctx: KernelContext,
    node: Node,
    component_types: tuple[DType, ...],
    shapes: tuple[TensorShape, ...],
    capacity: int,
    container: bytes,
    shared_name: bytes,
) -> Queue:
    """Smallest priority (the first component of an element, int64) first."""
    found = _verified(ctx, node, container, shared_name)
    if found is not None:
        return found

    def make(name: str, where: str) -> Queue:
        kind = maker(PriorityQueue, counted=ctx.resources.account is not None)
        return kind(name, component_types, shapes or None, capacity=capacity, container=where)

    def matches(queue: Queue) -> None:
        asked = make(queue.name, queue.container)
        _match(queue, PriorityQueue, asked.component_types, asked.shapes, capacity)

    return _shared(ctx, node, container, shared_name, make, matches)


def _checked(handle: Any, types: tuple[DType, ...], timeout_ms: int) -> Queue:
    """The queue, its component types being those of the node."""
    if isinstance(handle, Queue) and handle.component_types == types and timeout_ms == -1:
        return handle
    if not isinstance(handle, Queue):
        raise InvalidArgumentError(f"the handle of a queue is wanted, not a {type(handle).__name__}")
    if handle.component_types != types:
        raise InvalidArgumentError(
            f"queue '{handle.name}' has component types {_names(handle.component_types)}, "
            f"but this node works on {_names(types)}"
        )
    if timeout_ms != -1:
        raise InvalidArgumentError(
            f"Timeout not supported yet: timeout_ms is {timeout_ms}; set RunOptions(timeout_seconds=...)"
        )
    return handle


def _names(types: Sequence[DType]) -> str:
    return f"[{', '.join(t.name for t in types)}]"


def _queue(handle: Any) -> Queue:
    return _checked(handle, handle.component_types if isinstance(handle, Queue) else (), -1)


def _enqueue_nowait(
    handle: Any, components: tuple[Value, ...], *, Tcomponents: tuple[DType, ...], timeout_ms: int
) -> Any:
    return _checked(handle, Tcomponents, timeout_ms).enqueue_nowait(components)


@kernel("QueueEnqueue", "QueueEnqueueV2", heavy=False, nowait=_enqueue_nowait)
async def queue_enqueue(
    handle: Any, components: tuple[Value, ...], *, Tcomponents: tuple[DType, ...], timeout_ms: int
) -> None:
    """Add an element, waiting for room; CancelledError where the queue is closed."""
    await _checked(handle, Tcomponents, timeout_ms).enqueue(components)


def _enqueue_many_nowait(
    handle: Any, components: tuple[Value, ...], *, Tcomponents: tuple[DType, ...], timeout_ms: int
) -> Any:
    return _checked(handle, Tcomponents, timeout_ms).enqueue_many_nowait(components)


@kernel("QueueEnqueueMany", "QueueEnqueueManyV2", heavy=False, nowait=_enqueue_many_nowait)
async def queue_enqueue_many(
    handle: Any, components: tuple[Value, ...], *, Tcomponents: tuple[DType, ...], timeout_ms: int
) -> None:
    """Add the rows of the components, waiting for room as often as it takes."""
    await _checked(handle, Tcomponents, timeout_ms).enqueue_many(components)


def _unwrapped(components: Any) -> Any:
    """One component by itself, several as a tuple, as outputs are returned."""
    return components[0] if type(components) is tuple and len(components) == 1 else components


def _dequeue_nowait(handle: Any, *, component_types: tuple[DType, ...], timeout_ms: int) -> Any:
    return _unwrapped(_checked(handle, component_types, timeout_ms).dequeue_nowait())


@kernel("QueueDequeue", "QueueDequeueV2", heavy=False, nowait=_dequeue_nowait)
async def queue_dequeue(handle: Any, *, component_types: tuple[DType, ...], timeout_ms: int) -> Any:
    """The components of the next element; OutOfRangeError where the queue is closed and empty."""
    return _unwrapped(await _checked(handle, component_types, timeout_ms).dequeue())


def _count(n: Any) -> int:
    if getattr(n, "ndim", 0):
        raise InvalidArgumentError(f"the number of elements must be a scalar, not of shape {list(n.shape)}")
    return int(n)


def _dequeue_many_nowait(handle: Any, n: Any, *, component_types: tuple[DType, ...], timeout_ms: int) -> Any:
    return _unwrapped(_checked(handle, component_types, timeout_ms).dequeue_many_nowait(_count(n)))


@kernel("QueueDequeueMany", "QueueDequeueManyV2", heavy=False, nowait=_dequeue_many_nowait)
async def queue_dequeue_many(
    handle: Any, n: Any, *, component_types: tuple[DType, ...], timeout_ms: int
) -> Any:
    """`n` elements, stacked; OutOfRangeError where the queue is closed with fewer."""
    return _unwrapped(await _checked(handle, component_types, timeout_ms).dequeue_many(_count(n)))


def _dequeue_up_to_nowait(handle: Any, n: Any, *, component_types: tuple[DType, ...], timeout_ms: int) -> Any:
    queue = _checked(handle, component_types, timeout_ms)
    return _unwrapped(queue.dequeue_many_nowait(_count(n), up_to=True))


@kernel("QueueDequeueUpTo", "QueueDequeueUpToV2", heavy=False, nowait=_dequeue_up_to_nowait)
async def queue_dequeue_up_to(
    handle: Any, n: Any, *, component_types: tuple[DType, ...], timeout_ms: int
) -> Any:
    """`n` elements, stacked, or what a closed queue has left, if anything."""
    queue = _checked(handle, component_types, timeout_ms)
    return _unwrapped(await queue.dequeue_many(_count(n), up_to=True))


def _close_nowait(handle: Any, *, cancel_pending_enqueues: bool) -> Any:
    return _queue(handle).close_nowait(cancel_pending_enqueues=cancel_pending_enqueues)


@kernel("QueueClose", "QueueCloseV2", heavy=False, nowait=_close_nowait)
async def queue_close(handle: Any, *, cancel_pending_enqueues: bool) -> None:
    """Refuse further elements, after the enqueues that wait or in their place."""
    await _queue(handle).close(cancel_pending_enqueues=cancel_pending_enqueues)


@kernel("QueueSize", "QueueSizeV2", heavy=False)
def queue_size(handle: Any) -> Any:
    """How many elements the queue holds (int32, rank 0)."""
    return np.int32(_queue(handle).size)


@kernel("QueueIsClosed", "QueueIsClosedV2", heavy=False)
def queue_is_closed(handle: Any) -> Any:
    """Whether the queue was closed (bool, rank 0)."""
    return np.bool_(_queue(handle).is_closed)


# Barriers as nodes.


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


def _checked_barrier(handle: Any) -> Barrier:
    if isinstance(handle, Barrier):
        return handle
    raise InvalidArgumentError(f"the handle of a barrier is wanted, not a {type(handle).__name__}")


@kernel("BarrierInsertMany")
def barrier_insert_many(handle: Any, keys: Any, values: Any, *, component_index: int) -> None:
    """Give component `component_index` (n, ...) of the keys (string, (n,))."""
    _checked_barrier(handle).insert_many(component_index, keys, values)


def _barrier_count(num_elements: Any) -> int:
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
    return _checked_barrier(handle).take_many_nowait(_barrier_count(num_elements), up_to=allow_small_batch)


@kernel("BarrierTakeMany", heavy=False, nowait=_take_nowait)
async def barrier_take_many(
    handle: Any, num_elements: Any, *, allow_small_batch: bool, timeout_ms: int
) -> Any:
    """Indices (int64), keys and components of `num_elements` (int32, rank 0) ready keys, waiting for them."""
    _check_timeout(timeout_ms)
    return await _checked_barrier(handle).take_many(_barrier_count(num_elements), up_to=allow_small_batch)


@kernel("BarrierClose", heavy=False)
def barrier_close(handle: Any, *, cancel_pending_enqueues: bool) -> None:
    """Refuse new keys."""
    _checked_barrier(handle).close(cancel_pending_enqueues=cancel_pending_enqueues)


@kernel("BarrierReadySize", heavy=False)
def barrier_ready_size(handle: Any) -> Any:
    """How many keys have all their components (int32, rank 0)."""
    return np.int32(_checked_barrier(handle).ready_size)


@kernel("BarrierIncompleteSize", heavy=False)
def barrier_incomplete_size(handle: Any) -> Any:
    """How many keys lack a component (int32, rank 0)."""
    return np.int32(_checked_barrier(handle).incomplete_size)
