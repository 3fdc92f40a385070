"""`fe.blocking.Stepper`: look at a step from a script or a notebook."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

import trio

from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError
from flowengine.tools.debugging.stepper import Condition
from flowengine.tools.debugging.stepper import Stepper as AsyncStepper
from flowengine.tools.debugging.visited import VisitedNode

if TYPE_CHECKING:
    from flowengine.portal import PortalCall


class Stepper:
    """A `flowengine.debug.Stepper` behind plain calls; arguments, results and errors are the same.

    Use it with `with`, and with a `fe.blocking.Session`. Conditions are called on the thread that runs the
    session's steps. Ctrl-C while a call waits ends the call; the step stays as it is.

    >>> graph = fe.Graph()
    >>> x = graph.placeholder("float32", [2], name="x")
    >>> y = fe.exp(fe.log(x, name="log"), name="exp")
    >>> with fe.blocking.Session(graph) as session:
    ...     with fe.blocking.Stepper(session, y, {x: [1.0, 2.0]}) as stepper:
    ...         print(stepper.node.name)
    ...         print(stepper.go_on("exp").inputs)
    ...         print(stepper.finish(), stepper.node)
    log
    (array([0.       , 0.6931472], dtype=float32),)
    [1. 2.] None
    """

    def __init__(
        self,
        session: Any,
        fetches: Any,
        feeds: Mapping[Any, Any] | None = None,
        *,
        targets: Sequence[Any] = (),
    ) -> None:
        portal = getattr(session, "_open", None)
        if portal is None:
            raise InvalidArgumentError(
                f"fe.blocking.Stepper takes a fe.blocking.Session, not {session!r}: in a trio program, use "
                "fe.debug.Stepper with a fe.Session"
            )
        self._portal = portal()
        self._stepper = AsyncStepper(session._session, fetches, feeds, targets=targets)
        self._running: PortalCall | None = None
        self._leave: trio.Event | None = None

    @property
    def node(self) -> VisitedNode | None:
        """The node before which the step has stopped."""
        return self._stepper.node

    @property
    def ran(self) -> VisitedNode | None:
        """The node that ran last."""
        return self._stepper.ran

    @property
    def has_ended(self) -> bool:
        """Whether the step has ended, well or not."""
        return self._stepper.has_ended

    def step(self, count: int = 1) -> VisitedNode | None:
        """Run `count` nodes; see `flowengine.debug.Stepper.step`."""
        return cast("VisitedNode | None", self._call(lambda: self._stepper.step(count)))

    def go_on(self, until: str | Sequence[str] = (), *, when: Condition | None = None) -> VisitedNode | None:
        """Run on until a node is next; see `flowengine.debug.Stepper.go_on`."""
        return cast("VisitedNode | None", self._call(lambda: self._stepper.go_on(until, when=when)))

    def finish(self) -> Any:
        """Run to the end of the step, and return its values; see `flowengine.debug.Stepper.finish`."""
        return self._call(self._stepper.finish)

    def check(self, until: str) -> None:
        """Check a name for `go_on`; see `flowengine.debug.Stepper.check`."""
        self._stepper.check(until)

    def _call(self, function: Callable[[], Awaitable[Any]]) -> Any:
        return self._portal.call(function)

    def __enter__(self) -> Stepper:
        started: Future[None] = Future()

        async def hold() -> None:
            async with self._stepper:
                self._leave = trio.Event()
                started.set_result(None)
                await self._leave.wait()

        running = self._portal.start(hold)
        wait([started, running.future], return_when=FIRST_COMPLETED)
        if not started.done():
            running.future.result()
        self._running = running
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        running, self._running = self._running, None
        if running is None or self._leave is None:
            return
        with suppress(FailedPreconditionError):  # the session may have been closed, and its run with it
            self._portal.post(self._leave.set)
        wait([running.future])


__all__ = ["Stepper"]
