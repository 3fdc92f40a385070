"""The order of steps on the event loop: a queue of tickets, without trio and without a clock.

    line.join(ticket)              the slice is spent: stand in line
    line.begin_pass()              a new round of the event loop: returns the tickets to wake
    line.take(ticket, now)         a woken ticket has come; whether there is time left for it
    line.stop(ticket, now)         its turn is over

A *pass* is one round of the event loop. All steps share one slice of it: 2 ms from the moment at which the
first of them runs anything in that pass. A step that finds the slice spent stands in line, by order of
arrival. At each pass as many of the foremost are woken as will fit, by the times of recent turns, and at
least one. One too many keeps its place, and the next pass is its own. So a step waits only for those before
it, and for each of them no longer than a place is kept: 16 ms.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from operator import attrgetter
from typing import Final

#: The event loop belongs to the host: all steps together have this much of a pass.
SLICE_SECONDS: Final = 0.002
#: A caller of one small step after another begins no more of them after this much of a pass.
BEGIN_SECONDS: Final = 0.001
#: A step keeps its place in line for this much time of its own. Most steps are shorter: they end in the order
#: in which they came, and few temporaries live at once. A longer one goes to the end and starves nobody.
PLACE_SECONDS: Final = 0.016
#: A turn counts as no less than a round of the event loop costs, so that no place is kept for ever.
TURN_SECONDS_MIN: Final = 50e-6
#: The woken steps fill so much of a slice: turns vary, and steps should begin within a millisecond. Beside 50
#: tasks that make null steps a host's sleep of 2 ms was 6.7 ms late at the 99th percentile if the whole slice
#: was filled, 5.0 with 1.5 ms of it, 2.3 with this.
FILLED_SECONDS: Final = 0.001
#: The weight of each new turn in the mean of recent turns.
_WEIGHT: Final = 0.125
_NEVER: Final = float("-inf")

_place_of: Final[Callable[[Ticket], int]] = attrgetter("place")


def _ignore() -> None:
    return


class Ticket:
    """One step's place in line.

    wake     called when it is given a turn
    place    its number, counted up by arrival; 0 for one that has no number yet
    spent    seconds of its own since it has that place
    began    the time when its turn began; None while it has none
    missed   it was given a turn, and the slice was spent when it came
    is_off   its owner is ending and needs no turn any more
    """

    __slots__ = ("began", "is_off", "missed", "place", "spent", "wake")

    def __init__(self) -> None:
        self.wake: Callable[[], None] = _ignore
        self.place = 0
        self.spent = 0.0
        self.began: float | None = None
        self.missed = False
        self.is_off = False

    def release(self) -> None:
        """Forget the function to wake, which refers to this ticket."""
        self.wake = _ignore


class TurnLine:
    """The line of one event loop, and its slice of the present pass.

    waiting        tickets in order of place, the foremost first
    given          tickets that were woken and have not come yet
    ends           the end of the present slice
    begins_until   before that a new step may begin at once; never while a ticket waits
    serves_until   before that an event for a step may be handled at once; never while a ticket waits
    lately         seconds that a turn takes
    """

    __slots__ = (
        "_began",
        "_is_open",
        "_places",
        "_taken",
        "_took",
        "begins_until",
        "ends",
        "given",
        "lately",
        "serves_until",
        "waiting",
    )

    def __init__(self) -> None:
        self.waiting: deque[Ticket] = deque()
        self.given: dict[Ticket, None] = {}
        self.ends = self.begins_until = self.serves_until = _NEVER
        #: Nothing is known yet: one at a time.
        self.lately = SLICE_SECONDS
        #: Whether a step has run in this pass, and since when.
        self._is_open = False
        self._began = _NEVER
        self._places = 0
        #: When the last turn was taken, and its length if the mean does not include it yet, else 0.
        self._taken = self._took = 0.0

    @property
    def is_quiet(self) -> bool:
        """Return whether no ticket waits, and no woken ticket has yet to come."""
        return not self.waiting and not self.given

    # -- a pass -------------------------------------------------------------------------------------

    def begin_pass(self) -> list[Ticket]:
        """Begin a new pass, with a slice for all; return the tickets to wake, in order."""
        self._is_open = False
        if self._took:
            self._note(self._took)
        waiting, given = self.waiting, self.given
        if not waiting:
            self.begins_until = self.serves_until = _NEVER
            return []
        woken: list[Ticket] = []
        room = FILLED_SECONDS - self.lately * len(given)
        while waiting and not self._is_reserved():
            first = waiting[0]
            if given and (first.missed or room < self.lately):
                break
            waiting.popleft()
            given[first] = None
            woken.append(first)
            room -= self.lately
        self._look()
        return woken

    def is_idle(self, now: float) -> bool:
        """Return whether no ticket waits, and the last work is so long ago that this is another pass."""
        return self.is_quiet and now >= self.ends + SLICE_SECONDS

    def open(self, now: float) -> None:
        """Record that a step runs. The first of a pass starts its slice."""
        if not self._is_open:
            self._is_open = True
            self._began = now
            self.ends = now + SLICE_SECONDS
        self._look()

    def _look(self) -> None:
        if self._is_open and not self.waiting and not self.given:
            self.begins_until = self._began + BEGIN_SECONDS
            self.serves_until = self.ends
        else:
            self.begins_until = self.serves_until = _NEVER

    def _is_reserved(self) -> bool:
        """Return whether the pass belongs to one that was one too many in the last."""
        for ticket in self.given:  # noqa: SIM110
            if ticket.missed:
                return True
        return False

    # -- steps that have not stood in line ----------------------------------------------------------

    def may_run(self, now: float) -> bool:
        """Return whether a newcomer has its turn at once, without delaying a waiting ticket."""
        if self.waiting:
            return False
        if not self.given:
            return not self._is_open or now < self.ends
        return self._has_room(now, self.ends if self._is_open else now + SLICE_SECONDS)

    def may_begin(self, now: float) -> bool:
        """Return the same as `may_run`, for a step that begins."""
        return self.may_run(now) and (not self._is_open or now < self._began + BEGIN_SECONDS)

    def may_begin_another(self, now: float) -> bool:
        """Return the same as `may_begin`, for the next step of a caller who has had a turn in this pass.

        Waiting tickets get another pass anyway.
        """
        return self._is_open and self._has_room(now, self._began + BEGIN_SECONDS)

    def _has_room(self, now: float, end: float) -> bool:
        """Return whether one more fits in, beside the woken ones."""
        return now + self.lately * (len(self.given) + 1) < end and not self._is_reserved()

    # -- one ticket ---------------------------------------------------------------------------------

    def run(self, ticket: Ticket, now: float) -> None:
        """Begin a turn of one that `may_run`."""
        ticket.began = now
        self.open(now)

    def give(self, ticket: Ticket) -> None:
        """Let a ticket wait for the next pass, in which it has a turn before all others."""
        self._number(ticket)
        self.given[ticket] = None
        self._look()

    def join(self, ticket: Ticket) -> None:
        """Stand in line, at the ticket's place."""
        self._number(ticket)
        waiting, place = self.waiting, ticket.place
        if not waiting or waiting[-1].place < place:
            waiting.append(ticket)
        elif place < waiting[0].place:
            waiting.appendleft(ticket)
        else:
            waiting.insert(bisect_left(waiting, place, key=_place_of), ticket)
        self._look()

    def _number(self, ticket: Ticket) -> None:
        if not ticket.place:
            self._places += 1
            ticket.place = self._places

    def take(self, ticket: Ticket, now: float) -> bool:
        """Let a woken ticket take its turn; False if the slice is spent: then it joins again.

        The first of a pass always has its turn, however late it is.
        """
        del self.given[ticket]
        if self._is_open and self._took:
            # The work of its owner around it counts as well, and the way to the next turn.
            self._note(max(self._took, now - self._taken))
        ticket.missed = self._is_open and now >= self.ends
        if ticket.missed:
            self._look()
            return False
        self._taken = now
        self.run(ticket, now)
        return True

    def stop(self, ticket: Ticket, now: float) -> None:
        """End a turn, if there was one, and record its time."""
        if ticket.began is None:
            return
        took = max(now - ticket.began, TURN_SECONDS_MIN)
        ticket.began = None
        self._took = took
        ticket.spent += took
        if ticket.spent >= PLACE_SECONDS:
            ticket.spent = 0.0
            ticket.place = 0

    def _note(self, took: float) -> None:
        self.lately += _WEIGHT * (max(min(took, SLICE_SECONDS), TURN_SECONDS_MIN) - self.lately)
        self._took = 0.0

    def leave(self, ticket: Ticket) -> None:
        """Withdraw a ticket. A turn that was already given is free for the next step."""
        if ticket in self.given:
            del self.given[ticket]
        elif ticket in self.waiting:
            self.waiting.remove(ticket)
        ticket.missed = False
        self._look()


__all__ = [
    "BEGIN_SECONDS",
    "FILLED_SECONDS",
    "PLACE_SECONDS",
    "SLICE_SECONDS",
    "TURN_SECONDS_MIN",
    "Ticket",
    "TurnLine",
]
