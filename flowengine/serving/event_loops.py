"""The event loop of the server, trio's or asyncio's: what is written for both."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import trio

T = TypeVar("T")


def runs_on_trio() -> bool:
    """Return whether the caller's event loop is trio's."""
    import sniffio  # which trio brings along

    return sniffio.current_async_library() == "trio"


async def within(seconds: float, function: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Call a coroutine function; TimeoutError when the time is over."""
    if runs_on_trio():
        try:
            with trio.fail_after(seconds):
                return await function(*args)
        except trio.TooSlowError:
            raise TimeoutError from None
    import asyncio

    async with asyncio.timeout(seconds):
        return await function(*args)


async def turn_of_others() -> None:
    """Let the event loop go round once."""
    if runs_on_trio():
        await trio.lowlevel.checkpoint()
        return
    import asyncio

    await asyncio.sleep(0)


__all__ = ["runs_on_trio", "turn_of_others", "within"]
