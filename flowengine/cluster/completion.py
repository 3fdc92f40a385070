"""A wait for the end of an operation, with its result or its error."""

from __future__ import annotations

from typing import Any

import trio

from flowengine.runtime.taskless import Cancellable
from flowengine.runtime.turns import current_turns


class Completion:
    """The end of an operation, and the trio task that waits for it."""

    __slots__ = ("_error", "_is_settled", "_result", "_task")

    def __init__(self) -> None:
        self._task: trio.lowlevel.Task | None = None
        self._is_settled = False
        self._result: Any = None
        self._error: BaseException | None = None

    def settle(self, result: Any, error: BaseException | None) -> None:
        """Record the end of the operation, and wake the waiting task. Called once."""
        self._is_settled = True
        self._result, self._error = result, error
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    async def wait(self, running: Cancellable) -> Any:
        """Wait for the result and return it, or raise its error.

        If the wait is cancelled, it cancels the operation, and raises when the operation has ended.
        """
        if self._is_settled:
            # A host that runs one step after another still gets its turn.
            await current_turns().rest()
        else:
            try:
                await self._sleep()
            except BaseException:
                running.cancel()
                with trio.CancelScope(shield=True):
                    while not self._is_settled:
                        await self._sleep()
                raise
        if self._error is not None:
            raise self._error
        result, self._result = self._result, None
        return result

    async def _sleep(self) -> None:
        def abort(_: object) -> trio.lowlevel.Abort:
            self._task = None
            return trio.lowlevel.Abort.SUCCEEDED

        self._task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(abort)


__all__ = ["Completion"]
