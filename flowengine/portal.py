"""A trio run on a thread of its own, into which other threads and event loops call.

`blocking.Session` and `asyncio.Session` are thin façades over it: one portal a session, so that the
session's resource manager has one trio run for its whole life. What the two sessions have in common is here,
how their callers wait is theirs.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextvars import Context
from functools import partial
from typing import Any, TypeAlias

import trio

from flowengine.core import tracebacks
from flowengine.core.abandonment import SESSION_CLOSED, may_wait
from flowengine.core.accounting import is_asked
from flowengine.core.config import Config
from flowengine.core.errors import CancelledError, FailedPreconditionError, OpError
from flowengine.core.sessions.view import SessionView
from flowengine.devices.device import DeviceRegistry
from flowengine.ir.graph import NodeGraph
from flowengine.kernels.registry import KernelRegistry
from flowengine.passes.place.costs import CostModel
from flowengine.resources.container import ResourceManager
from flowengine.runtime.in_place.attempt import ELSEWHERE, LATER, UnfinishedStep, begin_in_place
from flowengine.runtime.in_place.baton import Baton, DeferredInterrupt
from flowengine.runtime.planning.fetches import as_values, unpack
from flowengine.runtime.planning.placing import Placer
from flowengine.runtime.planning.preparing import PlannedRequest
from flowengine.runtime.planning.session_plans import ReadyPlan
from flowengine.session import Session as _Session
from flowengine.session import SessionStatistics

#: What runs one slice of a step: it takes the run's token and how many seconds the slice has.
Attempt: TypeAlias = Callable[[trio.lowlevel.TrioToken, float], Any]


class PortalCall:
    """One coroutine running in the portal. `future` has its outcome; `cancel` cancels it there."""

    def __init__(self, portal: Portal) -> None:
        self.future: Future[Any] = Future()
        self._portal = portal
        self._scope = trio.CancelScope()

    def cancel(self) -> None:
        """Ask for cancellation, from any thread; the future then ends when the coroutine has."""
        self._portal.post(self._scope.cancel)

    async def run(self, function: Callable[[], Awaitable[Any]]) -> None:
        """Settle the future with what the function returns or raises; nothing leaves but cancellation."""
        self.future.set_running_or_notify_cancel()
        try:
            with self._scope:
                self.future.set_result(await function())
        except trio.Cancelled:  # the portal is closing
            self.future.set_exception(CancelledError("the session was closed while this call was running"))
            raise
        except BaseException as error:
            self.future.set_exception(error)
            return
        if self._scope.cancelled_caught:
            self.future.set_exception(trio.RunFinishedError("the call was cancelled"))


class Portal:
    """The thread and its run. Started by the constructor, ended by `close`."""

    def __init__(self) -> None:
        #: A child made by fork has none of the threads.
        self._process = os.getpid()
        started: queue.SimpleQueue[trio.lowlevel.TrioToken] = queue.SimpleQueue()
        self._nursery: trio.Nursery | None = None
        self._stop = trio.Event()
        self._baton = Baton()
        #: What a step in place finds there: nothing of its caller's, as one in the run.
        self._context = Context()
        self._thread = threading.Thread(
            target=partial(trio.run, self._main, started, instruments=[self._baton]),
            name="flowengine portal",
            daemon=True,
        )
        self._thread.start()
        self._token = started.get()

    async def _main(self, started: queue.SimpleQueue[trio.lowlevel.TrioToken]) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            started.put(trio.lowlevel.current_trio_token())
            await self._stop.wait()
            nursery.cancel_scope.cancel()

    def post(self, function: Callable[..., object], *args: Any) -> None:
        """Call a synchronous function in the run, soon.

        Raises FailedPreconditionError if the run has ended, or if it is another process's: no thread survives
        a fork.
        """
        if self.is_elsewhere:
            raise FailedPreconditionError(
                f"this session belongs to process {self._process}, this is a fork of it: open another here"
            )
        try:
            self._token.run_sync_soon(function, *args)
        except trio.RunFinishedError:
            raise FailedPreconditionError("this session is closed: open another") from None

    @property
    def is_elsewhere(self) -> bool:
        """Whether this process is a fork of the one that the portal was opened in."""
        return os.getpid() != self._process

    @property
    def is_here(self) -> bool:
        """Whether the caller is in the portal's own thread."""
        return threading.get_ident() == self._thread.ident

    def start(self, function: Callable[[], Awaitable[Any]], *, is_cancelled: bool = False) -> PortalCall:
        """Run a coroutine function in the portal; returns at once. It may be cancelled from its beginning.

        The future fails with FailedPreconditionError where the portal was closed before, CancelledError where
        it is closed meanwhile.
        """
        call = PortalCall(self)
        if is_cancelled:
            call.cancel()
        self.post(self._begin, call, function)
        return call

    def _begin(self, call: PortalCall, function: Callable[[], Awaitable[Any]]) -> None:
        """Begin a call, in the run. It may have been asked for just before the end, from another thread."""
        if self._stop.is_set():
            call.future.set_exception(FailedPreconditionError("this session is closed: open another"))
            return
        assert self._nursery is not None
        self._nursery.start_soon(call.run, function)

    def call(self, function: Callable[[], Awaitable[Any]]) -> Any:
        """Run it and wait for its result. Interrupted (Ctrl-C), the call is cancelled and waited for.

        Raises FailedPreconditionError in the portal's own thread, which would wait for itself for ever.
        """
        if self.is_here:
            raise FailedPreconditionError(
                "this blocking session is used in the thread where its steps run, by an async function that "
                "was given to it: use the session that the function is called with, and `await` its calls"
            )
        return self.wait(self.start(function))

    def wait(self, call: PortalCall) -> Any:
        """Wait for the result of a call, as `call` does."""
        try:
            return call.future.result()
        except BaseException:
            if not call.future.done():
                call.cancel()
                call.future.exception()
            raise

    def qualifies(self, attempt: Attempt) -> bool:
        """Whether a step is of those that may run in place. It only looks; raises what is wrong with it."""
        return attempt(self._token, 0.0) is LATER

    def try_in_place(self, attempt: Attempt, seconds: float, *, patience: float = 0.0) -> Any:
        """Run one slice of a step in this thread, if that can be, while the run waits for I/O.

        returns    what the attempt gives: an `UnfinishedStep` if the next slice may run in place, too; the
                   `PortalCall` of the rest if it may not; ELSEWHERE if the run has tasks to go on with or
                   another caller is busy
        seconds    how long a slice is
        patience   how many seconds to wait for another caller

        Ctrl-C comes when the slice is over; a step that would go on then is cancelled and waited for.
        """
        if self.is_elsewhere or may_wait() or is_asked():
            return ELSEWHERE  # this thread has another process's session, or runs a kernel of another step
        interrupt = DeferredInterrupt()
        outcome: Any = ELSEWHERE
        try:
            if self._baton.take(patience):
                try:
                    outcome = self._context.run(attempt, self._token, seconds)
                    if isinstance(outcome, UnfinishedStep) and not outcome.stays:
                        outcome = self.start(outcome.run)
                finally:
                    self._baton.give()
        finally:
            interrupt.restore()
            try:
                interrupt.deliver()
            except BaseException:
                if isinstance(outcome, UnfinishedStep):
                    outcome = self.hand_over(outcome, is_cancelled=True)
                if isinstance(outcome, PortalCall):
                    outcome.cancel()
                    outcome.future.exception()
                raise
        return outcome

    def hand_over(self, step: UnfinishedStep, *, is_cancelled: bool = False) -> PortalCall:
        """Have the run go on with a step, or end it if it is cancelled.

        Raises CancelledError if the run has ended; nothing is left of the step then.
        """
        try:
            return self.start(step.run, is_cancelled=is_cancelled)
        except FailedPreconditionError:
            step.abandon()
            raise CancelledError(SESSION_CLOSED) from None

    def go_on_in_place(self, step: UnfinishedStep, seconds: float, *, patience: float = 0.0) -> Any:
        """Run the next slice of a step as `try_in_place`; the run has the rest where that gives ELSEWHERE.

        CancelledError if the session was closed between the slices.
        """
        outcome = self.try_in_place(step.attempt, seconds, patience=patience)
        return self.hand_over(step) if outcome is ELSEWHERE else outcome

    def abandon(self) -> None:
        """Ask the run to end, and do not wait for it: nobody is left who could.

        Nothing is asked at the end of the interpreter: the thread stands still by then, wherever it was, and
        what it had locked stays so.
        """
        if self.is_elsewhere or sys.is_finalizing():
            return
        try:
            self._token.run_sync_soon(self._stop.set)
        except trio.RunFinishedError:
            return

    def close(self) -> None:
        """End the run and its thread; what still runs in it is cancelled."""
        if self._thread.is_alive() and not self.is_elsewhere:
            try:
                self.post(self._stop.set)
            except FailedPreconditionError:
                return
            self._thread.join()


