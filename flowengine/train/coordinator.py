"""Coordinator: tasks that stop together, and one error at the end.

    async with fe.train.Coordinator() as coordinator:
        coordinator.start(watch_disk, path)
        while not coordinator.should_stop():
            await session.run("train")

A task requests a stop; the others check for it, or wait for it. The block raises the first error; an end of
input counts as a stop and not as an error. After a stop without an error the block does not raise the errors
of its steps, whose queues the stop may have closed; it raises its other errors.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, Final

import trio

from flowengine.core.errors import FailedPreconditionError, OpError, OutOfRangeError

#: How long tasks may take to stop by themselves before they are cancelled. A pipeline stops when its queues
#: are closed, within one step; a task that takes longer is stuck or waits for a queue that stays open.
STOP_GRACE_SECONDS: Final = 10.0


class Coordinator:
    """A coordinator of tasks that stop together with the block that it is entered for.

    clean_stop_exception_types   errors that mean an end of input: they request a stop and are not raised
    stop_grace_period_seconds    the time from the request until tasks that still run are cancelled

    As a context it runs the tasks of `start`. When the block ends, it requests a stop and waits for the
    tasks. When a task fails, it cancels the block, which then raises the task's error. Without being entered
    it is a flag with an error, for tasks that run elsewhere.

    >>> async def worker(coordinator):
    ...     while not coordinator.should_stop():
    ...         await trio.sleep(0)
    >>> async def main():
    ...     async with fe.train.Coordinator() as coordinator:
    ...         coordinator.start(worker, coordinator)
    ...         coordinator.request_stop()
    ...         await coordinator.wait_for_stop()
    ...     coordinator.clear_stop()  # so that it can be entered again
    ...     with coordinator.stop_on_exception():
    ...         raise OSError("disk is full")
    ...     try:
    ...         coordinator.raise_requested_exception()
    ...     except OSError as error:
    ...         print(error)
    >>> trio.run(main)
    disk is full

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
        """Whether a stop was requested. May be called from any thread."""
        return self._stop.is_set()

    def request_stop(self, error: BaseException | None = None) -> None:
        """Request a stop; the block raises the `error` of the first request, unless it is a clean end.

        After the block has ended, this call raises the error.
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
        """Reset the stop and its error; FailedPreconditionError while the tasks of a block still run."""
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
        """Raise the error of the stop request, if it had one."""
        if self._error is not None:
            raise self._error

    @property
    def joined(self) -> bool:
        """Whether the block and all its tasks have ended."""
        return self._joined

    @contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """Return a context that turns an exception of its block into a request to stop."""
        try:
            yield
        except Exception as error:
            self.request_stop(error)

    def _filtered(self, error: BaseException | None) -> BaseException | None:
        """Return the error without clean ends of input; None if nothing is left."""
        if error is None or isinstance(error, self._clean):
            return None
        if isinstance(error, BaseExceptionGroup):
            rest: BaseException | None = error.split(self._clean)[1] if self._clean else error
            return rest
        return error

    # -- tasks ---------------------------------------------------------------------------------------

    def start(self, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        """Run a coroutine function with `args` beside the block; an error of it requests a stop.

        Raises FailedPreconditionError outside of the block.
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
            raise raised  # cancelled from outside, or interrupted
        if self._error is not None:
            raise self._error
        own = self._filtered(raised)
        if own is not None and not isinstance(own, OpError):
            raise own  # not the error of a step whose queues the stop closed
