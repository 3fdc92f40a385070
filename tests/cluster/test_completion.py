"""Whoever waits for what was begun has its end: a result, an error, or that it was cancelled and is over."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from flowengine.cluster.completion import Completion
from flowengine.core.errors import AbortedError


class Running:
    """An operation that has begun; it counts how often it was cancelled."""

    def __init__(self) -> None:
        self.cancelled = 0

    def cancel(self) -> None:
        self.cancelled += 1


@pytest.mark.parametrize("is_late", [False, True])
async def test_the_result_comes_once_it_is_there(is_late: bool) -> None:
    completion, running = Completion(), Running()
    if not is_late:
        completion.settle([7], None)
    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            assert await completion.wait(running) == [7]

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        if is_late:
            completion.settle([7], None)
    assert not running.cancelled


@pytest.mark.parametrize("is_late", [False, True])
async def test_an_error_is_raised(is_late: bool) -> None:
    completion, running, error = Completion(), Running(), AbortedError("gone")
    if not is_late:
        completion.settle(None, error)
    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            with pytest.raises(AbortedError) as caught:
                await completion.wait(running)
            assert caught.value is error

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        if is_late:
            completion.settle(None, error)


async def test_what_ends_as_it_is_cancelled_wakes_nobody_twice() -> None:
    """A cancelled waiter no longer sleeps by then: its operation is over, and it goes on by itself."""
    completion = Completion()

    class Ending(Running):
        def cancel(self) -> None:
            super().cancel()
            completion.settle(None, AbortedError("given up"))

    running = Ending()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(completion.wait, running)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    assert scope.cancelled_caught
    assert running.cancelled == 1


async def test_who_is_cancelled_waits_until_it_is_over() -> None:
    completion, running = Completion(), Running()
    left: list[bool] = []
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def wait() -> None:
            with scope:
                await completion.wait(running)
            left.append(scope.cancelled_caught)

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert running.cancelled == 1
        assert not left
        completion.settle(None, AbortedError("given up"))
    assert left == [True]
