"""Queues of a graph: their nodes, and methods that add the nodes which work on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from flowengine.core.dtypes import DType, as_dtype
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Operation, Tensor

#: The graph's seed that TensorFlow's client uses with the seed of an op, if the graph has none.
GRAPH_SEED: Final = 87654321


@dataclass(frozen=True, slots=True)
class GraphQueue:
    """A queue of a graph.

    graph    the graph that it is in
    handle   the output of its node
    dtypes   of the components of an element
    shapes   of the components, or None if elements may differ in them

    `capacity` counts elements; `shared_name` names the queue for other sessions. A step that enqueues waits
    while the queue is full, one that dequeues while it is empty; cancelled, it leaves the queue unchanged. A
    closed queue raises OutOfRangeError in a step that dequeues once it is empty, and CancelledError in one
    that enqueues.

    >>> graph = fe.Graph()
    >>> queue = fe.train.GraphQueue.fifo(graph, 10, ["int32"], [[]])
    >>> first, rows = queue.enqueue([graph.constant(7)]), queue.enqueue_many([graph.constant([1, 2, 3])])
    >>> (one,), (two,), (rest,) = queue.dequeue(), queue.dequeue_many(2), queue.dequeue_up_to(5)
    >>> with fe.blocking.Session(graph) as session:
    ...     for each in (first, rows, one, two, queue.size(), queue.close(), rest):
    ...         value = session.run(each)
    ...         if value is not None:
    ...             print(value)
    7
    [1 2]
    1
    [3]
    >>> shuffled = fe.train.GraphQueue.random_shuffle(graph, 10, 4, ["int32"], [[]], seed=1)
    """

    graph: Graph
    handle: Tensor
    dtypes: tuple[DType, ...]
    shapes: tuple[TensorShape, ...] | None

    @classmethod
    def fifo(
        cls,
        graph: Graph,
        capacity: int,
        dtypes: Sequence[Any],
        shapes: Sequence[Any] | None = None,
        *,
        shared_name: str = "",
        name: str = "fifo_queue",
        padding: bool = False,
    ) -> GraphQueue:
        """Add a first-in, first-out queue; with `padding`, batches are padded along unknown dimensions."""
        make = graph.ops.PaddingFIFOQueueV2 if padding else graph.ops.FIFOQueueV2
        given = {"capacity": capacity, "shared_name": shared_name, "name": name}
        return cls._made(graph, make, dtypes, shapes, pads=padding, **given)

    @classmethod
    def random_shuffle(
        cls,
        graph: Graph,
        capacity: int,
        min_after_dequeue: int,
        dtypes: Sequence[Any],
        shapes: Sequence[Any] | None = None,
        *,
        seed: int | None = None,
        shared_name: str = "",
        name: str = "random_shuffle_queue",
    ) -> GraphQueue:
        """Add a queue in random order, by `seed`, which keeps `min_after_dequeue` elements to mix."""
        return cls._made(
            graph,
            graph.ops.RandomShuffleQueueV2,
            dtypes,
            shapes,
            capacity=capacity,
            min_after_dequeue=min_after_dequeue,
            shared_name=shared_name,
            name=name,
            **seeds(seed),
        )

    @classmethod
    def _made(
        cls,
        graph: Graph,
        make: Any,
        dtypes: Sequence[Any],
        shapes: Sequence[Any] | None,
        *,
        pads: bool = False,
        **attrs: Any,
    ) -> GraphQueue:
        types = tuple(as_dtype(dtype) for dtype in dtypes)
        fixed = None if shapes is None else tuple(TensorShape(shape) for shape in shapes)
        if fixed is not None and len(fixed) != len(types):
            raise InvalidArgumentError(f"a queue of {len(types)} components is given {len(fixed)} shapes")
        for shape in fixed or ():
            if not shape.is_fully_defined and not pads:
                raise InvalidArgumentError(
                    f"the queue '{attrs['name']}' needs complete shapes, not {shape}: use one that pads"
                )
        return cls(graph, make(component_types=types, shapes=fixed or (), **attrs), types, fixed)

    @property
    def name(self) -> str:
        return self.handle.node_name

    def enqueue(self, components: Sequence[Any], name: str | None = None) -> Operation:
        """Add one element."""
        made: Operation = self.graph.ops.QueueEnqueueV2(
            self.handle, list(components), name=self._name(name, "enqueue")
        )
        return made

    def enqueue_many(self, components: Sequence[Any], name: str | None = None) -> Operation:
        """Add each row of the components, each of shape [rows, ...], as an element."""
        label = self._name(name, "EnqueueMany")
        made: Operation = self.graph.ops.QueueEnqueueManyV2(self.handle, list(components), name=label)
        return made

    def dequeue(self, name: str | None = None) -> tuple[Tensor, ...]:
        """Return the components of the next element."""
        label = self._name(name, "Dequeue")
        return tuple(self.graph.ops.QueueDequeueV2(self.handle, component_types=self.dtypes, name=label))

    def dequeue_many(self, count: Any, name: str | None = None) -> tuple[Tensor, ...]:
        """Return the next `count` elements, each component [count, ...]."""
        label = self._name(name, "DequeueMany")
        make = self.graph.ops.QueueDequeueManyV2
        return tuple(make(self.handle, count, component_types=self.dtypes, name=label))

    def dequeue_up_to(self, count: Any, name: str | None = None) -> tuple[Tensor, ...]:
        """Return the next `count` elements, or the rest of a closed queue."""
        label = self._name(name, "DequeueUpTo")
        make = self.graph.ops.QueueDequeueUpToV2
        return tuple(make(self.handle, count, component_types=self.dtypes, name=label))

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of elements (int32, rank 0)."""
        made: Tensor = self.graph.ops.QueueSizeV2(self.handle, name=self._name(name, "Size"))
        return made

    def close(self, *, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """Close it to new elements; with `cancel_pending_enqueues`, fail the steps that wait to enqueue."""
        made: Operation = self.graph.ops.QueueCloseV2(
            self.handle, cancel_pending_enqueues=cancel_pending_enqueues, name=self._name(name, "Close")
        )
        return made

    def _name(self, given: str | None, default: str) -> str:
        return f"{self.name.rpartition('/')[2]}_{default}" if given is None else given


def seeds(seed: int | None) -> dict[str, Any]:
    """Return the two seeds of an op for a caller's seed; without one the order differs each time."""
    return {} if seed is None else {"seed": GRAPH_SEED, "seed2": seed}
