"""Turns on the event loop: all steps of one trio run share one slice a pass, in order of arrival.

`turn_line` says who runs; here is what trio has to do with it. An instrument marks the passes, from the
moment at which two steps are under way until that has not been so for a while: one step alone knows by itself
that it was away. A task without a turn sleeps until it is given one, and does not ask again meanwhile. What
has no task of its own, as a step that goes on where a tensor arrives, is called by a system task, which also
keeps the event loop going round while anybody stands in line.

A turn lasts until its owner waits for anything. It is never held across an `await`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, Final

import trio

from flowengine.runtime.turn_queue import Ticket, TurnLine

#: Passes are marked until fewer than two steps were under way in so many of them. To begin costs 25 us, to
#: mark a pass 1.
QUIET_PASSES_MAX: Final = 1000


class _PassMark(trio.abc.Instrument):
    """Says when a pass begins."""

    def __init__(self, began: Callable[[], None]) -> None:
        self._began = began

    def after_io_wait(self, timeout: float) -> None:
        """Whatever has happened is known to trio; now it runs tasks."""
        self._began()


class Turns:
    """The turns of one trio run.

    line   who waits; see there for what may be looked at before anything here is called
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
        #: How many steps have a ticket: those that have waited for anything and are not over.
        self._tickets = 0
        #: The task that last began a step by a turn that it was given, in this pass.
        self._caller: trio.lowlevel.Task | None = None
        self._mark = _PassMark(self._pass_began)
        self._is_marked = False
        self._passes = self._quiet_passes = 0
        #: The system task, once there is one.
        self._deputy: trio.lowlevel.Task | None = None
        self._is_asleep = False
        #: What it is to call in this pass.
        self._due: list[tuple[Ticket, Callable[[], None]]] = []
        #: The run ends, and the system task is gone.
        self._is_over = False

    # -- tickets ------------------------------------------------------------------------------------

    def new_ticket(self) -> Ticket:
        """A ticket for a step that is about to wait for something. `end` it."""
        self._tickets += 1
        if self._tickets > 1 and not self._is_marked:
            self._mark_passes()
        return Ticket()

    @trio.lowlevel.enable_ki_protection
    def end(self, ticket: Ticket) -> None:
        """A step with a ticket is over."""
        self.stop(ticket)
        self._tickets -= 1

    def stop(self, ticket: Ticket) -> None:
        """A step that has a turn is about to wait for something else than a turn."""
        if ticket.began is not None:
            self.line.stop(ticket, perf_counter())

    # -- tasks --------------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    async def begin(self) -> Ticket | None:
        """A caller begins a step, no earlier than `line.begins_until`: wait for a turn.

        Returns the step's ticket, if it was given one. Cancelled, it leaves nothing behind.
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
        """The slice is spent: go on when it is this step's turn again. As `begin`."""
        self.stop(ticket)
        line = self.line
        if (self._is_marked or not line.is_quiet) and not self._is_over:
            await self._stand_in_line(ticket)
            return
        # Alone: there is nobody to stand in line with, and whoever comes meanwhile comes later.
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
        """Continue a step when its awaited value is there: in its turn, or at once. As `begin`."""
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
        """A step is to end: it need not wait for its turn any more, wherever it stands in line."""
        ticket.is_off = True
        line = self.line
        if ticket in line.waiting:
            line.leave(ticket)
            line.give(ticket)
            ticket.wake()

    # -- what has no task ---------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    def serves(self) -> bool:
        """Whether something without a task may run, no earlier than `line.serves_until`; else `defer` it."""
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
        """Have something called when it is its turn."""
        if self._is_over:
            call()
            return
        due = (ticket, call)
        ticket.wake = partial(self._due.append, due)
        self.line.join(ticket)
        self._rouse()

    @trio.lowlevel.enable_ki_protection
    def withdraw(self, ticket: Ticket) -> None:
        """Do not call what was deferred with this ticket."""
        self.line.leave(ticket)
        ticket.release()

    def _rouse(self) -> None:
        """Somebody stands in line: mark passes, and see that there is another one."""
        if not self._is_marked:
            self._mark_passes()
        if self._deputy is None:
            self._deputy = trio.lowlevel.spawn_system_task(self._serve, name="flowengine turns")
        elif self._is_asleep:
            self._is_asleep = False
            trio.lowlevel.reschedule(self._deputy)

    async def _serve(self) -> None:
        """The system task: call what is deferred, and keep the event loop going round while anybody waits."""
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
                    # Somebody has removed the instrument.
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
        """Call what has its turn; this task outlives the steps that it calls, and keeps nothing of them."""
        line = self.line
        # The list itself stays: those who are woken put themselves into it.
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
    """The turns of the current trio run."""
    try:
        return _turns.get()
    except LookupError:
        turns = Turns()
        _turns.set(turns)
        return turns


__all__ = ["QUIET_PASSES_MAX", "Turns", "current_turns"]
