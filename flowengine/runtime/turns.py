"""Turns on the event loop: all steps of one trio run share one slice a pass, in order of arrival.

`turn_queue` decides the order; this module connects it with trio. An instrument marks the passes, from the
moment at which two steps are under way until that has not been so for a while: a single step notices by
itself that it was away. A task without a turn sleeps until it is given one, and does not ask again meanwhile.
A system task calls steps that have no task of their own, such as one that continues where a tensor arrives,
and keeps the event loop going round while a ticket waits.

A turn lasts until its owner waits for anything. It is never held across an `await`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, Final

import trio

from flowengine.runtime.turn_queue import Ticket, TurnLine

#: Passes are marked until fewer than two steps were under way in so many of them. Beginning costs 25 us,
#: marking a pass 1 us.
QUIET_PASSES_MAX: Final = 1000


class _PassMark(trio.abc.Instrument):
    """An instrument that reports the beginning of a pass."""

    def __init__(self, began: Callable[[], None]) -> None:
        self._began = began

    def after_io_wait(self, timeout: float) -> None:
        """Begin a pass: trio has collected all events, and runs tasks now."""
        self._began()


class Turns:
    """The turns of one trio run.

    line   the order of tickets; see there for attributes to check before any call here
    """

    __slots__ = (
        "_caller",
        "_deputy",
        "_due",
        "_is_asleep",
        "_is_marked",
        "_is_over",
        "_mark",
        "_passes",
        "_quiet_passes",
        "_tickets",
        "line",
    )

    def __init__(self) -> None:
        self.line = TurnLine()
        #: The number of steps with a ticket: those that have waited for anything and are not over.
        self._tickets = 0
        #: The task that last began a step by a turn that it was given, in this pass.
        self._caller: trio.lowlevel.Task | None = None
        self._mark = _PassMark(self._pass_began)
        self._is_marked = False
        self._passes = self._quiet_passes = 0
        #: The system task, once there is one.
        self._deputy: trio.lowlevel.Task | None = None
        self._is_asleep = False
        #: The functions that it must call in this pass.
        self._due: list[tuple[Ticket, Callable[[], None]]] = []
        #: The run ends, and the system task is gone.
        self._is_over = False

    # -- tickets ------------------------------------------------------------------------------------

    def new_ticket(self) -> Ticket:
        """Return a ticket for a step that is about to wait. `end` it."""
        self._tickets += 1
        if self._tickets > 1 and not self._is_marked:
            self._mark_passes()
        return Ticket()

    @trio.lowlevel.enable_ki_protection
    def end(self, ticket: Ticket) -> None:
        """End a step with a ticket."""
        self.stop(ticket)
        self._tickets -= 1

    def stop(self, ticket: Ticket) -> None:
        """Pause a step that has a turn and is about to wait for anything but a turn."""
        if ticket.began is not None:
            self.line.stop(ticket, perf_counter())

    # -- tasks --------------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    async def begin(self) -> Ticket | None:
        """Wait for a turn to begin a step, no earlier than `line.begins_until`.

        Returns the step's ticket, if it was given one. If cancelled, it leaves nothing behind.
        """
        if self._is_marked:
            now, line = perf_counter(), self.line
            caller = trio.lowlevel.current_task()
            if line.may_begin(now) or (caller is self._caller and line.may_begin_another(now)):
                await trio.lowlevel.checkpoint_if_cancelled()
                line.open(now)
                return None
        ticket = self.new_ticket()
        try:
            await self.pause(ticket)
        except BaseException:
            self.end(ticket)
            raise
        if self._is_marked:
            self._caller = trio.lowlevel.current_task()
        return ticket

    async def rest(self) -> None:
        """Let others run if that is due, after a caller's work has ended without a wait.

        Cannot be cancelled, for the caller is to have its results.
        """
        if perf_counter() < self.line.begins_until:
            return
        with trio.CancelScope(shield=True):
            ticket = await self.begin()
        if ticket is not None:
            self.end(ticket)

    @trio.lowlevel.enable_ki_protection
    async def pause(self, ticket: Ticket) -> None:
        """Wait for the step's next turn, after the slice is spent. As `begin`."""
        self.stop(ticket)
        line = self.line
        if (self._is_marked or not line.is_quiet) and not self._is_over:
            await self._stand_in_line(ticket)
            return
        # Alone: there is nobody to stand in line with, and newcomers come later.
        line.give(ticket)
        try:
            await trio.lowlevel.checkpoint()
        except BaseException:
            line.leave(ticket)
            raise
        if not self._is_marked:
            self._pass_began()
        if not line.take(ticket, perf_counter()):
            await self._stand_in_line(ticket)

    @trio.lowlevel.enable_ki_protection
    async def arrive(self, ticket: Ticket) -> None:
        """Continue a step when its awaited value has come: in its turn, or at once. As `begin`."""
        line = self.line
        now = perf_counter()
        if not self._is_marked:
            self._pass_began()
        if line.may_run(now):
            line.run(ticket, now)
        else:
            await self._stand_in_line(ticket)

    async def _stand_in_line(self, ticket: Ticket) -> None:
        line = self.line
        ticket.wake = partial(trio.lowlevel.reschedule, trio.lowlevel.current_task())

        def abort(_: Any) -> trio.lowlevel.Abort:
            line.leave(ticket)
            return trio.lowlevel.Abort.SUCCEEDED

        while not self._is_over:
            line.join(ticket)
            self._rouse()
            await trio.lowlevel.wait_task_rescheduled(abort)
            try:
                await trio.lowlevel.checkpoint_if_cancelled()
            except BaseException:
                line.leave(ticket)
                raise
            if line.take(ticket, perf_counter()) or ticket.is_off:
                return
        await trio.lowlevel.checkpoint()
        line.run(ticket, perf_counter())

    @trio.lowlevel.enable_ki_protection
    def call_off(self, ticket: Ticket) -> None:
        """End a step: it need not wait for its turn any more, wherever it stands in line."""
        ticket.is_off = True
        line = self.line
        if ticket in line.waiting:
            line.leave(ticket)
            line.give(ticket)
            ticket.wake()

    # -- work without a task ------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    def serves(self) -> bool:
        """Return whether a step without a task may run, from `line.serves_until` on; else `defer` it."""
        line, now = self.line, perf_counter()
        if not self._is_marked:
            if line.is_idle(now):
                self._pass_began()
            else:
                self._mark_passes()
        self._quiet_passes = 0
        if line.may_run(now):
            line.open(now)
            return True
        return False

    @trio.lowlevel.enable_ki_protection
    def defer(self, ticket: Ticket, call: Callable[[], None]) -> None:
        """Have a function called when its turn comes."""
        if self._is_over:
            call()
            return
        due = (ticket, call)
        ticket.wake = partial(self._due.append, due)
        self.line.join(ticket)
        self._rouse()

    @trio.lowlevel.enable_ki_protection
    def withdraw(self, ticket: Ticket) -> None:
        """Do not call the function that was deferred with this ticket."""
        self.line.leave(ticket)
        ticket.release()

    def _rouse(self) -> None:
        """Mark passes, and ensure that there is another one, because a ticket waits."""
        if not self._is_marked:
            self._mark_passes()
        if self._deputy is None:
            self._deputy = trio.lowlevel.spawn_system_task(self._serve, name="flowengine turns")
        elif self._is_asleep:
            self._is_asleep = False
            trio.lowlevel.reschedule(self._deputy)

    async def _serve(self) -> None:
        """Call deferred functions, and keep the event loop awake while a ticket waits; the system task."""
        line = self.line
        passes = self._passes
        try:
            while True:
                if line.waiting or self._due:
                    await trio.lowlevel.checkpoint()
                else:
                    self._is_asleep = True
                    await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.SUCCEEDED)
                if self._passes == passes:
                    # Another task has removed the instrument.
                    self._is_marked = False
                    self._mark_passes()
                    self._pass_began()
                passes = self._passes
                self._call_due()
        finally:
            self._is_over = True
            while line.waiting:
                last = line.waiting.popleft()
                line.given[last] = None
                last.wake()

    def _call_due(self) -> None:
        """Call the functions that have their turn.

        This task outlives their steps, and keeps nothing of them.
        """
        line = self.line
        # The list itself stays: woken tickets add themselves to it.
        due = tuple(self._due)
        self._due.clear()
        for ticket, call in due:
            if ticket not in line.given:
                continue  # it was withdrawn
            if line.take(ticket, perf_counter()) or ticket.is_off:
                ticket.release()
                call()
                self.stop(ticket)
            else:
                line.join(ticket)

    # -- passes -------------------------------------------------------------------------------------

    def _mark_passes(self) -> None:
        self._is_marked = True
        self._quiet_passes = 0
        trio.lowlevel.add_instrument(self._mark)

    def _pass_began(self) -> None:
        self._passes += 1
        self._caller = None
        line = self.line
        if line.waiting:
            for ticket in line.begin_pass():
                ticket.wake()
        else:
            line.begin_pass()
        if self._tickets > 1:
            self._quiet_passes = 0
        elif self._is_marked:
            self._quiet_passes += 1
            if self._quiet_passes > QUIET_PASSES_MAX and line.is_quiet:
                self._is_marked = False
                trio.lowlevel.remove_instrument(self._mark)


_turns: Final[trio.lowlevel.RunVar[Turns]] = trio.lowlevel.RunVar("flowengine turns")


def current_turns() -> Turns:
    """Return the turns of the current trio run."""
    try:
        return _turns.get()
    except LookupError:
        turns = Turns()
        _turns.set(turns)
        return turns


__all__ = ["QUIET_PASSES_MAX", "Turns", "current_turns"]
