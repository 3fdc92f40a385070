"""Session for asyncio programs: the steps run in a trio thread, their callers await them here.

Cancelling the awaiting asyncio task cancels the step and waits until it has ended.
"""

from __future__ import annotations

import asyncio
import os
import sys
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Unpack, cast, overload

from flowengine.core import tracebacks
from flowengine.core.config import Config
from flowengine.core.errors import OpError
from flowengine.core.public_names.missing import public_module
from flowengine.core.run_options import RunOptions
from flowengine.core.sessions.run_arguments import FeedDict, Fetch, Key, OneFetch, RunArguments
from flowengine.portal import Attempt, Portal, PortalCall, PortalSession
from flowengine.resources.container import ResourceManager
from flowengine.runtime.in_place.attempt import ELSEWHERE, UnfinishedStep
from flowengine.runtime.run_metadata import RunMetadata
from flowengine.runtime.turn_queue import BEGIN_SECONDS
from flowengine.session import Session as _Session

if TYPE_CHECKING:
    from flowengine.graphs.variables.initializing import Listed
    from flowengine.graphs.variables.variable import GraphVariable
    from flowengine.saved_model.model import AwaitedModel


#: Whether a task may put its cancellation off: before 3.13 `asyncio.timeout` would not know it again.
_POSTPONES = sys.version_info >= (3, 13)


#: All steps together have so much of a pass of an asyncio loop. A task that sleeps is late by two passes: at
#: 1 ms it was 2.3 ms late beside one task that runs steps for ever, 1.2 beside that in a trio program.
PASS_SECONDS: Final = 0.0005


def _postponed(cancelled: asyncio.CancelledError) -> bool:
    """Have this task's cancellation come again at its next `await`; whether that can be."""
    task = asyncio.current_task()
    if not _POSTPONES or task is None or not task.cancelling():
        return False
    task.uncancel()
    task.cancel(*cancelled.args)
    return True


class LoopTurns:
    """When steps may run on an event loop's own thread: all together for half a millisecond of each pass.

    A step that finds nothing left waits in line. At each pass as many are woken as will fit, by what steps
    took lately, and at least one: so 1,000 tasks that run quick steps for ever leave the loop its passes.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._waiting: deque[asyncio.Future[None]] = deque()
        #: When this pass has no more time; None until the first step of it begins.
        self._ends: float | None = None
        self._lately = PASS_SECONDS

    def seconds(self) -> float:
        """How long a step may run that begins now; 0 if it has to `wait` first."""
        if self._waiting or (self._ends is not None and perf_counter() >= self._ends):
            return 0.0
        return BEGIN_SECONDS

    def ran(self, started: float) -> None:
        """A step that began then has run on this thread."""
        now = perf_counter()
        self._lately += 0.125 * (min(now - started, PASS_SECONDS) - self._lately)
        if self._ends is None:
            self._begin_pass(started)

    async def wait(self) -> float:
        """Wait for a turn; how long it may last. Cancelled, it leaves nothing behind."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        if self._ends is None:
            self._begin_pass(perf_counter())
        try:
            await turn
        finally:
            if turn in self._waiting:
                self._waiting.remove(turn)
        return BEGIN_SECONDS

    def _begin_pass(self, now: float) -> None:
        loop = self._loop()
        assert loop is not None
        self._ends = now + PASS_SECONDS
        loop.call_soon(self._go_round)

    def _go_round(self) -> None:
        """The loop has gone round: wake those who wait, as far as time lasts."""
        if not self._waiting:
            self._ends = None
            return
        left = PASS_SECONDS
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                left -= self._lately
                if left < self._lately:
                    break
        self._begin_pass(perf_counter())


_turns: Final[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopTurns]] = weakref.WeakKeyDictionary()


def _turns_of(loop: asyncio.AbstractEventLoop) -> LoopTurns:
    found = _turns.get(loop)
    if found is None:
        found = _turns[loop] = LoopTurns(loop)
    return found


