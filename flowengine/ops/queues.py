"""Queues."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.shapes import SCALAR, UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, scalar_value, scalars, two_strings, vector

define(
    "FIFOQueue",
    outputs=["handle: Ref(string)"],
    attrs=[
        "component_types: list(type) >= 1",
        "shapes: list(shape) >= 0 = []",
        "capacity: int = -1",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
    shape=two_strings,
)
define(
    "PaddingFIFOQueue",
    outputs=["handle: Ref(string)"],
    attrs=[
        "component_types: list(type) >= 1",
        "shapes: list(shape) >= 0 = []",
        "capacity: int = -1",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
    shape=two_strings,
)
define(
    "PriorityQueue",
    outputs=["handle: Ref(string)"],
    attrs=[
        "component_types: list(type) >= 0 = []",
        "shapes: list(shape) >= 0",
        "capacity: int = -1",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
    shape=two_strings,
)
define(
    "RandomShuffleQueue",
    outputs=["handle: Ref(string)"],
    attrs=[
        "component_types: list(type) >= 1",
        "shapes: list(shape) >= 0 = []",
        "capacity: int = -1",
        "min_after_dequeue: int = 0",
        "seed: int = 0",
        "seed2: int = 0",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
    shape=two_strings,
)
define(
    "FakeQueue",
    inputs=["resource: resource"],
    outputs=["handle: Ref(string)"],
    is_stateful=True,
    shape=two_strings,
)
define(
    "FIFOQueueV2",
    outputs=["handle: resource"],
    attrs=[
        "component_types: list(type) >= 1",
        "shapes: list(shape) >= 0 = []",
        "capacity: int = -1",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
    shape=scalars,
)
define(
    "PaddingFIFOQueueV2",
    outputs=["handle: resource"],
    attrs=[
        "component_types: list(type) >= 1",
        "shapes: list(shape) >= 0 = []",
        "capacity: int = -1",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
    shape=scalars,
)
define(
    "PriorityQueueV2",
    outputs=["handle: resource"],
    attrs=[
        "component_types: list(type) >= 0 = []",
        "shapes: list(shape) >= 0",
        "capacity: int = -1",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
    shape=scalars,
)
define(
    "RandomShuffleQueueV2",
    outputs=["handle: resource"],
    attrs=[
        "component_types: list(type) >= 1",
        "shapes: list(shape) >= 0 = []",
        "capacity: int = -1",
        "min_after_dequeue: int = 0",
        "seed: int = 0",
        "seed2: int = 0",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
    shape=scalars,
)
define("QueueIsClosed", inputs=["handle: Ref(string)"], outputs=["is_closed: bool"], shape=scalars)
define(
    "QueueIsClosedV2",
    inputs=["handle: resource"],
    outputs=["is_closed: bool"],
    is_stateful=True,
    shape=scalars,
)
define("QueueSize", inputs=["handle: Ref(string)"], outputs=["size: int32"], shape=scalars)
define("QueueSizeV2", inputs=["handle: resource"], outputs=["size: int32"], is_stateful=True, shape=scalars)


def dequeue(c: ShapeContext) -> Sequence[TensorShape]:
    """One element: the shapes that the queue demands, where the handle leads to it."""
    return _components(c, SCALAR)


def _components(c: ShapeContext, batch: TensorShape) -> Sequence[TensorShape]:
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


define(
    "QueueDequeue",
    inputs=["handle: Ref(string)"],
    outputs=["components: component_types"],
    attrs=["component_types: list(type) >= 1", "timeout_ms: int = -1"],
    shape=dequeue,
)
define(
    "QueueDequeueV2",
    inputs=["handle: resource"],
    outputs=["components: component_types"],
    attrs=["component_types: list(type) >= 1", "timeout_ms: int = -1"],
    is_stateful=True,
    shape=dequeue,
)


def dequeue_many(c: ShapeContext) -> Sequence[TensorShape]:
    """A batch of n elements."""
    count = scalar_value(c, 1)
    return _components(c, vector(count if count is not None and count >= 0 else None))


define(
    "QueueDequeueMany",
    inputs=["handle: Ref(string)", "n: int32"],
    outputs=["components: component_types"],
    attrs=["component_types: list(type) >= 1", "timeout_ms: int = -1"],
    shape=dequeue_many,
)
define(
    "QueueDequeueManyV2",
    inputs=["handle: resource", "n: int32"],
    outputs=["components: component_types"],
    attrs=["component_types: list(type) >= 1", "timeout_ms: int = -1"],
    is_stateful=True,
    shape=dequeue_many,
)


def dequeue_up_to(c: ShapeContext) -> Sequence[TensorShape]:
    """A batch of at most n elements."""
    return _components(c, VECTOR)


define(
    "QueueDequeueUpTo",
    inputs=["handle: Ref(string)", "n: int32"],
    outputs=["components: component_types"],
    attrs=["component_types: list(type) >= 1", "timeout_ms: int = -1"],
    shape=dequeue_up_to,
)
define(
    "QueueDequeueUpToV2",
    inputs=["handle: resource", "n: int32"],
    outputs=["components: component_types"],
    attrs=["component_types: list(type) >= 1", "timeout_ms: int = -1"],
    is_stateful=True,
    shape=dequeue_up_to,
)
define("QueueClose", inputs=["handle: Ref(string)"], attrs=["cancel_pending_enqueues: bool = false"])
define(
    "QueueCloseV2",
    inputs=["handle: resource"],
    attrs=["cancel_pending_enqueues: bool = false"],
    is_stateful=True,
)
define(
    "QueueEnqueue",
    inputs=["handle: Ref(string)", "components: Tcomponents"],
    attrs=["Tcomponents: list(type) >= 1", "timeout_ms: int = -1"],
)
define(
    "QueueEnqueueMany",
    inputs=["handle: Ref(string)", "components: Tcomponents"],
    attrs=["Tcomponents: list(type) >= 1", "timeout_ms: int = -1"],
)
define(
    "QueueEnqueueManyV2",
    inputs=["handle: resource", "components: Tcomponents"],
    attrs=["Tcomponents: list(type) >= 1", "timeout_ms: int = -1"],
    is_stateful=True,
)
define(
    "QueueEnqueueV2",
    inputs=["handle: resource", "components: Tcomponents"],
    attrs=["Tcomponents: list(type) >= 1", "timeout_ms: int = -1"],
    is_stateful=True,
)
