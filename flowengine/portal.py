"""A trio run on a thread of its own, into which other threads and event loops call.

`blocking.Session` and `asyncio.Session` are thin façades over it: one portal a session, so that the
session's resource manager has one trio run for its whole life.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any

import trio

from flowengine.core.errors import FailedPreconditionError


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
            self.future.set_exception(trio.RunFinishedError("the session was closed"))
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
        self._thread = threading.Thread(
            target=trio.run, args=(self._main, started), name="flowengine portal", daemon=True
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
            raise FailedPreconditionError("this session is closed") from None

    @property
    def is_elsewhere(self) -> bool:
        """Whether this process is a fork of the one that the portal was opened in."""
        return os.getpid() != self._process

    def start(self, function: Callable[[], Awaitable[Any]]) -> PortalCall:
        """Run a coroutine function in the portal; returns at once."""
        call = PortalCall(self)
        assert self._nursery is not None
        self.post(self._nursery.start_soon, call.run, function)
        return call

    def call(self, function: Callable[[], Awaitable[Any]]) -> Any:
        """Run it and wait for its result. Interrupted (Ctrl-C), the call is cancelled and waited for."""
        call = self.start(function)
        try:
            return call.future.result()
        except BaseException:
            if not call.future.done():
                call.cancel()
                call.future.exception()
            raise

    def abandon(self) -> None:
        """Ask the run to end, and do not wait for it: nobody is left who could."""
        if self.is_elsewhere:
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
