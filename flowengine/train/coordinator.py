"""Coordinator: tasks that stop together, and one error at the end.

    async with fe.train.Coordinator() as coordinator:
        coordinator.start(watch_disk, path)
        while not coordinator.should_stop():
            await session.run("train")

Whoever has enough asks for a stop; everybody else looks, or waits for it. The first error is the one that the
block raises; an end of input counts as a stop and not as an error. After a stop without an error, errors of
the block's steps are not told, whose queues may have been closed by it; its other errors are.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, Final

import trio

from flowengine.core.errors import FailedPreconditionError, OpError, OutOfRangeError

#: How long tasks may take to stop by themselves before they are cancelled. A pipeline stops when its queues
#: are closed, within one step; what takes longer is stuck or waits for something that nobody closes.
STOP_GRACE_SECONDS: Final = 10.0


class Coordinator:
    """Lets a group of tasks, and the block that it is entered for, end together.

    clean_stop_exception_types   errors that are a way of saying "no more": they stop and are not raised
    stop_grace_period_seconds    from the request to stop until tasks that still run are cancelled

    As a context it runs the tasks of `start`. When the block ends a stop is requested and the tasks are
    waited for. When a task fails, the block is cancelled; the block then raises the task's error. Without
    being entered it is a flag with an error, for tasks that run elsewhere.

    >>> async def worker(coordinator):
    ...     while not coordinator.should_stop():
    ...         await trio.sleep(0)
    >>> async def main():
    ...     async with fe.train.Coordinator() as coordinator:
    ...         coordinator.start(worker, coordinator)
    ...         coordinator.request_stop()
    ...         await coordinator.wait_for_stop()
    >>> trio.run(main)

    Raises FailedPreconditionError for `start` before it is entered.
    """

    def __init__(
        self,
        clean_stop_exception_types: tuple[type[Exception], ...] = (OutOfRangeError,),
        *,
        stop_grace_period_seconds: float = STOP_GRACE_SECONDS,
    ) -> None:
        self._clean = tuple(clean_stop_exception_types)
        self._grace = stop_grace_period_seconds
        self._stop = trio.Event()
        self._error: BaseException | None = None
        self._joined = False
        self._nursery: trio.Nursery | None = None
        self._running = 0
        self._idle = trio.Event()
        self._body: trio.CancelScope | None = None
        self._context: AbstractAsyncContextManager[Coordinator] | None = None

    # -- the flag ------------------------------------------------------------------------------------

    def should_stop(self) -> bool:
        """Whether a stop was requested. May be asked from any thread."""
        return self._stop.is_set()

    def request_stop(self, error: BaseException | None = None) -> None:
        """Ask everybody to stop; the first request's error, unless it is a clean end, is raised at the end.

        After the block has ended, an error is raised here, since nobody else would.
        """
        error = self._filtered(error)
        if self._joined and error is not None:
            raise error
        if self._stop.is_set():
            return
        self._error = error
        self._stop.set()
        if error is not None and self._body is not None:
            self._body.cancel()

    def clear_stop(self) -> None:
        """Forget a stop and its error; FailedPreconditionError while the tasks of a block still run."""
        if self._nursery is not None:
            raise FailedPreconditionError(
                "clear_stop: the coordinator's block has not ended: call it afterwards"
            )
        self._stop = trio.Event()
        self._error = None
        self._joined = False

    async def wait_for_stop(self) -> None:
        """Wait until a stop is requested."""
        await self._stop.wait()

    def raise_requested_exception(self) -> None:
        """Raise the error that a stop was requested with, if any."""
        if self._error is not None:
            raise self._error

    @property
    def joined(self) -> bool:
        """Whether the block has ended and everything in it."""
        return self._joined

    @contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """Turn an exception in this block into a request to stop, which goes no further."""
        try:
            yield
        except Exception as error:
            self.request_stop(error)

    def _filtered(self, error: BaseException | None) -> BaseException | None:
        """The error, without what only says that there is no more; None where nothing is left."""
        if error is None or isinstance(error, self._clean):
            return None
        if isinstance(error, BaseExceptionGroup):
            rest: BaseException | None = error.split(self._clean)[1] if self._clean else error
            return rest
        return error

    # -- tasks ---------------------------------------------------------------------------------------

    def start(self, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        """Run a coroutine function beside the block; what it raises is a request to stop.

        FailedPreconditionError outside of the block.
        """
        if self._nursery is None:
            raise FailedPreconditionError("start: enter the coordinator first, with `async with`")
        self._running += 1
        self._idle = trio.Event() if self._idle.is_set() else self._idle
        self._nursery.start_soon(self._run, function, args)

    async def _run(self, function: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> None:
        try:
            await function(*args)
        except Exception as error:
            self.request_stop(error)
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    async def __aenter__(self) -> Coordinator:
        if self._nursery is not None:
            raise FailedPreconditionError("this coordinator has been entered already")
        self._context = self._block()
        return await self._context.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._context is not None
        return await self._context.__aexit__(kind, error, trace)

    @asynccontextmanager
    async def _block(self) -> AsyncGenerator[Coordinator]:
        raised: BaseException | None = None
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                try:
                    with trio.CancelScope() as self._body:
                        if self._stop.is_set() and self._error is not None:
                            self._body.cancel()
                        yield self
                except BaseException as error:
                    raised = error
                self._body = None
                self.request_stop(raised if isinstance(raised, Exception) else None)
                if self._running:
                    with trio.move_on_after(self._grace):
                        await self._idle.wait()
                nursery.cancel_scope.cancel()
        finally:
            self._nursery = None
            self._joined = True
        if raised is not None and not isinstance(raised, Exception):
            raise raised  # cancelled from outside, or interrupted: that goes on
        if self._error is not None:
            raise self._error
        own = self._filtered(raised)
        if own is not None and not isinstance(own, OpError):
            raise own  # no step's that ended with its queues: the stop is not why
