"""Waiting: how a step sleeps and is woken, in a task of its own or without one."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from typing import Any

import trio

from flowengine.resources.variable import Variable
from flowengine.runtime.frames import IterationState
from flowengine.runtime.items import Item
from flowengine.runtime.state import ExecutorState


class Sleeper:
    """Where one step waits: its task, or who is called in its place.

    listener   called when there may be more to run, where no task waits
    """

    __slots__ = ("_task", "listener")

    def __init__(self) -> None:
        self._task: trio.lowlevel.Task | None = None
        self.listener: Callable[[], None] | None = None

    async def sleep(self) -> None:
        """Sleep until `wake`. Cancelled, it leaves nothing behind."""
        self._task = trio.lowlevel.current_task()

        def abort(_: Any) -> trio.lowlevel.Abort:
            self._task = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def wake(self) -> None:
        """Something has happened for the step."""
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)
        elif self.listener is not None:
            self.listener()


class ParkedItems:
    """Items of a step that wait until nobody writes a variable."""

    __slots__ = ("_callbacks", "_state")

    def __init__(self, state: ExecutorState) -> None:
        self._state = state
        #: What takes back the wish to be woken.
        self._callbacks: dict[Callable[[], None], Variable] = {}

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def add(
        self,
        item: Item,
        iteration: IterationState,
        variable: Variable,
        arrives: Callable[[Callable[[], None]], None],
    ) -> None:
        """Make an item ready when the variable is free; `arrives` has that done by who has the executor."""

        def unpark() -> None:
            if self._callbacks.pop(callback, None) is not None:
                heappush(self._state.ready, (item.order, iteration.serial, item, iteration))

        def callback() -> None:
            arrives(unpark)

        self._callbacks[callback] = variable
        variable.wait_free(callback)

    def forget(self) -> None:
        """The step ends: nobody is to be woken."""
        for callback, variable in tuple(self._callbacks.items()):
            variable.forget(callback)
        self._callbacks.clear()


__all__ = ["ParkedItems", "Sleeper"]