class PortalOwnSession(_Session):
    """A session whose steps may run in place: outside of the run that owns it, while that does nothing."""

    def attempt(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None,
        targets: Sequence[Any],
        token: trio.lowlevel.TrioToken,
        seconds: float,
    ) -> Any:
        """Run a step as `run` does, for so many seconds: its values, a `UnfinishedStep`, ELSEWHERE or LATER.

        LATER if no time is left for a step that could run here.
        """
        if self._remote is not None:
            return ELSEWHERE
        try:
            leaves, pack = unpack(fetches)
            _, feeds, found = self._planning.find(leaves, feed_dict or {}, targets)
            if found is None:
                return ELSEWHERE
            return self._attempt(found, pack, list(feeds.values()), token, seconds)
        except OpError as error:
            self._simplify_error(error)
            raise

    def make_both(
        self, fetches: Any, feeds: Sequence[Any], targets: Sequence[Any]
    ) -> tuple[Callable[..., Awaitable[Any]], Callable[..., Any]]:
        """The function of `make_callable`, and the `attempt` for the same steps; that takes the values."""
        if self._remote is not None:
            return self.make_callable(fetches, feeds, targets), lambda values, token, seconds: ELSEWHERE
        ready = ReadyPlan(self._planning, as_values(self.graph, fetches), feeds, targets)

        def attempt(values: Sequence[Any], token: trio.lowlevel.TrioToken, seconds: float) -> Any:
            try:
                ready.check(values)
                found = ready.at_hand()
                return (
                    ELSEWHERE if found is None else self._attempt(found, ready.pack, values, token, seconds)
                )
            except OpError as error:
                self._simplify_error(error)
                raise

        return self._calling(ready), attempt

    def _attempt(
        self,
        found: PlannedRequest,
        pack: Callable[[list[Any]], Any],
        values: Sequence[Any],
        token: trio.lowlevel.TrioToken,
        seconds: float,
    ) -> Any:
        if self._closed or self._admission is not None or not self.resources.is_bound_to(token):
            return ELSEWHERE
        return begin_in_place(
            *(self._runner, self._planning, found, values, seconds),
            compiles=self._compiles,
            give=lambda results: pack(found.values(self.hand_out(found.prepared.fetches, results))),
            tell=self._simplify_error,
        )


