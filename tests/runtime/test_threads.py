"""The way from worker threads back to the event loop."""

from __future__ import annotations

import trio

from flowengine.runtime.threads import current_inbox


def test_a_run_of_trio_has_one_inbox() -> None:
    """One for all that is computed in it, served by one task; the next run has its own."""
    found = []

    async def look() -> None:
        before = trio.lowlevel.current_statistics().tasks_living
        found.append(current_inbox())
        assert current_inbox() is found[-1]
        assert trio.lowlevel.current_statistics().tasks_living == before + 1

    for _ in range(2):
        trio.run(look)
    assert found[0] is not found[1]
