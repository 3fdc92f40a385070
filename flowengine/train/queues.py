"""Queues as the builders of pipelines see them: a node of a graph, and constructors for what works on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from flowengine.core.dtypes import DType, as_dtype
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Operation, Tensor

#: What TensorFlow's client puts beside the seed of an op where the graph has none of its own.
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
    closed queue gives OutOfRangeError once it is empty, and CancelledError to what enqueues.
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
        """Add a queue, first in, first out; with `padding`, unknown dimensions are filled up in a batch."""
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
        """Add a queue in random order, by `seed`; `min_after_dequeue` elements stay to be mixed."""
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
        """Add the rows of the components, each of shape [rows, ...], as so many elements."""
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
        """Return the next `count` elements, or what a closed queue has left."""
        label = self._name(name, "DequeueUpTo")
        make = self.graph.ops.QueueDequeueUpToV2
        return tuple(make(self.handle, count, component_types=self.dtypes, name=label))

    def size(self, name: str | None = None) -> Tensor:
        """How many elements there are (int32, rank 0)."""
        made: Tensor = self.graph.ops.QueueSizeV2(self.handle, name=self._name(name, "Size"))
        return made

    def close(self, *, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """Let nothing more in; with `cancel_pending_enqueues`, not even what waits to get in."""
        made: Operation = self.graph.ops.QueueCloseV2(
            self.handle, cancel_pending_enqueues=cancel_pending_enqueues, name=self._name(name, "Close")
        )
        return made

    def _name(self, given: str | None, default: str) -> str:
        return f"{self.name.rpartition('/')[2]}_{default}" if given is None else given


def seeds(seed: int | None) -> dict[str, Any]:
    """The two seeds of an op for one that a caller chose; without one the order is another each time."""
    return {} if seed is None else {"seed": GRAPH_SEED, "seed2": seed}
