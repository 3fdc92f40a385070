"""Queues."""

from __future__ import annotations

from flowengine.ops.registry import define

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
)
define("FakeQueue", inputs=["resource: resource"], outputs=["handle: Ref(string)"], is_stateful=True)
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
)
define("QueueClose", inputs=["handle: Ref(string)"], attrs=["cancel_pending_enqueues: bool = false"])
define(
    "QueueCloseV2",
    inputs=["handle: resource"],
    attrs=["cancel_pending_enqueues: bool = false"],
    is_stateful=True,
)
define(
    "QueueDequeue",
    inputs=["handle: Ref(string)"],
    outputs=["components: component_types"],
    attrs=["component_types: list(type) >= 1", "timeout_ms: int = -1"],
)
define(
    "QueueDequeueMany",
    inputs=["handle: Ref(string)", "n: int32"],
    outputs=["components: component_types"],
    attrs=["component_types: list(type) >= 1", "timeout_ms: int = -1"],
)
define(
    "QueueDequeueManyV2",
    inputs=["handle: resource", "n: int32"],
    outputs=["components: component_types"],
    attrs=["component_types: list(type) >= 1", "timeout_ms: int = -1"],
    is_stateful=True,
)
define(
    "QueueDequeueUpTo",
    inputs=["handle: Ref(string)", "n: int32"],
    outputs=["components: component_types"],
    attrs=["component_types: list(type) >= 1", "timeout_ms: int = -1"],
)
define(
    "QueueDequeueUpToV2",
    inputs=["handle: resource", "n: int32"],
    outputs=["components: component_types"],
    attrs=["component_types: list(type) >= 1", "timeout_ms: int = -1"],
    is_stateful=True,
)
define(
    "QueueDequeueV2",
    inputs=["handle: resource"],
    outputs=["components: component_types"],
    attrs=["component_types: list(type) >= 1", "timeout_ms: int = -1"],
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
define("QueueIsClosed", inputs=["handle: Ref(string)"], outputs=["is_closed: bool"])
define("QueueIsClosedV2", inputs=["handle: resource"], outputs=["is_closed: bool"], is_stateful=True)
define("QueueSize", inputs=["handle: Ref(string)"], outputs=["size: int32"])
define("QueueSizeV2", inputs=["handle: resource"], outputs=["size: int32"], is_stateful=True)
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
)