class PortalSession(SessionView):
    """A session whose steps run in a portal of its own: what is alike whoever waits for them."""

    @tracebacks.hides_engine
    def __init__(
        self,
        graph: NodeGraph | None = None,
        *,
        target: str = "",
        config: Config | None = None,
        resources: ResourceManager | None = None,
        kernels: KernelRegistry | None = None,
        devices: DeviceRegistry | None = None,
        placer: Placer | None = None,
    ) -> None:
        self._session = PortalOwnSession(
            graph,
            target=target,
            config=config,
            resources=resources,
            kernels=kernels,
            devices=devices,
            placer=placer,
        )
        self._session._is_behind_another = True
        self._portal: Portal | None = Portal()

    @property
    def graph(self) -> NodeGraph:
        return self._session.graph

    def _shown_graph(self) -> NodeGraph:
        return self._session.graph

    def _state(self) -> str:
        return "closed" if self._portal is None else "open"

    def _facts(self) -> Iterable[tuple[str, object]]:
        return self._session._facts()

    def _holds_open(self) -> bool:
        portal = getattr(self, "_portal", None)
        return portal is not None and not portal.is_elsewhere

    def _abandon(self) -> None:
        if self._portal is not None:
            self._portal.abandon()

    def _open(self) -> Portal:
        if self._portal is None:
            raise FailedPreconditionError("this session is closed: open another")
        return self._portal

    @property
    def costs(self) -> CostModel:
        """See `flowengine.Session.costs`."""
        return self._session.costs

    def statistics(self) -> SessionStatistics:
        """See `flowengine.Session.statistics` and `flowengine.Session`. May be called from any thread."""
        return self._session.statistics()

    @tracebacks.hides_engine
    def extend(self, graph: NodeGraph) -> None:
        """See `flowengine.Session.extend`, and the example of `flowengine.Session`."""
        self._session.extend(graph)

    @tracebacks.hides_engine
    def explain(
        self,
        fetches: Any,
        feeds: Sequence[Any] = (),
        *,
        targets: Sequence[Any] = (),
        dot: bool = False,
        source: bool = False,
        placement: bool = False,
        form: bool = False,
    ) -> str:
        """See `flowengine.Session.explain`, and the example of `flowengine.Session`."""
        return self._session.explain(
            fetches, feeds, targets=targets, dot=dot, source=source, placement=placement, form=form
        )
