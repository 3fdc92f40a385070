"""Buckets: batches of similar examples, mostly of similar length, which need little padding.

Each bucket has its own queue. When one holds enough for a batch, the batch goes to a queue of batches, and
from there to the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from flowengine.core.errors import CancelledError, InvalidArgumentError, OutOfRangeError
from flowengine.core.shapes import TensorShape
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.train.inputs import Example, columns, element_shapes, like, only_if
from flowengine.train.producers import as_tensor, run_queue
from flowengine.train.queues import GraphQueue

#: The task that fills a bucket ends quietly when the queue of batches is closed, and the other way round.
_ENDS: Final = (OutOfRangeError, CancelledError)


def bucket(
    tensors: Example,
    which_bucket: Any,
    batch_size: Any,
    num_buckets: int,
    *,
    num_threads: int = 1,
    capacity: int = 32,
    bucket_capacities: Sequence[int] | None = None,
    shapes: Sequence[Any] | None = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    keep_input: Tensor | bool = True,
    shared_name: str = "",
    name: str = "bucket",
) -> tuple[Tensor, Any]:
    """Return (bucket, batch): the number of a bucket (int32, rank 0), and a batch of its examples.

    tensors             one example
    which_bucket        its bucket, int32, rank 0, below `num_buckets`
    batch_size          of all buckets, or a list with one for each
    capacity            batches in the queue of batches, and examples in each bucket
    bucket_capacities   examples in each bucket, if not `capacity`
    num_threads, shapes, dynamic_pad, allow_smaller_final_batch, keep_input, shared_name   as for `batch`

    Raises InvalidArgumentError for lists of the wrong length and for shapes that are neither known nor given.

    >>> graph = fe.Graph()
    >>> row, = fe.train.range_input_producer(graph, 10).dequeue()
    >>> which, (numbers,) = fe.train.bucket([row], fe.mod(row, 2), 4, num_buckets=2)
    >>> numbers.shape
    TensorShape([None])
    """
    sizes = _each(batch_size, num_buckets, "batch_size")
    capacities = _each(
        capacity if bucket_capacities is None else bucket_capacities, num_buckets, "bucket_capacities"
    )
    (row,) = columns([tensors])
    graph = row[0].graph
    with graph.name_scope(name):
        types = [tensor.dtype.base for tensor in row]
        each = element_shapes([row], shapes, False)
        queues = [
            GraphQueue.fifo(
                graph,
                room,
                types,
                each,
                shared_name=f"{shared_name}_{index}" if shared_name else "",
                name=f"bucket_queue_{index}",
                padding=dynamic_pad,
            )
            for index, room in enumerate(capacities)
        ]
        top = GraphQueue.fifo(
            graph,
            capacity,
            ["int32", *types],
            [[], *(TensorShape([None, *shape.as_list()]) for shape in each)],
            shared_name=shared_name,
            name="top_queue",
            padding=True,
        )
        number = as_tensor(graph, which_bucket, "int32", "which_bucket")
        keep = as_tensor(graph, keep_input, "bool", "keep_input")
        into = [
            only_if(
                graph,
                graph.ops.LogicalAnd(keep, graph.ops.Equal(number, graph.constant(index, "int32"))),
                row,
                queue.enqueue,
            )
            for index, queue in enumerate(queues)
        ]
        smaller = allow_smaller_final_batch
        run_queue(
            queues[0],
            [_filled(graph, top, *each, smaller) for each in enumerate(zip(queues, sizes, strict=True))],
            (top.close(), top.close(cancel_pending_enqueues=True, name="top_queue_Cancel")),
            _ENDS,
        )
        run_queue(
            top, [graph.group(*into, name="enqueue_in_bucket")] * num_threads, _closed(graph, queues), _ENDS
        )
        chosen, *batches = top.dequeue()
    return chosen, like(tensors, batches)


def _filled(graph: Graph, top: GraphQueue, number: int, filled: tuple[GraphQueue, Any], smaller: bool) -> Any:
    """Return the node that moves a batch of a bucket, with its number, to the queue of batches."""
    queue, size = filled
    count = as_tensor(graph, size, "int32", "batch_size")
    rows = (queue.dequeue_up_to if smaller else queue.dequeue_many)(count)
    return top.enqueue([graph.constant(number, "int32"), *rows], name=f"enqueue_from_bucket_{number}")


def _closed(graph: Graph, queues: Sequence[GraphQueue]) -> tuple[Any, Any]:
    """Return the nodes that close all buckets: after the pending enqueues, and at once."""
    closed = graph.group(*(queue.close() for queue in queues), name="close_buckets")
    cancelled = (queue.close(cancel_pending_enqueues=True) for queue in queues)
    return closed, graph.group(*cancelled, name="cancel_buckets")


def bucket_by_sequence_length(
    input_length: Tensor,
    tensors: Example,
    batch_size: Any,
    bucket_boundaries: Sequence[int],
    *,
    name: str = "bucket_by_sequence_length",
    **options: Any,
) -> tuple[Tensor, Any]:
    """Return (lengths, batch): a batch of examples of similar length, and their lengths (int32 [batch]).

    input_length        of the example, rank 0
    tensors, batch_size, options   as for `bucket`; `shapes` without that of the length
    bucket_boundaries   increasing; a bucket has the lengths from one boundary up to the next

    Raises InvalidArgumentError for boundaries that do not increase.
    """
    limits = [int(limit) for limit in bucket_boundaries]
    if not limits or sorted(set(limits)) != limits or limits[0] <= 0:
        raise InvalidArgumentError(f"bucket_boundaries must be positive and increase: {limits}")
    graph = input_length.graph
    with graph.name_scope(name):
        length = graph.ops.Cast(input_length, DstT="int32")
        below = graph.ops.Cast(graph.ops.LessEqual(graph.constant(limits, "int32"), length), DstT="int32")
        which = graph.ops.Sum(below, graph.constant(0, "int32"))
    (row,) = columns([tensors])
    if options.get("shapes") is not None:
        options["shapes"] = [[], *options["shapes"]]
    _, (lengths, *batches) = bucket([length, *row], which, batch_size, len(limits) + 1, name=name, **options)
    return lengths, like(tensors, batches)


def _each(value: Any, count: int, what: str) -> list[Any]:
    """Return a list with a value for each bucket."""
    if not isinstance(value, list | tuple):
        return [value] * count
    if len(value) != count:
        raise InvalidArgumentError(f"{what} has {len(value)} entries for {count} buckets")
    return list(value)
