"""Portals and event loops wake each other once for all that has come, not once for each call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

import flowengine as fe
from flowengine.asyncio import LoopInbox
from flowengine.portal import Portal


def test_outcomes_that_come_together_wake_the_loop_once(monkeypatch: pytest.MonkeyPatch) -> None:
    posted = []

    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        wake = loop.call_soon_threadsafe

        def count(callback: Callable[..., object], *args: Any, **given: Any) -> Any:
            posted.append(callback)
            return wake(callback, *args, **given)

        monkeypatch.setattr(loop, "call_soon_threadsafe", count)
        inbox, futures = LoopInbox(loop), [Future[int]() for _ in range(9)]
        waiting = [inbox.waiting_for(each) for each in futures]
        found: list[Any] = []

        def settle() -> None:
            for number, future in enumerate(futures):
                if number == 4:
                    future.set_exception(fe.errors.OutOfRangeError("ended"))
                else:
                    future.set_result(number)

        for _ in range(2):  # the loop does not go round meanwhile
            thread = threading.Thread(target=settle)
            thread.start()
            thread.join()
            found = await asyncio.gather(*waiting, return_exceptions=True)
            futures = [Future[int]() for _ in range(9)]
            waiting = [inbox.waiting_for(each) for each in futures]
        return found

    found = asyncio.run(main())
    assert [each for each in found if isinstance(each, int)] == [0, 1, 2, 3, 5, 6, 7, 8]
    assert isinstance(found[4], fe.errors.OutOfRangeError)
    assert len(posted) == 2


def test_an_outcome_for_a_loop_that_is_closed_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    future: Future[int] = Future()

    async def main() -> tuple[asyncio.AbstractEventLoop, asyncio.Future[int]]:
        loop = asyncio.get_running_loop()
        return loop, LoopInbox(loop).waiting_for(future)

    _, waiting = asyncio.run(main())
    future.set_result(1)
    assert not waiting.done()
    assert not caplog.records  # of the callback


def test_calls_that_are_posted_together_wake_the_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    portal = Portal()
    held, goes_on = threading.Event(), threading.Event()
    ran: list[int] = []

    def hold() -> None:
        held.set()
        goes_on.wait()

    portal.post(hold)
    held.wait()
    woken = []
    wake = portal._token.run_sync_soon

    class Token:
        def run_sync_soon(self, function: Callable[..., object], *args: Any) -> None:
            woken.append(function)
            wake(function, *args)

    monkeypatch.setattr(portal, "_token", Token())
    done = threading.Event()
    for number in range(9):
        portal.post(ran.append, number)
    portal.post(done.set)
    goes_on.set()
    assert done.wait(60)
    assert ran == list(range(9))
    assert len(woken) == 1
    portal.close()
    with pytest.raises(fe.errors.FailedPreconditionError, match="closed"):
        portal.post(ran.append, 9)
    assert ran == list(range(9))
