"""Concurrent calls: all of them end; the first error cancels the others and is raised."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

import trio

from flowengine.core.errors import OpError


async def together(calls: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """Call coroutine functions concurrently and wait for all. Raises the first OpError alone."""
    errors: list[OpError] = []
    async with trio.open_nursery() as nursery:

        async def call_one(call: Callable[[], Awaitable[object]]) -> None:
            try:
                await call()
            except OpError as error:
                errors.append(error)
                nursery.cancel_scope.cancel()

        for call in calls:
            nursery.start_soon(call_one, call)
    if errors:
        raise errors[0]


__all__ = ["together"]
