"""Producers: queues of file names, numbers or slices, epoch after epoch, at the start of a pipeline.

    names = fe.train.string_input_producer(graph, ["a.tfrecord", "b.tfrecord"], num_epochs=3)
    key, record = graph.ops.ReaderReadV2(graph.ops.TFRecordReaderV2(), names.handle)

Each adds nodes to the graph and notes the queue runner that fills its queue; `QueueRunners` starts it.

`rows`, `strings` or `tensors` have the elements as rows, `limit` is a number, `pattern` one of files or
several; `num_epochs` counts how often they come (None: for ever), `shuffle` and `seed` say in which order,
`capacity` is the length of the queue, `element_shape` that of a row, `shared_name` names the queue for other
sessions. Errors: InvalidArgumentError for arguments that do not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.graphs.given import need_graph
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.train.pipelines import add_local_variable
from flowengine.train.queue_runners import QueueRunner, add_queue_runner
from flowengine.train.queues import GraphQueue, seeds


def as_tensor(graph: Graph, value: Any, dtype: Any = None, name: str = "input") -> Tensor:
    """A tensor of the graph: itself, or a constant."""
    if not isinstance(value, Tensor):
        return graph.constant(value, dtype, name=name)
    if value.graph is not graph:
        raise InvalidArgumentError(f"'{value.name}' belongs to another graph")
    return value


def run_queue(
    queue: GraphQueue,
    enqueue_ops: Sequence[Any],
    close_ops: tuple[Any, Any] | None = None,
    closed_by: Sequence[Any] = (),
) -> None:
    """Note the runner of a queue; without `close_ops` (close, cancel) those of the queue itself are made."""
    close, cancel = close_ops or (
        queue.close(),
        queue.close(cancel_pending_enqueues=True, name=f"{queue.name.rpartition('/')[2]}_Cancel"),
    )
    add_queue_runner(queue.graph, QueueRunner(queue.handle, enqueue_ops, close, cancel, closed_by))


def limit_epochs(tensor: Tensor, num_epochs: int | None, name: str = "limit_epochs") -> Tensor:
    """Return the tensor, `num_epochs` times; then OutOfRangeError. None: for ever.

    The count is a local variable: `QueueRunners` sets it before it starts.

    >>> graph = fe.Graph()
    >>> twice = fe.train.limit_epochs(graph.constant("a.txt"), 2)
    """
    if num_epochs is None:
        return tensor
    if num_epochs <= 0:
        raise InvalidArgumentError(f"num_epochs must be positive, not {num_epochs}")
    graph = tensor.graph
    with graph.name_scope(name):
        zero = graph.constant(0, "int64", name="zero")
        epochs = graph.ops.VariableV2(shape=[], dtype="int64", name="epochs")
        initializer = graph.ops.Assign(epochs, zero, name="epochs/Assign")
        snapshot = graph.ops.Identity(epochs, name="epochs/read")
        add_local_variable(epochs, initializer.op, zero, snapshot)
        counter = graph.ops.CountUpTo(epochs, limit=num_epochs, name="CountUpTo")
        with graph.control_dependencies([counter]):
            limited: Tensor = graph.ops.Identity(tensor)
    return limited


def match_filenames_once(graph: Graph, pattern: Any, name: str = "matching_filenames") -> Tensor:
    """Return the names of the files that match, looked for when the local variables are set (string [n]).

    >>> graph = fe.Graph()
    >>> names = fe.train.match_filenames_once(graph, "data/*.tfrecord")
    >>> files = fe.train.string_input_producer(graph, names)
    """
    need_graph(graph, "fe.train.match_filenames_once(graph, pattern)")
    with graph.name_scope(name):
        found = graph.ops.MatchingFiles(as_tensor(graph, pattern, "string", "pattern"))
        variable = graph.ops.VariableV2(shape=TensorShape(None), dtype="string", name="names")
        initializer = graph.ops.Assign(variable, found, validate_shape=False, name="names/Assign")
        names: Tensor = graph.ops.Identity(variable, name="names/read")
    add_local_variable(variable, initializer.op, found, names)
    return names


def input_producer(
    graph: Graph,
    rows: Any,
    *,
    element_shape: Any = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str = "",
    name: str = "input_producer",
) -> GraphQueue:
    """Return a queue of the rows of a tensor, shuffled anew each epoch.

    rows            [n, ...]; a tensor, or a value that becomes a constant
    element_shape   the shape of a row, if the graph does not know it
    num_epochs      how often the queue has each row; None for no end
    Raises InvalidArgumentError where the shape of a row is not known completely.

    >>> graph = fe.Graph()
    >>> row, = fe.train.input_producer(graph, [[1, 2], [3, 4]], shuffle=False).dequeue()
    >>> row.shape
    TensorShape([2])
    """
    need_graph(graph, "fe.train.input_producer(graph, rows)")
    with graph.name_scope(name):
        tensor = as_tensor(graph, rows)
        shape = _row_shape(tensor, element_shape)
        if shuffle:
            tensor = graph.ops.RandomShuffle(tensor, **seeds(seed))
        tensor = limit_epochs(tensor, num_epochs)
        queue = GraphQueue.fifo(
            graph, capacity, [tensor.dtype.base], [shape], shared_name=shared_name, name="queue"
        )
        run_queue(queue, [queue.enqueue_many([tensor])])
    return queue


def _row_shape(tensor: Tensor, given: Any) -> TensorShape:
    shape, of_row = tensor.shape, TensorShape(given)
    if shape.rank == 0:
        raise InvalidArgumentError(f"'{tensor.name}' is a scalar: rows are taken from a vector or more")
    if shape.rank is not None:
        of_row = of_row.merge_with(TensorShape(shape.as_list()[1:]))
    if not of_row.is_fully_defined:
        raise InvalidArgumentError(
            f"the rows of '{tensor.name}' have shape {of_row}: give their `element_shape`, or a tensor of "
            "which it is known"
        )
    return of_row


def string_input_producer(
    graph: Graph,
    strings: Any,
    *,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str = "",
    name: str = "input_producer",
) -> GraphQueue:
    """Return a queue of strings, usually the names of files.

    strings   a list, or a string tensor [n]
    Raises InvalidArgumentError for an empty list; an empty tensor fails the step that runs it.
    """
    need_graph(graph, "fe.train.string_input_producer(graph, strings)")
    if not isinstance(strings, Tensor) and not len(strings):
        raise InvalidArgumentError("string_input_producer needs at least one string, the list is empty")
    with graph.name_scope(f"{name}_strings"):
        tensor = as_tensor(graph, strings, "string")
        if isinstance(strings, Tensor):
            some = graph.ops.Greater(graph.ops.Size(tensor), 0)
            message = graph.constant("string_input_producer needs at least one string", "string")
            with graph.control_dependencies([graph.ops.Assert(some, [message])]):
                tensor = graph.ops.Identity(tensor)
    return input_producer(
        graph,
        tensor,
        element_shape=[],
        num_epochs=num_epochs,
        shuffle=shuffle,
        seed=seed,
        capacity=capacity,
        shared_name=shared_name,
        name=name,
    )


def range_input_producer(
    graph: Graph,
    limit: Any,
    *,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str = "",
    name: str = "input_producer",
) -> GraphQueue:
    """Return a queue of the numbers from 0 to `limit` - 1 (int32)."""
    need_graph(graph, "fe.train.range_input_producer(graph, limit)")
    with graph.name_scope(f"{name}_range"):
        numbers = graph.ops.Range(
            graph.constant(0, "int32"), as_tensor(graph, limit, "int32"), graph.constant(1, "int32")
        )
    return input_producer(
        graph,
        numbers,
        element_shape=[],
        num_epochs=num_epochs,
        shuffle=shuffle,
        seed=seed,
        capacity=capacity,
        shared_name=shared_name,
        name=name,
    )


def slice_input_producer(
    tensors: Sequence[Tensor],
    *,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str = "",
    name: str = "input_producer",
) -> list[Tensor]:
    """Return one row of each tensor at a time, the same row of all; they have equally many rows.

    Raises InvalidArgumentError for an empty list.
    """
    if not tensors:
        raise InvalidArgumentError("slice_input_producer needs at least one tensor")
    graph = tensors[0].graph
    with graph.name_scope(f"{name}_rows"):
        first = graph.constant([0], "int32")
        after = graph.constant([1], "int32")
        count = graph.ops.StridedSlice(graph.ops.Shape(tensors[0]), first, after, after, shrink_axis_mask=1)
    queue = range_input_producer(
        graph,
        count,
        num_epochs=num_epochs,
        shuffle=shuffle,
        seed=seed,
        capacity=capacity,
        shared_name=shared_name,
        name=name,
    )
    (index,) = queue.dequeue()
    axis = graph.constant(0, "int32")
    return [graph.ops.GatherV2(as_tensor(graph, tensor), index, axis) for tensor in tensors]
