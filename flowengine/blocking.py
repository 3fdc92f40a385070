"""Session for scripts, notebooks and threads: the same calls, without `await`.

Each session keeps one thread with a trio run of its own. It may be used from several threads at a time; their
steps run concurrently.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack, cast, overload

import trio

from flowengine.core import tracebacks
from flowengine.core.config import Config
from flowengine.core.errors import (
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    OpError,
    OutOfRangeError,
)
from flowengine.core.public_names.deprecated import renamed_arguments
from flowengine.core.public_names.missing import public_module
from flowengine.core.run_options import RunOptions
from flowengine.core.sessions.run_arguments import FeedDict, Fetch, Key, OneFetch, RunArguments
from flowengine.portal import Attempt, PortalCall, PortalSession
from flowengine.resources.container import ResourceManager
from flowengine.runtime.in_place.attempt import ELSEWHERE, UnfinishedStep
from flowengine.runtime.run_metadata import RunMetadata
from flowengine.runtime.turn_queue import SLICE_SECONDS
from flowengine.session import Session as _Session

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph
    from flowengine.graphs.variables.initializing import Listed
    from flowengine.graphs.variables.variable import GraphVariable
    from flowengine.saved_model.model import BlockingModel
    from flowengine.tools.debugging.blocking import Stepper as Stepper
    from flowengine.tools.summaries.blocking import Writer as Writer
    from flowengine.train.fitting.history import TrainingHistory
    from flowengine.train.training_loop import Feeds, LoopResult


class Session(PortalSession):
    """A `flowengine.Session` behind plain calls; arguments, results and errors are the same.

    Ctrl-C while a call waits cancels its step, waits until it has ended, and raises KeyboardInterrupt.
    A closed session raises FailedPreconditionError. Running steps in a task of a trio program holds up its
    other tasks, so the first one emits a RuntimeWarning there.

    >>> graph = fe.Graph()
    >>> x = graph.placeholder("float32", [], name="x")
    >>> w = graph.variable(2.0, name="w")
    >>> session = fe.blocking.Session(graph)  # or `with fe.blocking.Session(graph) as session:`
    >>> initialized = session.initialize()
    >>> scaled = session.make_callable(x * w, feeds=[x])
    >>> print(session.run("w"), scaled(3.0), session.call(fe.train.Saver().save, "model.ckpt"))
    2.0 6.0 model.ckpt
    >>> session.close()
    """

    _called = "flowengine.blocking.Session"
    _await = ""
    _has_warned = False

    @overload
    def run(
        self, fetches: OneFetch, feed_dict: FeedDict = None, **arguments: Unpack[RunArguments]
    ) -> Any: ...

    @overload
    def run(
        self, fetches: dict[Key, Fetch], feed_dict: FeedDict = None, **arguments: Unpack[RunArguments]
    ) -> dict[Key, Any]: ...

    @overload
    def run(
        self, fetches: list[Fetch], feed_dict: FeedDict = None, **arguments: Unpack[RunArguments]
    ) -> list[Any]: ...

    @overload
    def run(self, fetches: Any, feed_dict: FeedDict = None, **arguments: Unpack[RunArguments]) -> Any: ...

    def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        *,
        targets: Sequence[Any] = (),
        options: RunOptions | None = None,
        run_metadata: RunMetadata | None = None,
    ) -> Any:
        """See `flowengine.Session.run`."""
        step = partial(
            self._session.run, fetches, feed_dict, targets=targets, options=options, run_metadata=run_metadata
        )
        attempt = None
        if options is None and run_metadata is None:
            attempt = partial(self._session.attempt, fetches, feed_dict, targets)
        try:
            return self._step(step, attempt)
        except OpError as error:
            tracebacks.shorten(error)
            raise

    def _step(self, step: Callable[[], Awaitable[Any]], attempt: Attempt | None) -> Any:
        """Run a step in this thread if that can be, else in the portal."""
        self._warn_of_held_loop()
        portal = self._open()
        if attempt is None:
            return portal.call(step)
        outcome = portal.try_in_place(attempt, SLICE_SECONDS, patience=SLICE_SECONDS)
        if outcome is ELSEWHERE:
            return portal.call(step)
        while isinstance(outcome, UnfinishedStep):
            outcome = portal.go_on_in_place(outcome, SLICE_SECONDS, patience=SLICE_SECONDS)
        return portal.wait(outcome) if isinstance(outcome, PortalCall) else outcome

    @tracebacks.hides_engine
    def make_callable(
        self, fetches: Any, feeds: Sequence[Any] = (), targets: Sequence[Any] = ()
    ) -> Callable[..., Any]:
        """See `flowengine.Session.make_callable`; the function returned is a plain one."""
        step, attempt = self._session.make_both(fetches, feeds, targets)

        def call(*values: Any) -> Any:
            try:
                return self._step(partial(step, *values), partial(attempt, values))
            except OpError as error:
                tracebacks.shorten(error)
                raise

        return call

    @tracebacks.hides_engine
    def call(self, function: Callable[..., Awaitable[Any]], *args: Any, **keywords: Any) -> Any:
        """Call a trio coroutine `function` with the session behind this one, where its steps run, and wait.

        `args` and `keywords` follow the session: `session.call(saver.save, "model.ckpt")` is `await
        saver.save(session, "model.ckpt")` in a trio program. Raises what the function raises.
        """
        return self._open().call(partial(function, self._session, *args, **keywords))

    def _warn_of_held_loop(self) -> None:
        """Warn once if steps are run in a task of trio, whose other tasks wait meanwhile.

        Not in asyncio programs: a notebook's cells run in a task of asyncio, and this session is for them.
        """
        if not self._has_warned and trio.lowlevel.in_trio_task() and not self._open().is_here:
            self._has_warned = True
            warnings.warn(
                "fe.blocking.Session is used in a task of a trio program: while a step runs, no other task "
                "does. Open a fe.Session there, and write `await session.run(...)`",
                RuntimeWarning,
                stacklevel=4,
            )

    def initialize(self, variables: Iterable[Listed] | None = None) -> list[GraphVariable]:
        """See `flowengine.Session.initialize`."""
        return cast("list[GraphVariable]", self.call(_Session.initialize, variables))

    def uninitialized(self, variables: Iterable[Listed] | None = None) -> list[GraphVariable]:
        """See `flowengine.Session.uninitialized`."""
        return cast("list[GraphVariable]", self.call(_Session.uninitialized, variables))

    def close(self) -> None:
        """End running steps with CancelledError and the thread with them. Closing twice does nothing."""
        portal, self._portal = self._portal, None
        if portal is not None and not portal.is_elsewhere:
            portal.call(self._session.close)
            portal.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def load_saved_model(
    path: str | os.PathLike[str],
    *,
    tags: str | Collection[str] | None = None,
    config: Config | None = None,
    target: str = "",
    resources: ResourceManager | None = None,
) -> BlockingModel:
    """Load a SavedModel whose calls are plain ones; arguments and errors as of `flowengine.saved_model.load`.

    >>> graph = fe.Graph()
    >>> x = graph.placeholder("float32", [None], name="x")
    >>> with fe.blocking.Session(graph) as session:
    ...     session.call(fe.saved_model.save, "export", signatures={"double": ({"x": x}, {"y": x + x})})
    >>> with fe.blocking.load_saved_model("export") as model:
    ...     model(x=[1.0, 2.0])["y"].tolist()
    [2.0, 4.0]
    """
    from flowengine.saved_model.loading import restored, source_of
    from flowengine.saved_model.model import BlockingModel

    saved = source_of(path, tags, config)
    session = Session(saved.graph, target=target, config=config, resources=resources)
    try:
        saved = session.call(restored, saved)
    except BaseException:
        session.close()
        raise
    return BlockingModel(saved, session)


@renamed_arguments(initialise="initialize")
def loop(
    session: Session,
    step: Any,
    *,
    steps: int | None = None,
    feeds: Feeds | None = None,
    fetches: Any = None,
    hooks: Sequence[Any] = (),
    initialize: bool = True,
    quiet: bool = False,
    options: RunOptions | None = None,
) -> LoopResult:
    """Run training steps with `flowengine.train.loop`, and return when they have ended.

    Arguments, results and errors are the same. Hooks, and a function as `step`, run where the session's steps
    run: they are async functions, and use the session that they are given. Raises InvalidArgumentError for
    another kind of session. Ctrl-C ends it as a cancellation ends `flowengine.train.loop`.

    >>> graph = fe.Graph()
    >>> step = graph.variable(0.0, name="w").assign_add_op(1.0)
    >>> with fe.blocking.Session(graph) as session:
    ...     fe.blocking.loop(session, step, steps=3, quiet=True).steps
    3
    """
    from flowengine.train.training_loop import loop as awaited

    given = {"steps": steps, "feeds": feeds, "fetches": fetches, "hooks": hooks}
    given |= {"initialize": initialize, "quiet": quiet, "options": options}
    return cast("LoopResult", _checked(session, "loop").call(awaited, step, **given))


def fit(session: Session, step: Any, data: Any, **options: Any) -> TrainingHistory:
    """Train for epochs over data with `flowengine.train.fit`, and return the history when they have ended.

    Arguments, results and errors are the same; `options` are the keywords there. Raises InvalidArgumentError
    for another kind of session. Ctrl-C ends it as a cancellation ends `flowengine.train.fit`.

    >>> graph = fe.Graph()
    >>> x = graph.placeholder("float32", [None], name="x")
    >>> loss = fe.reduce_mean(fe.square(x - graph.variable(0.0)))
    >>> step = fe.optimizers.SGD(0.5).minimize(loss)
    >>> with fe.blocking.Session(graph) as session:
    ...     data = {x: np.float32([3, 3])}
    ...     fe.blocking.fit(session, step, data, fetches={"loss": loss}, quiet=True)["loss"]
    [9.0]
    """
    from flowengine.train.fitting.fit import fit as awaited

    return cast("TrainingHistory", _checked(session, "fit").call(awaited, step, data, **options))


def _checked(session: Any, name: str) -> Session:
    """The session, if it is a blocking one; InvalidArgumentError otherwise."""
    if not isinstance(session, Session):
        raise InvalidArgumentError(
            f"fe.blocking.{name} takes a fe.blocking.Session, not {session!r}: in a trio program, await "
            f"fe.train.{name} with a fe.Session"
        )
    return session


class Saver:
    """A `flowengine.train.Saver` behind plain calls: it saves and restores variables of a blocking session.

    Arguments, `options`, results and errors are those of `flowengine.train.Saver`. Ctrl-C while a call waits
    cancels it: nothing is saved or restored. Raises InvalidArgumentError for another kind of session.

    >>> graph = fe.Graph()
    >>> weights = graph.variable([1.0, 2.0], name="weights")
    >>> with fe.blocking.Session(graph) as session:
    ...     initialized = session.initialize()
    ...     saver = fe.blocking.Saver(max_to_keep=3)
    ...     saver.save(session, "run/model.ckpt", global_step=100), saver.restore(session, "run")
    ...     saver.names(session), saver.runs_nodes(session)
    ('run/model.ckpt-100', ['weights'])
    (['weights'], False)
    """

    def __init__(self, var_list: Any = None, **options: Any) -> None:
        from flowengine.train.saver import Saver as awaited

        self._saver = awaited(var_list, **options)

    @classmethod
    def from_meta_graph(cls, source: Any, **options: Any) -> Saver:
        """See `flowengine.train.Saver.from_meta_graph`, and `flowengine.train.Saver.add_to`."""
        from flowengine.train.saver import Saver as awaited

        return cls._around(awaited.from_meta_graph(source, **options))

    @classmethod
    def of_nodes(cls, filename: str, save: str, restore: str, **options: Any) -> Saver:
        """See `flowengine.train.Saver.of_nodes`."""
        from flowengine.train.saver import Saver as awaited

        return cls._around(awaited.of_nodes(filename, save, restore, **options))

    @classmethod
    def _around(cls, saver: Any) -> Saver:
        made = cls.__new__(cls)
        made._saver = saver
        return made

    def add_to(self, graph: Graph, name: str = "save") -> Saver:
        """See `flowengine.train.Saver.add_to`; returns this saver."""
        self._saver.add_to(graph, name)
        return self

    def save(
        self,
        session: Session,
        path: str | os.PathLike[str],
        *,
        global_step: Any = None,
        metric: float | None = None,
        at_boundary: bool = False,
        write_meta_graph: bool = False,
    ) -> str:
        """Save under `path`, or `path-step`, and return that prefix; see `flowengine.train.Saver.save`."""
        given = {"global_step": global_step, "metric": metric}
        given |= {"at_boundary": at_boundary, "write_meta_graph": write_meta_graph}
        return cast("str", _checked(session, "Saver").call(self._saver.save, path, **given))

    def restore(
        self,
        session: Session,
        path: str | os.PathLike[str],
        *,
        names: Iterable[str] | None = None,
        strict: bool = True,
    ) -> list[str]:
        """Restore from a prefix or a folder, and return the names; see `flowengine.train.Saver.restore`."""
        given = {"names": names, "strict": strict}
        return cast("list[str]", _checked(session, "Saver").call(self._saver.restore, path, **given))

    def names(self, session: Session) -> list[str]:
        """See `flowengine.train.Saver.names`."""
        return self._saver.names(_checked(session, "Saver")._session)

    def runs_nodes(self, session: Session) -> bool:
        """See `flowengine.train.Saver.runs_nodes`."""
        return self._saver.runs_nodes(_checked(session, "Saver")._session)

    @property
    def checkpoints(self) -> list[str]:
        """See `flowengine.train.Saver.checkpoints`."""
        return self._saver.checkpoints

    @property
    def best_checkpoint(self) -> str | None:
        """See `flowengine.train.Saver.best_checkpoint`."""
        return self._saver.best_checkpoint


class QueueRunners:
    """`flowengine.train.QueueRunners` for a plain `with`: it fills a session's queues during the block.

    Arguments and `options` are the same. The block ends quietly with OutOfRangeError. When a runner fails,
    the queues are closed, so that steps that wait for them end, and the block raises its error at the end.

    >>> graph = fe.Graph()
    >>> row = fe.train.range_input_producer(graph, 4, num_epochs=1, shuffle=False).dequeue()
    >>> numbers, = fe.train.batch(row, 2)
    >>> with fe.blocking.Session(graph) as session, fe.blocking.QueueRunners(session) as runners:
    ...     while not runners.should_stop():
    ...         print(session.run(numbers))
    [0 1]
    [2 3]
    >>> with fe.blocking.Session(graph) as session, fe.blocking.QueueRunners(session) as runners:
    ...     runners.request_stop()  # before the input is at its end
    """

    def __init__(self, session: Session, source: Any = None, **options: Any) -> None:
        self._portal = _checked(session, "QueueRunners")._open()
        self._session = session._session
        self._source = source
        self._options = options
        self._running: PortalCall | None = None
        self._coordinator: Any = None
        self._leave: Any = None

    def should_stop(self) -> bool:
        """Whether the runners have come to an end or failed, or a stop was requested."""
        return self._coordinator is None or bool(self._coordinator.should_stop())

    def request_stop(self) -> None:
        """Ask for the end: `should_stop` is true soon after."""
        if self._coordinator is not None:
            self._portal.post(self._coordinator.request_stop)

    def __enter__(self) -> QueueRunners:
        started: Future[None] = Future()

        async def hold() -> None:
            from flowengine import train

            async with train.QueueRunners(self._session, self._source, **self._options) as coordinator:
                self._coordinator, self._leave = coordinator, trio.Event()
                started.set_result(None)
                await self._leave.wait()

        self._running = self._portal.start(hold)
        wait([started, self._running.future], return_when=FIRST_COMPLETED)
        if not started.done():
            self._running.future.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        running, self._running = self._running, None
        if running is None:
            return False
        with suppress(FailedPreconditionError):  # the session may have been closed, and with it this
            self._portal.post(self._leave.set)
        failure = running.future.exception()
        if isinstance(failure, CancelledError) and self._session.is_closed:
            failure = None
        if isinstance(failure, OpError) and (error is None or isinstance(error, OpError)):
            raise failure from None
        return isinstance(error, OutOfRangeError)


__all__ = ["QueueRunners", "Saver", "Session", "Stepper", "Writer", "fit", "load_saved_model", "loop"]

if not TYPE_CHECKING:
    _LAZY = {"Stepper": "flowengine.tools.debugging.blocking"}
    _LAZY["Writer"] = "flowengine.tools.summaries.blocking"
    __getattr__, __dir__ = public_module(__name__, __all__, _LAZY)
