"""Which task reads a connection: its own one, or the one that waits for the answer.

A connection is watched by a task of its own. Where one task makes a call after another, that task would be
woken for each answer by the one that reads, a turn of the scheduler later. So the reading task stands back
once it has woken a caller, and the caller reads its next answer itself:

    the reading task reads, wakes a caller, and lends it the role
    the caller returns the role as soon as it goes on; the reading task is woken, and has not run yet
    the caller makes its next call and takes the role again; the reading task, whose turn comes, rests on

When no further call comes at once, the reading task reads on: nothing that arrives stays unread.
"""

from __future__ import annotations

import trio


class ReadingRole:
    """Who reads. At most one task does at any time."""

    __slots__ = ("_holder", "_is_away", "_resting")

    def __init__(self) -> None:
        #: Whose the role is; None for the reading task.
        self._holder: object | None = None
        #: The reading task stands back, or has been woken and has not run since.
        self._is_away = False
        self._resting: trio.lowlevel.Task | None = None

    @property
    def is_free(self) -> bool:
        """Whether a caller may take the role now."""
        return self._is_away and self._holder is None

    def is_held_by(self, holder: object) -> bool:
        """Whether the role is this caller's."""
        return self._holder is holder

    def take(self, holder: object) -> None:
        """A caller reads from now on, or will when it goes on. It returns the role soon."""
        self._holder = holder

    def give_back(self) -> None:
        """The reading task is to read on."""
        self._holder = None
        task, self._resting = self._resting, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    async def stand_back(self) -> None:
        """The reading task: wait while the role is another's. Cancelled, it leaves nothing behind."""
        self._is_away = True
        while self._holder is not None:
            self._resting = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._stop_resting)
        self._is_away = False

    def _stop_resting(self, _: object) -> trio.lowlevel.Abort:
        self._resting = None
        return trio.lowlevel.Abort.SUCCEEDED


__all__ = ["ReadingRole"]
