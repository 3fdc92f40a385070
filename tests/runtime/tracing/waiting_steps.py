"""Steps that wait: a test goes on when one does, however busy the machine is."""

from __future__ import annotations

import trio.testing

import flowengine as fe


async def until_one_waits(session: fe.Session) -> None:
    """Return when a step of the session waits for a resource.

    Planning, and what a hook does before a step, may be on a thread, where `wait_all_tasks_blocked` does not
    see it.
    """
    while not any(
        getattr(step, "async_running", 0) or getattr(step, "parked", None) for step in session._runner.running
    ):
        await trio.testing.wait_all_tasks_blocked(0.001)
    await trio.testing.wait_all_tasks_blocked()
