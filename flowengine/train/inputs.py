"""Batches: examples go into a queue, one by one or a few at a time, and come out of it in batches.

    images, labels = fe.train.shuffle_batch([image, label], 32, capacity=2000, min_after_dequeue=1000)

A queue runner fills the queue, so the next batches are computed while a step works on the last one. When the
input is at its end, the queue is closed, and a step that asks for another batch ends with OutOfRangeError.

`tensors` (or each of `tensors_list`) are the tensors of an example, `batch_size` the number of examples in a
batch; `capacity` and `min_after_dequeue` count examples, `num_threads` tasks that fill the queue;
`enqueue_many` takes rows of the tensors as examples; `shapes` are needed if the graph does not know them;
`dynamic_pad` pads examples of a batch to one shape; `allow_smaller_final_batch` keeps the last examples;
`keep_input` is a bool that leaves examples out; `seed` is that of the random order; `shared_name` names the
queue for other sessions. Errors: InvalidArgumentError for arguments that do not fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.train.producers import as_tensor, run_queue
from flowengine.train.queues import GraphQueue

#: One example: its tensors, by name or in order.
Example: TypeAlias = Mapping[str, Tensor] | Sequence[Tensor]


def batch(
    tensors: Example,
    batch_size: Any,
    *,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Sequence[Any] | None = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    keep_input: Tensor | bool = True,
    shared_name: str = "",
    name: str = "batch",
) -> Any:
    """Return batches of examples in their order, a list or dict like `tensors`, each [batch_size, ...].

    tensors         one example; with `enqueue_many` many of them, [rows, ...]
    num_threads     the number of tasks that fill the queue; several of them mix the order
    shapes          of one example's tensors, if the graph does not know them
    dynamic_pad     whether to pad unknown dimensions with zeros to the largest of the batch
    allow_smaller_final_batch   whether to return the rest at the end instead of dropping it
    keep_input      bool: whether to enqueue the example; with `enqueue_many` also a vector, one for each row
    """
    return _pipeline(
        [tensors],
        batch_size,
        num_threads=num_threads,
        many=enqueue_many,
        shapes=shapes,
        smaller=allow_smaller_final_batch,
        keep=keep_input,
        queue={"capacity": capacity, "padding": dynamic_pad, "shared_name": shared_name},
        name=name,
    )


def batch_join(
    tensors_list: Sequence[Example],
    batch_size: Any,
    *,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Sequence[Any] | None = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    keep_input: Tensor | bool = True,
    shared_name: str = "",
    name: str = "batch_join",
) -> Any:
    """Return batches of examples from several sources, one task each, such as readers of files.

    The arguments are those of `batch`.
    """
    return _pipeline(
        tensors_list,
        batch_size,
        many=enqueue_many,
        shapes=shapes,
        smaller=allow_smaller_final_batch,
        keep=keep_input,
        queue={"capacity": capacity, "padding": dynamic_pad, "shared_name": shared_name},
        name=name,
    )


def shuffle_batch(
    tensors: Example,
    batch_size: Any,
    *,
    capacity: int,
    min_after_dequeue: int,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Sequence[Any] | None = None,
    allow_smaller_final_batch: bool = False,
    keep_input: Tensor | bool = True,
    shared_name: str = "",
    name: str = "shuffle_batch",
) -> Any:
    """Return batches of examples in random order. The other arguments are those of `batch`.

    min_after_dequeue   the number of examples that the queue keeps to mix with the next: more of them mix
                        better, but take more memory and more time at the start
    """
    return _pipeline(
        [tensors],
        batch_size,
        num_threads=num_threads,
        many=enqueue_many,
        shapes=shapes,
        smaller=allow_smaller_final_batch,
        keep=keep_input,
        queue=_shuffled(capacity, min_after_dequeue, seed, shared_name),
        name=name,
    )


def shuffle_batch_join(
    tensors_list: Sequence[Example],
    batch_size: Any,
    *,
    capacity: int,
    min_after_dequeue: int,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Sequence[Any] | None = None,
    allow_smaller_final_batch: bool = False,
    keep_input: Tensor | bool = True,
    shared_name: str = "",
    name: str = "shuffle_batch_join",
) -> Any:
    """Return batches in random order of examples from several sources, one task each.

    The arguments are those of `shuffle_batch`.
    """
    return _pipeline(
        tensors_list,
        batch_size,
        many=enqueue_many,
        shapes=shapes,
        smaller=allow_smaller_final_batch,
        keep=keep_input,
        queue=_shuffled(capacity, min_after_dequeue, seed, shared_name),
        name=name,
    )


def _shuffled(capacity: int, min_after_dequeue: int, seed: int | None, shared_name: str) -> dict[str, Any]:
    if capacity <= min_after_dequeue:
        raise InvalidArgumentError(
            f"the capacity {capacity} must be larger than min_after_dequeue, {min_after_dequeue}"
        )
    return {
        "capacity": capacity,
        "min_after_dequeue": min_after_dequeue,
        "seed": seed,
        "shared_name": shared_name,
    }


def _pipeline(
    examples: Sequence[Example],
    batch_size: Any,
    *,
    num_threads: int = 1,
    many: bool,
    shapes: Sequence[Any] | None,
    smaller: bool,
    keep: Tensor | bool,
    queue: dict[str, Any],
    name: str,
) -> Any:
    """Add a queue for these examples, each with its own enqueue op, and return its batches."""
    sources = columns(examples)
    if num_threads < 1:
        raise InvalidArgumentError(f"num_threads must be at least 1, not {num_threads}")
    graph = sources[0][0].graph
    with graph.name_scope(name):
        make = GraphQueue.random_shuffle if "min_after_dequeue" in queue else GraphQueue.fifo
        made = make(
            graph,
            dtypes=[tensor.dtype.base for tensor in sources[0]],
            shapes=element_shapes(sources, shapes, many),
            name="queue",
            **queue,
        )
        enqueues = [_enqueue(made, source, keep, many) for source in sources]
        run_queue(made, enqueues * num_threads)
        size = as_tensor(graph, batch_size, "int32", "batch_size")
        batches = made.dequeue_up_to(size) if smaller else made.dequeue_many(size)
    return like(examples[0], batches)


def columns(examples: Sequence[Example]) -> list[list[Tensor]]:
    """The tensors of each example in one order; InvalidArgumentError where examples differ in kind."""
    rows: list[list[Tensor]] = []
    keys: list[Any] = []
    for example in examples:
        items: list[tuple[Any, Any]] = (
            sorted(example.items()) if isinstance(example, Mapping) else list(enumerate(example))
        )
        here, row = [key for key, _ in items], [tensor for _, tensor in items]
        if rows and here != keys:
            raise InvalidArgumentError(f"the examples differ: {keys} and {here}")
        for tensor in row:
            if not isinstance(tensor, Tensor):
                raise InvalidArgumentError(
                    f"{tensor!r} is not a Tensor: an example is a list or dict of Tensors"
                )
            if tensor.graph is not row[0].graph:
                raise InvalidArgumentError(f"'{tensor.name}' belongs to another graph than '{row[0].name}'")
        if rows and [t.dtype.base for t in row] != [t.dtype.base for t in rows[0]]:
            raise InvalidArgumentError("the examples differ in the types of their tensors")
        keys = here
        rows.append(row)
    if not keys:
        raise InvalidArgumentError("tensors is empty: give at least one tensor to make batches of")
    return rows


def like(example: Example, tensors: Sequence[Tensor]) -> Any:
    """Tensors in the form of an example: a dict with its keys, or a list."""
    return dict(zip(sorted(example), tensors, strict=True)) if isinstance(example, Mapping) else list(tensors)


def element_shapes(
    sources: Sequence[Sequence[Tensor]], given: Sequence[Any] | None, many: bool
) -> list[TensorShape]:
    """Return the shape of each component: as given, or common to all sources.

    Raises InvalidArgumentError where a rank is not known.
    """
    if given is not None:
        return [TensorShape(shape) for shape in given]
    shapes = []
    for tensors in zip(*sources, strict=True):
        ranks = {tensor.shape.rank for tensor in tensors}
        if None in ranks or len(ranks) != 1 or (many and ranks == {0}):
            raise InvalidArgumentError(
                f"the rank of {', '.join(t.name for t in tensors)} is not known or differs: give `shapes`"
            )
        dims = zip(*(tensor.shape.as_list() for tensor in tensors), strict=True)
        common = [sizes[0] if len(set(sizes)) == 1 else None for sizes in dims]
        shapes.append(TensorShape(common[1:] if many else common))
    return shapes


def _enqueue(queue: GraphQueue, tensors: Sequence[Tensor], keep: Tensor | bool, many: bool) -> Operation:
    """Put an example, or rows of them, into the queue, as far as they are to be kept."""
    graph = queue.graph
    if keep is True:
        return queue.enqueue_many(tensors) if many else queue.enqueue(tensors)
    chosen = as_tensor(graph, keep, "bool", "keep_input")
    rank = chosen.shape.rank
    if rank == 0:
        return only_if(graph, chosen, tensors, queue.enqueue_many if many else queue.enqueue)
    if rank != 1 or not many:
        raise InvalidArgumentError(
            f"keep_input has shape {chosen.shape}: give a scalar, or with enqueue_many a vector"
        )
    rows = graph.ops.Squeeze(graph.ops.Where(chosen), squeeze_dims=[1])
    axis = graph.constant(0, "int32")
    return queue.enqueue_many([graph.ops.GatherV2(tensor, rows, axis) for tensor in tensors])


def only_if(graph: Graph, condition: Tensor, tensors: Sequence[Tensor], work: Any) -> Operation:
    """`work(tensors)` where the condition holds, nothing where not; the operation ends either way."""
    passed = [graph.ops.Switch(tensor, condition).output_true for tensor in tensors]
    done = work(passed)
    pivot = graph.ops.Switch(condition, condition)
    with graph.control_dependencies([done]):
        after = graph.ops.Identity(pivot.output_true)
    merged = graph.ops.Merge([graph.ops.Identity(pivot.output_false), after])
    return graph.group(merged.output, name="enqueue_if")
