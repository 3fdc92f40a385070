"""How long something takes by the ticks of the event loop that it runs on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import trio

_TICK_SECONDS: Final = 0.01


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Assert that the body ends in time, by ticks of a hundredth of a second.

    One that comes late counts as one: what a busy machine takes from the loop is not the body's.
    """
    ticks = 0
    scope = trio.CancelScope()

    async def tick() -> None:
        nonlocal ticks
        with scope:
            while True:
                await trio.sleep(_TICK_SECONDS)
                ticks += 1

    trio.lowlevel.spawn_system_task(tick)
    try:
        yield
    finally:
        scope.cancel()
    assert ticks * _TICK_SECONDS <= seconds
