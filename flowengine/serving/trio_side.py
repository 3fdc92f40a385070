"""The trio program behind a server: called from trio where it runs, from asyncio over a portal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

import trio

from flowengine.core.errors import FailedPreconditionError
from flowengine.portal import Portal, PortalCall
from flowengine.serving.event_loops import runs_on_trio
from flowengine.serving.requests import ClientGone

#: A call that takes longer than so many seconds is watched: if its client hangs up, it is cancelled.
_UNWATCHED: Final = 0.005


class TrioSide:
    """A trio program of a server that runs on trio or on asyncio.

    program   what runs from entering to leaving, as for `nursery.start`; it is cancelled at the end

    Entering it decides: in a trio program it runs in place, in an asyncio program in a portal's thread.
    Raises what the program raises before it has started.
    """

    def __init__(self, program: Callable[..., Awaitable[None]]) -> None:
        self._program = program
        self._portal: Portal | None = None
        self._running: PortalCall | None = None
        self._nursery: Any = None
        self._scope: trio.CancelScope | None = None

    async def __aenter__(self) -> Self:
        if runs_on_trio():
            self._nursery = trio.open_nursery()
            nursery = await self._nursery.__aenter__()
            self._scope = nursery.cancel_scope
            await nursery.start(self._program)
            return self
        import asyncio

        self._portal = Portal()
        started: Future[None] = Future()
        self._running = self._portal.start(partial(self._run, started))
        try:
            await asyncio.wrap_future(started)
        except BaseException:
            self._portal.close()
            raise
        return self

    async def _run(self, started: Future[None]) -> None:
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(self._program)
                started.set_result(None)
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
            raise

    async def call(self, function: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        """Call a trio coroutine function; cancelled, it cancels the call and waits until that has ended."""
        if self._portal is None:
            if self._scope is None:
                raise FailedPreconditionError("the server's models are not running: enter the application")
            return await function(*args)
        from flowengine.asyncio import finish

        return await finish(self._portal.start(partial(function, *args)))

    async def call_unless(
        self, gone: Callable[[], Awaitable[None]], function: Callable[..., Awaitable[Any]], *args: Any
    ) -> Any:
        """Call a trio coroutine function, and cancel it when `gone` returns; ClientGone then.

        `gone` runs on the server's own event loop.
        """
        if self._portal is None:
            return await self._call_in_trio(gone, function, *args)
        import asyncio

        call = self._portal.start(partial(function, *args))
        work = asyncio.wrap_future(call.future)
        watch: asyncio.Future[None] | None = None
        try:
            # A quick call is not watched: that would cost a task of its own.
            await asyncio.wait([work], timeout=_UNWATCHED)
            if not work.done():
                watch = asyncio.ensure_future(gone())
                await asyncio.wait([work, watch], return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
        finally:
            if watch is not None:
                watch.cancel()
                await asyncio.gather(watch, return_exceptions=True)
            if not work.done():
                call.cancel()
                while not work.done():  # however often this task is cancelled
                    with suppress(asyncio.CancelledError):
                        await asyncio.wait([work])
                if not work.cancelled():
                    work.exception()  # that it was cancelled is no news
        raise ClientGone

    async def _call_in_trio(
        self, gone: Callable[[], Awaitable[None]], function: Callable[..., Awaitable[Any]], *args: Any
    ) -> Any:
        outcome: list[Any] = []
        failure: list[Exception] = []

        async def work(scope: trio.CancelScope) -> None:
            try:
                outcome.append(await self.call(function, *args))
            except Exception as error:
                failure.append(error)
            scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(work, nursery.cancel_scope)
            await gone()
            nursery.cancel_scope.cancel()
        if failure:
            raise failure[0]
        if outcome:
            return outcome[0]
        raise ClientGone

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._portal is None:
            assert self._scope is not None
            self._scope.cancel()
            await self._nursery.__aexit__(kind, error, trace)
            self._scope = None
            return
        from flowengine.asyncio import finish

        portal, self._portal = self._portal, None
        assert self._running is not None
        self._running.cancel()
        try:
            await finish(self._running)
        except trio.RunFinishedError:
            pass  # how a cancelled call ends
        finally:
            portal.close()
