"""Steps in place: a step that needs no waiting runs in the thread of its caller, and no other takes part.

The run of a portal holds a lock, the *baton*, except while it waits for I/O. A caller on another thread that
gets the baton may therefore do what the run's own thread does for a step: nothing of that run executes
meanwhile. Only a plan that can neither wait nor wake anybody qualifies (`planning/never_waiting.py`), because to wake a
task outside of its run loses the wake-up. What turns out to take longer than one slice, or meets a heavy
kernel or a variable that a thread writes, goes on in the run.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

import trio

from flowengine.core.errors import FailedPreconditionError
from flowengine.kernels.context import KernelContext
from flowengine.resources.container import StepContainer
from flowengine.runtime.executor import Executor
from flowengine.runtime.frames import IterationState
from flowengine.runtime.lanes import HEAVY_MICROSECONDS, LATER, THREAD
from flowengine.runtime.planning.items import Item
from flowengine.runtime.planning.plan import Plan
from flowengine.runtime.step import StepRunner
from flowengine.runtime.turns import Turns


#: The functions in C below those of `signal`, which look for the handler among enumerations: its repr, 40 us
#: for that of asyncio, becomes the message of an error that is caught.
_set_handler: Final[Callable[..., Any]] = getattr(signal.signal, "__wrapped__", signal.signal)
_get_handler: Final[Callable[..., Any]] = getattr(signal.getsignal, "__wrapped__", signal.getsignal)
_INTERRUPT: Final = int(signal.SIGINT)


class Baton(trio.abc.Instrument):
    """The lock that a run holds except while it waits for I/O.

    A run that is over keeps it: nobody works for it any more.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: The run stands there and wants it: callers leave it alone.
        self._is_wanted = False
        self._is_free = False
        #: The thread of the caller that has it.
        self._holder: int | None = None

    def before_run(self) -> None:
        self._lock.acquire()

    def before_io_wait(self, timeout: float) -> None:
        """Let callers have it, unless the run has tasks to go on with."""
        if timeout > 0:
            self._is_free = True
            self._lock.release()

    def after_io_wait(self, timeout: float) -> None:
        """Take it back before any task runs. Whoever has it keeps it for one slice at most."""
        if self._is_free:
            self._is_wanted = True
            self._lock.acquire()
            self._is_free = self._is_wanted = False

    def take(self, patience: float) -> bool:
        """Take it for a caller, who `give`s it back; False if it cannot be had now.

        patience   how many seconds to wait for another caller, who has it for no longer than a slice

        Raises FailedPreconditionError in the thread that has it.
        """
        holder, own = self._holder, threading.get_ident()
        if holder == own:
            raise FailedPreconditionError(
                "this session is used while it runs a step in this thread, by something that the step calls "
                "(such as the `__array__` of a feed): use another session there, or compute the value before"
            )
        if self._is_wanted:
            return False
        if not self._lock.acquire(blocking=False) and (
            holder is None or not patience or not self._lock.acquire(timeout=patience)
        ):
            return False
        self._holder = own
        return True

    def give(self) -> None:
        """Give it back."""
        self._holder = None
        self._lock.release()


class DeferredInterrupt:
    """Ctrl-C is kept while a step runs in the main thread, which would else be torn: `restore`, `deliver`.

    Only a handler written in Python can interrupt Python code, and only the main thread.
    """

    __slots__ = ("_came", "_handler")

    def __init__(self) -> None:
        self._came = False
        self._handler: Callable[[int, FrameType | None], Any] | None = None
        if threading.current_thread() is threading.main_thread():
            handler = _get_handler(_INTERRUPT)
            if callable(handler):
                self._handler = handler
                _set_handler(_INTERRUPT, self._keep)

    def _keep(self, number: int, frame: FrameType | None) -> None:
        self._came = True

    def restore(self) -> None:
        """Let the handler have what comes from now on."""
        if self._handler is not None:
            _set_handler(_INTERRUPT, self._handler)

    def deliver(self) -> None:
        """Call the handler for what was kept; it raises what it raises."""
        if self._came and self._handler is not None:
            self._came = False
            self._handler(_INTERRUPT, sys._getframe())


class StepInPlace(Executor):
    """A step whose first slice runs in its caller's thread, which has the baton."""

    __slots__ = ("_in_place_ends", "_runner")

    def __init__(self, runner: StepRunner, plan: Plan, turns: Turns) -> None:
        context = KernelContext(
            resources=runner.resources,
            step_container=StepContainer(),
            device=runner.device.name,
            step_id=runner.new_step_id(),
            functions=plan.caller,
            **runner.common,
        )
        super().__init__(plan, context, use_threads=runner.settings.worker_threads, turns=turns)
        self._runner = runner
        #: When its slice in place ends; None once that is over.
        self._in_place_ends: float | None = None

    def begin(self, feeds: list[Any], ends: float) -> list[Any] | None:
        """Run one slice. The fetched values if that was the whole step, None if it is to `go_on` in the run.

        Raises the step's error; nothing is left of it then.
        """
        self._runner.running.add(self)
        is_over = True
        self._in_place_ends = ends
        try:
            is_over = self._begin(feeds)
            if not is_over:
                return None
            if self.error is not None or self.plan.handles.has_any:
                self._conclude()
            return self.results()
        finally:
            self._in_place_ends = None
            if is_over:
                if self.parked is not None:
                    self.parked.forget()
                self.loop.close()
                self._leave()

    async def go_on(self) -> list[Any]:
        """Run the rest of the step, in the run. As `StepRunner.run` for everything else."""
        try:
            await self.run(None, has_turn=False)
            return self.results()
        finally:
            self._leave()

    def _leave(self) -> None:
        """The step is over."""
        self._runner.running.discard(self)
        self.context.step_container.clear()
        for call in tuple(self._runner.ended):
            call()

    def _slice_ends(self) -> float:
        return super()._slice_ends() if self._in_place_ends is None else self._in_place_ends

    def lane_of(self, item: Item, iteration: IterationState, args: list[Any], estimate: float) -> int:
        """As of any step; in place, what is worth a thread ends the slice, and is decided in the run."""
        if self._in_place_ends is None or estimate <= HEAVY_MICROSECONDS or not self._use_threads:
            return super().lane_of(item, iteration, args, estimate)
        if self.loop.may_wait(item):
            return LATER
        self._start_on_thread(item, iteration, args)
        return THREAD


__all__ = ["Baton", "DeferredInterrupt", "StepInPlace"]
