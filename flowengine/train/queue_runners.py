"""Queue runners: steps that fill queues, again and again, beside the steps that take from them.

    async with fe.train.QueueRunners(session) as coordinator:
        while not coordinator.should_stop():
            await session.run("train")

A runner belongs to one queue. It has nodes that enqueue, each run in a loop by a task, a node that closes
the queue at the end of the input, and one that closes it at once and ends the steps that wait at it. A
pipeline is a chain of queues. When a queue is closed, the runner that reads from it reaches the end of its
input and closes the next queue.

`source` is a graph, a MetaGraphDef or a list of runners; `collection` is the name that they are listed under.
Errors: InvalidArgumentError for anything else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final

import trio

from flowengine.core import errors
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError, OpError, OutOfRangeError
from flowengine.core.sessions.calls import refuse_facade, takes_session
from flowengine.graphs.given import need_graph
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.train.coordinator import STOP_GRACE_SECONDS, Coordinator
from flowengine.train.pipelines import QUEUE_RUNNERS, listed, local_variables_of
from flowengine.train.queues import GraphQueue

#: {canonical code: the class of its errors}
_CLASSES: Final = {
    kind.error_code: kind for name in errors.__all__ if (kind := getattr(errors, name)) is not OpError
}


class QueueRunner:
    """How one queue is filled and closed; nodes by their names, as Operations, or as their Tensors.

    queue                          the `GraphQueue`, or its node: it names the runner
    enqueue_ops                    a task runs each one in a loop; the list may name one several times
    close_op                       runs when the last of these tasks has reached the end of its input
    cancel_op                      runs when all is to stop: it ends the steps that wait at the queue
    queue_closed_exception_types   which errors of an enqueue mean the end of its input

    >>> graph = fe.Graph()
    >>> queue = fe.train.GraphQueue.fifo(graph, 10, ["int32"], [[]])
    >>> runner = fe.train.QueueRunner(queue, [queue.enqueue([graph.constant(7)])], queue.close())
    >>> fe.train.add_queue_runner(graph, runner)
    >>> len(fe.train.queue_runners_of(graph)), fe.train.QueueRunner.from_proto(runner.to_proto()).name
    (1, 'fifo_queue')
    """

    def __init__(
        self,
        queue: Any,
        enqueue_ops: Sequence[Any],
        close_op: Any = None,
        cancel_op: Any = None,
        queue_closed_exception_types: Sequence[type[OpError]] = (OutOfRangeError,),
    ) -> None:
        self.name = _node_name(queue)
        self.enqueue_ops = tuple(_node_name(op) for op in enqueue_ops)
        if not self.enqueue_ops:
            raise InvalidArgumentError(f"the queue runner of '{self.name}' has no enqueue op")
        self.close_op = None if close_op is None else _node_name(close_op)
        self.cancel_op = None if cancel_op is None else _node_name(cancel_op)
        self.queue_closed_exception_types = tuple(queue_closed_exception_types) or (OutOfRangeError,)

    @classmethod
    def from_proto(cls, definition: Any, *, import_scope: str = "") -> QueueRunner:
        """Return the runner of a QueueRunnerDef, message or bytes: `definition`.

        `import_scope` is put before its names. Raises InvalidArgumentError if it names no queue or no enqueue
        op, or an unknown code.
        """
        from flowengine.ir.proto import QueueRunnerDef

        if isinstance(definition, bytes):
            definition = QueueRunnerDef.FromString(definition)
        scope = f"{import_scope}/" if import_scope else ""
        if not definition.queue_name:
            raise InvalidArgumentError("a QueueRunnerDef names no queue")
        kinds = []
        for code in definition.queue_closed_exception_types:
            if code not in _CLASSES:
                raise InvalidArgumentError(
                    f"the queue runner of '{definition.queue_name}' has the unknown error code {code}"
                )
            kinds.append(_CLASSES[code])
        return cls(
            scope + definition.queue_name,
            [scope + name for name in definition.enqueue_op_name],
            scope + definition.close_op_name if definition.close_op_name else None,
            scope + definition.cancel_op_name if definition.cancel_op_name else None,
            kinds,
        )

    def to_proto(self) -> Any:
        """Return the QueueRunnerDef of this runner, as the collection `queue_runners` holds it."""
        from flowengine.ir.proto import QueueRunnerDef
        from flowengine.ir.proto.meta_graph_pb2 import Code

        wanted = {kind.error_code for kind in self.queue_closed_exception_types}
        return QueueRunnerDef(
            queue_name=self.name,
            enqueue_op_name=self.enqueue_ops,
            close_op_name=self.close_op or "",
            cancel_op_name=self.cancel_op or "",
            queue_closed_exception_types=sorted(code for code in Code.values() if code in wanted),
        )

    def __repr__(self) -> str:
        return f"<QueueRunner of '{self.name}': {', '.join(self.enqueue_ops)}>"


def _node_name(node: Any) -> str:
    """Return the name of a node that is given as a name, an operation, a tensor or a queue."""
    if isinstance(node, GraphQueue):
        node = node.handle
    if isinstance(node, Tensor):
        return node.node_name
    if isinstance(node, Operation):
        return node.name
    if isinstance(node, str):
        return node.removeprefix("^").partition(":")[0]
    raise InvalidArgumentError(
        "a queue runner takes nodes: each a name, an Operation or a Tensor, and its queue as a GraphQueue, "
        f"too: not a {type(node).__name__}"
    )


def add_queue_runner(graph: Graph, runner: QueueRunner) -> None:
    """Add a `runner` to the graph's list, so that `QueueRunners` starts it with the others.

    Raises InvalidArgumentError for anything but a graph. See `flowengine.train.QueueRunner`.
    """
    need_graph(graph, "fe.train.add_queue_runner(graph, runner)")
    graph.add_to_collection(QUEUE_RUNNERS, runner)


def queue_runners_of(
    source: Any, *, collection: str = QUEUE_RUNNERS, import_scope: str = ""
) -> list[QueueRunner]:
    """Return the runners that a graph or a MetaGraphDef lists.

    source         a `Graph`, a MetaGraphDef message, or the result of `load_meta_graph`
    import_scope   a prefix of the names in a MetaGraphDef, such as the scope that it was imported into
    """
    return [
        each if isinstance(each, QueueRunner) else QueueRunner.from_proto(each, import_scope=import_scope)
        for each in listed(source, collection)
    ]


class QueueRunners:
    """Runs queue runners for as long as a block lasts. The context's value is a `Coordinator`.

    session   the session that runs their steps
    source    queue runners; or a MetaGraphDef, message or loaded, for those that it lists; by default
              those of the session's graph
    initialize_local_variables   whether to initialize the local variables of the graph that have no value
                                 yet, such as counts of epochs, before anything is started
    stop_grace_period_seconds    how long the runners may take to stop before they are cancelled

    The block ends quietly when it raises OutOfRangeError, which marks the end of the input. When a runner
    fails, the block is cancelled and raises the runner's error. However the block ends, all queues are
    closed, no task runs any more, and the session's variables have the values of completed steps.

    >>> graph = fe.Graph()
    >>> row = fe.train.range_input_producer(graph, 4, num_epochs=1, shuffle=False).dequeue()
    >>> numbers, = fe.train.batch(row, 2)
    >>> async def main():
    ...     async with fe.Session(graph) as session, fe.train.QueueRunners(session) as coordinator:
    ...         while not coordinator.should_stop():
    ...             print(await session.run(numbers))
    >>> trio.run(main)
    [0 1]
    [2 3]
    """

    def __init__(
        self,
        session: Any,
        source: Any = None,
        *,
        initialize_local_variables: bool = True,
        stop_grace_period_seconds: float = STOP_GRACE_SECONDS,
    ) -> None:
        refuse_facade(
            session,
            "fe.train.QueueRunners",
            "in a script write `with fe.blocking.QueueRunners(session) as runners:` around the steps; else "
            "give `session.call` an async function, which uses the session that it is called with",
        )
        self.session = session
        self._source = session.graph if source is None else source
        self._initialize = initialize_local_variables
        self._coordinator = Coordinator(stop_grace_period_seconds=stop_grace_period_seconds)

    async def __aenter__(self) -> Coordinator:
        if self._initialize and not isinstance(self._source, list | tuple):
            await initialize_local_variables(self.session, self._source)
        prepared = _prepare(self.session, self._source)
        coordinator = await self._coordinator.__aenter__()
        for each in prepared:
            each.start(coordinator)
        return coordinator

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._coordinator.__aexit__(kind, error, trace)


@takes_session(is_awaited_only=True)
async def initialize_local_variables(session: Any, source: Any = None) -> None:
    """Initialize the local variables of a graph or a MetaGraphDef (`source`) that have no value yet.

    >>> graph = fe.Graph()
    >>> epoch = graph.variable(0, name="epoch", trainable=False, collections=["local_variables"])
    >>> async def main():
    ...     async with fe.Session(graph) as session:
    ...         await fe.train.initialize_local_variables(session)
    ...         print(await session.run(epoch))
    >>> trio.run(main)
    0
    """
    for variable in local_variables_of(session.graph if source is None else source):
        try:
            await session.run(variable.snapshot)
        except FailedPreconditionError:
            await session.run([], targets=[variable.initializer])


def start_queue_runners(session: Any, coordinator: Coordinator, source: Any = None) -> None:
    """Start queue runners as tasks of an entered `coordinator`; `source` as for `QueueRunners`.

    >>> graph = fe.Graph()
    >>> queue = fe.train.GraphQueue.fifo(graph, 2, ["int32"], [[]])
    >>> number, = queue.dequeue()
    >>> fe.train.add_queue_runner(graph, fe.train.QueueRunner(queue, [queue.enqueue([graph.constant(7)])]))
    >>> async def main():
    ...     async with fe.Session(graph) as session, fe.train.Coordinator() as coordinator:
    ...         fe.train.start_queue_runners(session, coordinator)
    ...         print(await session.run(number))
    ...         await session.run([], targets=[queue.close(cancel_pending_enqueues=True)])
    >>> trio.run(main)
    7
    """
    for each in _prepare(session, session.graph if source is None else source):
        each.start(coordinator)


def _prepare(session: Any, source: Any) -> list[_ActiveRunner]:
    """Return runners ready to start; a name that the graph does not have is an error here."""
    runners = source if isinstance(source, list | tuple) else queue_runners_of(source)
    return [_ActiveRunner(session, runner) for runner in runners]


class _ActiveRunner:
    """One runner at work in one session."""

    def __init__(self, session: Any, runner: QueueRunner) -> None:
        def step(name: str | None) -> Callable[[], Awaitable[Any]] | None:
            return None if name is None else session.make_callable([], targets=[name])

        self._session = session
        self._ends = runner.queue_closed_exception_types
        self._fill = [session.make_callable([], targets=[name]) for name in runner.enqueue_ops]
        self._close = step(runner.close_op)
        self._cancel = step(runner.cancel_op)
        self._active = len(self._fill)

    def start(self, coordinator: Coordinator) -> None:
        if self._cancel is not None:
            coordinator.start(self._cancel_on_stop, coordinator, self._cancel)
        for fill in self._fill:
            coordinator.start(partial(self._run, coordinator, fill))

    async def _run(self, coordinator: Coordinator, fill: Callable[[], Awaitable[Any]]) -> None:
        """Enqueue until the input ends or a stop is requested; the last task to end closes the queue."""
        try:
            while not coordinator.should_stop():
                await fill()
        except self._ends:
            if self._active == 1 and self._close is not None:
                # It fails if the queue is closed already, which is the purpose.
                with contextlib.suppress(OpError):
                    await self._close()
        except OpError:
            if not self._session.is_closed:
                raise
            coordinator.request_stop()  # its steps end because the program closed the session
        finally:
            self._active -= 1

    async def _cancel_on_stop(self, coordinator: Coordinator, cancel: Callable[[], Awaitable[Any]]) -> None:
        """Close the queue when a stop is requested or the block is cancelled."""
        try:
            await coordinator.wait_for_stop()
        finally:
            with trio.move_on_after(STOP_GRACE_SECONDS, shield=True), contextlib.suppress(OpError):
                await cancel()