async def finish(call: PortalCall) -> Any:
    """Wait for a call in a portal, and return its value.

    Raises what the call raises. Cancelled, it cancels the call and comes back when that has ended.
    """
    waiting = asyncio.wrap_future(call.future)
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError as cancelled:
        return await _cancel(call, cancelled, waiting)


async def _cancel(
    call: PortalCall, cancelled: asyncio.CancelledError, waiting: asyncio.Future[Any] | None = None
) -> Any:
    """Cancel a call for a task that was cancelled: raises that, or returns values that were ready."""
    if waiting is None:
        waiting = asyncio.wrap_future(call.future)
    call.cancel()
    # Until the step has ended its feeds are borrowed: come back only then, however often cancelled.
    while not waiting.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([waiting])
    if not waiting.cancelled() and waiting.exception() is None and _postponed(cancelled):
        return waiting.result()
    raise cancelled


class Session(PortalSession):
    """A `flowengine.Session` for asyncio; arguments, results and errors are the same.

    Cancellation arrives as asyncio.CancelledError once the step has ended. From Python 3.13 on, a step that
    had ended by then gives its values, and the cancellation comes at the next `await`.

    >>> import asyncio
    >>> graph = fe.Graph()
    >>> double = graph.placeholder("float32", [], name="x") * 2.0
    >>> async def main():
    ...     async with fe.asyncio.Session(graph) as session:  # else `await session.close()` at the end
    ...         twice = session.make_callable(double, feeds=["x:0"])
    ...         print(*await asyncio.gather(session.run(double, {"x:0": 1.0}), twice(2.0)))
    >>> asyncio.run(main())
    2.0 4.0
    """

    _called = "flowengine.asyncio.Session"
    _await = "await "

    async def _step(self, step: Callable[[], Awaitable[Any]], attempt: Attempt | None) -> Any:
        """Run a step on this thread if that can be, else in the portal."""
        task = asyncio.current_task()
        # A cancellation that is on its way comes where the task waits: in the portal's way.
        if attempt is None or task is None or task.cancelling():
            return await self._call(step)
        turns, portal = _turns_of(task.get_loop()), self._open()
        seconds = turns.seconds()
        if not seconds and portal.qualifies(attempt):
            seconds = await turns.wait()
            portal = self._open()
        started = perf_counter()
        outcome = portal.try_in_place(attempt, seconds) if seconds else ELSEWHERE
        if outcome is ELSEWHERE:
            return await self._call(step)
        turns.ran(started)
        if isinstance(outcome, UnfinishedStep):
            outcome = await self._go_on(outcome, portal, turns)
        return await finish(outcome) if isinstance(outcome, PortalCall) else outcome

    async def _go_on(self, outcome: Any, portal: Portal, turns: LoopTurns) -> Any:
        """Run slices of a step on this thread while that can be, each in a turn of its own.

        Returns the step's values, or the `PortalCall` of the rest.
        """
        while isinstance(outcome, UnfinishedStep):
            try:
                seconds = await turns.wait()
            except asyncio.CancelledError as cancelled:
                return await _cancel(portal.hand_over(outcome, is_cancelled=True), cancelled)
            except BaseException:  # nobody goes on with this coroutine
                portal.hand_over(outcome, is_cancelled=True)
                raise
            started = perf_counter()
            outcome = portal.go_on_in_place(outcome, seconds)
            turns.ran(started)
        return outcome

    async def _call(self, function: Callable[[], Awaitable[Any]]) -> Any:
        return await finish(self._open().start(function))

    @overload
    async def run(
        self, fetches: OneFetch, feed_dict: FeedDict = None, **arguments: Unpack[RunArguments]
    ) -> Any: ...

    @overload
    async def run(
        self, fetches: dict[Key, Fetch], feed_dict: FeedDict = None, **arguments: Unpack[RunArguments]
    ) -> dict[Key, Any]: ...

    @overload
    async def run(
        self, fetches: list[Fetch], feed_dict: FeedDict = None, **arguments: Unpack[RunArguments]
    ) -> list[Any]: ...

    @overload
    async def run(
        self, fetches: Any, feed_dict: FeedDict = None, **arguments: Unpack[RunArguments]
    ) -> Any: ...

    async def run(
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
            return await self._step(step, attempt)
        except OpError as error:
            tracebacks.shorten(error)
            raise

    @tracebacks.hides_engine
    def make_callable(
        self, fetches: Any, feeds: Sequence[Any] = (), targets: Sequence[Any] = ()
    ) -> Callable[..., Awaitable[Any]]:
        """See `flowengine.Session.make_callable`."""
        step, attempt = self._session.make_both(fetches, feeds, targets)

        async def call(*values: Any) -> Any:
            try:
                return await self._step(partial(step, *values), partial(attempt, values))
            except OpError as error:
                tracebacks.shorten(error)
                raise

        return call

    @tracebacks.hides_engine
    async def call(self, function: Callable[..., Awaitable[Any]], *args: Any, **keywords: Any) -> Any:
        """Call a trio coroutine `function` with the session behind this one, where its steps run.

        `args` and `keywords` follow the session: `await session.call(saver.save, "model.ckpt")` is `await
        saver.save(session, "model.ckpt")` in a trio program. Raises what the function raises; cancelled, it
        cancels the call.

        >>> import asyncio
        >>> graph = fe.Graph()
        >>> weights = graph.variable([1.0, 2.0], name="weights")
        >>> async def main():
        ...     async with fe.asyncio.Session(graph) as session:
        ...         await session.initialize()
        ...         print(await session.call(fe.train.Saver().save, "model.ckpt"))
        >>> asyncio.run(main())
        model.ckpt
        """
        return await self._call(partial(function, self._session, *args, **keywords))

    async def initialize(self, variables: Iterable[Listed] | None = None) -> list[GraphVariable]:
        """See `flowengine.Session.initialize`."""
        return cast("list[GraphVariable]", await self.call(_Session.initialize, variables))

    async def uninitialized(self, variables: Iterable[Listed] | None = None) -> list[GraphVariable]:
        """See `flowengine.Session.uninitialized`."""
        return cast("list[GraphVariable]", await self.call(_Session.uninitialized, variables))

    async def close(self) -> None:
        """End running steps with CancelledError and the thread with them. Closing twice does nothing."""
        if self._portal is None or self._portal.is_elsewhere:
            self._portal = None
            return
        await self._call(self._session.close)
        portal, self._portal = self._portal, None
        if portal is not None:  # another task may have closed it meanwhile
            portal.close()

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def load_saved_model(
    path: str | os.PathLike[str],
    *,
    tags: str | Collection[str] | None = None,
    config: Config | None = None,
    target: str = "",
    resources: ResourceManager | None = None,
) -> AwaitedModel:
    """Load a SavedModel whose calls are awaited in this asyncio program.

    Arguments and errors are those of `flowengine.saved_model.load`; cancelled, it leaves nothing open.

    >>> import asyncio
    >>> graph = fe.Graph()
    >>> x = graph.placeholder("float32", [None], name="x")
    >>> with fe.blocking.Session(graph) as session:
    ...     session.call(fe.saved_model.save, "export", signatures={"double": ({"x": x}, {"y": x + x})})
    >>> async def main():
    ...     async with await fe.asyncio.load_saved_model("export") as model:
    ...         print((await model(x=[1.0, 2.0]))["y"])
    >>> asyncio.run(main())
    [2. 4.]
    """
    from flowengine.saved_model.loading import restored, source_of
    from flowengine.saved_model.model import AwaitedModel

    saved = await asyncio.to_thread(source_of, path, tags, config)
    session = Session(saved.graph, target=target, config=config, resources=resources)
    try:
        saved = await session.call(restored, saved)
    except BaseException:
        await session.close()
        raise
    return AwaitedModel(saved, session)


__all__ = ["Session", "load_saved_model"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public_module(__name__, __all__)
