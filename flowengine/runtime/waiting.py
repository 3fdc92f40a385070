"""Waiting: how a step sleeps and is woken, in a task or without one, and items that wait for variables."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from time import perf_counter
from typing import Any

import trio

from flowengine.resources.variable import Variable
from flowengine.runtime.frames import IterationState
from flowengine.runtime.planning.items import Item
from flowengine.runtime.state import ExecutorState
from flowengine.runtime.turn_queue import Ticket
from flowengine.runtime.turns import Turns


class Sleeper:
    """A place for one step's task to sleep."""

    __slots__ = ("_task",)

    def __init__(self) -> None:
        self._task: trio.lowlevel.Task | None = None

    async def sleep(self) -> None:
        """Sleep until `wake`. If cancelled, it leaves nothing behind."""
        self._task = trio.lowlevel.current_task()

        def abort(_: Any) -> trio.lowlevel.Abort:
            self._task = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def wake(self) -> None:
        """Wake the step."""
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)


class TurnCaller:
    """Work in turns without a task, called by the bringer of an awaited value."""

    _turns: Turns
    #: Its place in line, while it stands there.
    _place: Ticket | None = None

    def run_in_turn(self) -> None:
        """Run the ready items."""
        raise NotImplementedError

    def _go(self) -> None:
        """Run the ready items, now or in the next turn."""
        turns = self._turns
        if perf_counter() < turns.line.serves_until or turns.serves():
            self.run_in_turn()
        else:
            self._defer()

    def _defer(self) -> None:
        self._place = Ticket()
        self._turns.defer(self._place, self.run_in_turn)

    def _go_at_once(self) -> None:
        """Leave the line, if it stands there: there is little left to run."""
        if self._place is not None:
            self._turns.withdraw(self._place)
            self.run_in_turn()


class ParkedItems:
    """Items of a step that wait until no thread writes a variable."""

    __slots__ = ("_callbacks", "_state")

    def __init__(self, state: ExecutorState) -> None:
        self._state = state
        #: Withdraws the request to be woken.
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
        """Make an item ready when the variable is free; `arrives` has the executor's owner do that."""

        def unpark() -> None:
            if self._callbacks.pop(callback, None) is not None:
                heappush(self._state.ready, (item.order, iteration.serial, item, iteration))

        def callback() -> None:
            arrives(unpark)

        self._callbacks[callback] = variable
        variable.wait_free(callback)

    def forget(self) -> None:
        """End the step: no item is woken any more."""
        for callback, variable in tuple(self._callbacks.items()):
            variable.forget(callback)
        self._callbacks.clear()


__all__ = ["ParkedItems", "Sleeper", "TurnCaller"]
