"""The tasks of a process in a box that run the host's steps: each waits for the next step when one is over.

To make a task for a step, and a scope for its time, costs as much as a small step does. So tasks and their
scopes are used again, and one task watches the time of all.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio

from flowengine.core.errors import CancelledError, DeadlineExceededError, ResourceExhaustedError
from flowengine.runtime.turns import Turns, current_turns
from flowengine.transport.calls.service import Answer, Reply

#: How often it is looked at whether steps that were given up have ended.
_IDLE_LOOK_SECONDS: Final = 0.002
#: Tasks that wait for a step at most.
_IDLE_MAX: Final = 8


class StepCall:
    """A step that was asked for. It is answered once, unless the connection ends.

    run     what runs it
    error   what it ends with where its scope is cancelled
    """

    __slots__ = ("answer", "error", "run", "scope", "seconds")

    def __init__(self, run: Callable[[], Awaitable[Reply]], seconds: float, answer: Answer) -> None:
        self.run = run
        self.seconds = seconds
        self.answer = answer
        #: That of its task; None before it runs and when it is over.
        self.scope: trio.CancelScope | None = None
        self.error: Exception | None = None

    def cancel(self) -> None:
        """The host gives it up. Without effect on what is over."""
        self._end(CancelledError("the caller gave the step up"))

    def end_late(self) -> None:
        """Its time is over."""
        self._end(DeadlineExceededError(f"the step did not end within {self.seconds:g} s"))

    def _end(self, error: Exception) -> None:
        if self.error is None:
            self.error = error
        if self.scope is not None:
            self.scope.cancel()


class StepTasks:
    """Runs steps in tasks of a nursery."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._turns = current_turns()
        self._idle: list[_StepTask] = []
        #: {step that has not ended: when its time is over}
        self._due: dict[StepCall, float] = {}
        #: Until the first of them is late; around a nap that ends when one that is known of may be late.
        self._nap = trio.CancelScope()
        nursery.start_soon(self._watch)

    def begin(self, call: StepCall) -> None:
        """Run a step, in a task that has none or in a new one."""
        due = self._due[call] = trio.current_time() + call.seconds
        if due < self._nap.deadline:
            self._nap.deadline = due
        if self._idle:
            self._idle.pop().give(call)
        else:
            self._nursery.start_soon(_StepTask(self._idle, self._due, self._turns).serve, call)

    async def wait_idle(self) -> None:
        """Wait until no step runs."""
        while self._due:  # noqa: ASYNC110 (rare, and no step is to pay for it)
            await trio.sleep(_IDLE_LOOK_SECONDS)

    async def _watch(self) -> None:
        while True:
            with self._nap:
                await trio.sleep_forever()
            now = trio.current_time()
            for call, due in tuple(self._due.items()):
                if due <= now:
                    call.end_late()
                    self._due[call] = math.inf
            self._nap = trio.CancelScope(deadline=min(self._due.values(), default=math.inf))


class _StepTask:
    """A task that runs one step after another."""

    __slots__ = ("_due", "_idle", "_next", "_task", "_turns")

    def __init__(self, idle: list[_StepTask], due: dict[StepCall, float], turns: Turns) -> None:
        self._idle = idle
        self._due = due
        self._turns = turns
        self._next: StepCall | None = None
        self._task: trio.lowlevel.Task | None = None

    def give(self, call: StepCall) -> None:
        """It has no step: it runs this one."""
        task, self._task, self._next = self._task, None, call
        assert task is not None, "a step was given to a task that has one"
        trio.lowlevel.reschedule(task)

    async def serve(self, call: StepCall) -> None:
        """Run this step, and those that are given."""
        self._next = call
        del call
        while True:
            # Steps share a scope until one of them is cancelled.
            with trio.CancelScope() as scope:
                while not scope.cancel_called:
                    if self._next is None:
                        if len(self._idle) >= _IDLE_MAX:
                            return
                        await self._wait()
                    await self._run(scope)

    async def _run(self, scope: trio.CancelScope) -> None:
        call, self._next = self._next, None
        assert call is not None, "a task was woken without a step"
        reply: Reply | None = None
        call.scope = scope
        try:
            if call.error is None:
                # As a step without a task does: it begins in the pass in which it came.
                self._turns.serves()
                reply = await call.run()
        except MemoryError as raised:
            call.error = ResourceExhaustedError(f"the step needed more memory than there is: {raised}")
        except Exception as raised:
            call.error = raised
        finally:
            call.scope = None
            self._due.pop(call, None)
            error = call.error if reply is None else None
            if reply is not None or error is not None:
                call.answer(reply, error)
            call.error = None
            del call, error  # they know each other's frames

    async def _wait(self) -> None:
        self._task = trio.lowlevel.current_task()
        self._idle.append(self)
        await trio.lowlevel.wait_task_rescheduled(self._leave)

    def _leave(self, _: Any) -> trio.lowlevel.Abort:
        self._idle.remove(self)
        return trio.lowlevel.Abort.SUCCEEDED


__all__ = ["StepCall", "StepTasks"]
