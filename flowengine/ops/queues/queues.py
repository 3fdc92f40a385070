"""Queues and barriers."""

from __future__ import annotations

from typing import Final

from flowengine.core.shapes import SCALAR, UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable, Uses
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, scalar_value, scalars, two_strings, vector

# Queues, by reference and by resource handle.

#: Of a node that makes a queue.
QUEUE: Final = (
    "component_types: list(type) >= 1; shapes: list(shape) >= 0 = []; capacity: int = -1; "
    "container, shared_name: string = ''"
)

define("FIFOQueue() -> handle: Ref(string)", "stateful", QUEUE, NotDifferentiable(), shape=two_strings)
define("PaddingFIFOQueue() -> handle: Ref(string)", "stateful", QUEUE, NotDifferentiable(), shape=two_strings)
define(
    "PriorityQueue() -> handle: Ref(string)",
    "stateful; component_types: list(type) >= 0 = []; shapes: list(shape) >= 0; capacity: int = -1",
    "container, shared_name: string = ''",
    NotDifferentiable(),
    shape=two_strings,
)
define(
    "RandomShuffleQueue() -> handle: Ref(string)",
    "stateful; component_types: list(type) >= 1; shapes: list(shape) >= 0 = []; capacity: int = -1",
    "min_after_dequeue, seed, seed2: int = 0; container, shared_name: string = ''",
    NotDifferentiable(),
    shape=two_strings,
)
define("FIFOQueueV2() -> handle: resource", "stateful", QUEUE, NotDifferentiable(), shape=scalars)
define("PaddingFIFOQueueV2() -> handle: resource", "stateful", QUEUE, NotDifferentiable(), shape=scalars)
define(
    "PriorityQueueV2() -> handle: resource",
    "stateful; component_types: list(type) >= 0 = []; shapes: list(shape) >= 0; capacity: int = -1",
    "container, shared_name: string = ''",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "RandomShuffleQueueV2() -> handle: resource",
    "stateful; component_types: list(type) >= 1; shapes: list(shape) >= 0 = []; capacity: int = -1",
    "min_after_dequeue, seed, seed2: int = 0; container, shared_name: string = ''",
    NotDifferentiable(),
    shape=scalars,
)
define("QueueIsClosed(handle: Ref(string)) -> is_closed: bool", NotDifferentiable(), shape=scalars)
define(
    "QueueIsClosedV2(handle: resource) -> is_closed: bool",
    "stateful",
    Uses("handle"),
    NotDifferentiable(),
    shape=scalars,
)
define("QueueSize(handle: Ref(string)) -> size: int32", NotDifferentiable(), shape=scalars)
define(
    "QueueSizeV2(handle: resource) -> size: int32",
    "stateful",
    Uses("handle"),
    NotDifferentiable(),
    shape=scalars,
)


@define(
    "QueueDequeue(handle: Ref(string)) -> components: component_types",
    "component_types: list(type) >= 1; timeout_ms: int = -1",
    NotDifferentiable(),
)
@define(
    "QueueDequeueV2(handle: resource) -> components: component_types",
    "stateful; component_types: list(type) >= 1; timeout_ms: int = -1",
    Uses("handle"),
    NotDifferentiable(),
)
def dequeue(c: ShapeContext) -> Shapes:
    """One element: the shapes that the queue demands, where the handle leads to it."""
    return _components(c, SCALAR)


def _components(c: ShapeContext, batch: TensorShape) -> Shapes:
    source = c.handle_source(0)
    if source is None or "Queue" not in source.op:
        return [UNKNOWN_SHAPE] * c.num_outputs
    shapes: tuple[TensorShape, ...] = source.attrs["shapes"]
    if source.op.startswith("Priority"):
        # The priority comes before the components that the attribute describes.
        shapes = (SCALAR, *shapes)
    if len(shapes) != c.num_outputs:
        return [UNKNOWN_SHAPE] * c.num_outputs
    return [batch.concatenate(shape) for shape in shapes]


@define(
    "QueueDequeueMany(handle: Ref(string), n: int32) -> components: component_types",
    "component_types: list(type) >= 1; timeout_ms: int = -1",
    NotDifferentiable(),
)
@define(
    "QueueDequeueManyV2(handle: resource, n: int32) -> components: component_types",
    "stateful; component_types: list(type) >= 1; timeout_ms: int = -1",
    Uses("handle"),
    NotDifferentiable(),
)
def dequeue_many(c: ShapeContext) -> Shapes:
    """A batch of n elements."""
    count = scalar_value(c, 1)
    return _components(c, vector(count if count is not None and count >= 0 else None))


@define(
    "QueueDequeueUpTo(handle: Ref(string), n: int32) -> components: component_types",
    "component_types: list(type) >= 1; timeout_ms: int = -1",
    NotDifferentiable(),
)
@define(
    "QueueDequeueUpToV2(handle: resource, n: int32) -> components: component_types",
    "stateful; component_types: list(type) >= 1; timeout_ms: int = -1",
    Uses("handle"),
    NotDifferentiable(),
)
def dequeue_up_to(c: ShapeContext) -> Shapes:
    """A batch of at most n elements."""
    return _components(c, VECTOR)


define("QueueClose(handle: Ref(string))", "cancel_pending_enqueues: bool = false", NotDifferentiable())
define(
    "QueueCloseV2(handle: resource)",
    "stateful; cancel_pending_enqueues: bool = false",
    Uses("handle"),
    NotDifferentiable(),
)
define(
    "QueueEnqueue, QueueEnqueueMany(handle: Ref(string), components: Tcomponents)",
    "Tcomponents: list(type) >= 1; timeout_ms: int = -1",
    NotDifferentiable(),
)
define(
    "QueueEnqueueManyV2, QueueEnqueueV2(handle: resource, components: Tcomponents)",
    "stateful; Tcomponents: list(type) >= 1; timeout_ms: int = -1",
    Uses("handle"),
    NotDifferentiable(),
)


# Barriers: tuples that become ready key by key.

define(
    "Barrier() -> handle: Ref(string)",
    "stateful; component_types: list(type) >= 1; shapes: list(shape) >= 0 = []; capacity: int = -1",
    "container, shared_name: string = ''",
    NotDifferentiable(),
    shape=two_strings,
)
define("BarrierIncompleteSize(handle: Ref(string)) -> size: int32", NotDifferentiable(), shape=scalars)
define("BarrierReadySize(handle: Ref(string)) -> size: int32", NotDifferentiable(), shape=scalars)


@define(
    "BarrierTakeMany(handle: Ref(string), num_elements: int32) "
    "-> indices: int64, keys: string, values: component_types",
    "component_types: list(type) >= 1; allow_small_batch, wait_for_incomplete: bool = false",
    "timeout_ms: int = -1",
    NotDifferentiable(),
)
def take_many(c: ShapeContext) -> Shapes:
    return [VECTOR, VECTOR, *[UNKNOWN_SHAPE] * (c.num_outputs - 2)]


define("BarrierClose(handle: Ref(string))", "cancel_pending_enqueues: bool = false", NotDifferentiable())
define(
    "BarrierInsertMany(handle: Ref(string), keys: string, values: T)",
    "T: type; component_index: int",
    NotDifferentiable(),
)
