"""The order of steps on the event loop: a queue of tickets, without trio and without a clock.

    line.join(ticket)              nothing is left of the slice: stand in line
    line.begin_pass()              the event loop goes round once more: who is to be woken
    line.take(ticket, now)         one that was woken is there; whether anything is left for it
    line.stop(ticket, now)         its turn is over

A *pass* is one round of the event loop. All steps share one slice of it: 2 ms from the moment at which the
first of them runs anything in that pass. Whoever finds nothing left stands in line, by order of arrival. At
each pass as many of the foremost are woken as will fit, by what turns took lately, and at least one. One too
many keeps its place, and the next pass is its own. So a step waits for those before it only, and for each of
them no longer than a place is kept: 16 ms.
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
#: A turn counts as no less than it costs the event loop to come round, so that no place is kept for ever.
TURN_SECONDS_MIN: Final = 50e-6
#: So much of a slice is filled with those who are woken: turns vary, and steps should begin within a
#: millisecond. Beside 50 tasks that make null steps a host's sleep of 2 ms was 6.7 ms late at the 99th
#: percentile where the whole slice was filled, 5.0 with 1.5 ms of it, 2.3 with this.
FILLED_SECONDS: Final = 0.001
#: What turns took lately is a mean in which each new one has this weight.
_WEIGHT: Final = 0.125
_NEVER: Final = float("-inf")

_place_of: Final[Callable[[Ticket], int]] = attrgetter("place")


def _ignore() -> None:
    return


class Ticket:
    """One step's place in line.

    wake     called when it is given a turn
    place    its number, counted up by arrival; 0 for one that has yet to get a number
    spent    seconds of its own since it has that place
    began    when its turn began; None while it has none
    missed   it was given a turn, and nothing was left of the slice when it came
    is_off   its owner is to end and needs no turn any more
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
        """Forget whom to wake, who knows this ticket."""
        self.wake = _ignore


class TurnLine:
    """The line of one event loop, and its slice of the present pass.

    waiting        tickets in order of place, the foremost first
    given          tickets that were woken and have not come yet
    ends           when the slice ends that somebody has begun
    begins_until   before that a new step may begin at once; at no time while anybody waits
    serves_until   before that whatever comes for a step may be run at once; at no time while anybody waits
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
        #: Whether anybody has run anything in this pass, and since when.
        self._is_open = False
        self._began = _NEVER
        self._places = 0
        #: When the last turn was taken, and how long it lasted if that has yet to be learned from, else 0.
        self._taken = self._took = 0.0

    @property
    def is_quiet(self) -> bool:
        """Whether nobody waits, and nobody was woken who has yet to come."""
        return not self.waiting and not self.given

    # -- a pass -------------------------------------------------------------------------------------

    def begin_pass(self) -> list[Ticket]:
        """The event loop goes round once more, with a slice for all. Who is to be woken, in order."""
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
        """Whether nobody waits, and it is so long that anybody ran anything that this is another pass."""
        return self.is_quiet and now >= self.ends + SLICE_SECONDS

    def open(self, now: float) -> None:
        """Somebody runs something. The first of a pass has its slice begin."""
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
        """Whether the pass belongs to one that was one too many in the last."""
        for ticket in self.given:  # noqa: SIM110
            if ticket.missed:
                return True
        return False

    # -- who has not stood in line ------------------------------------------------------------------

    def may_run(self, now: float) -> bool:
        """Whether one that comes now has its turn at once, and nobody who waits will miss that time."""
        if self.waiting:
            return False
        if not self.given:
            return not self._is_open or now < self.ends
        return self._has_room(now, self.ends if self._is_open else now + SLICE_SECONDS)

    def may_begin(self, now: float) -> bool:
        """As `may_run`, for a step that begins."""
        return self.may_run(now) and (not self._is_open or now < self._began + BEGIN_SECONDS)

    def may_begin_another(self, now: float) -> bool:
        """As `may_begin`, for the next step of a caller who has had a turn in this pass.

        Those who stand in line wait for another pass anyway.
        """
        return self._is_open and self._has_room(now, self._began + BEGIN_SECONDS)

    def _has_room(self, now: float, end: float) -> bool:
        """Whether one more fits in, beside those who were woken."""
        return now + self.lately * (len(self.given) + 1) < end and not self._is_reserved()

    # -- one ticket ---------------------------------------------------------------------------------

    def run(self, ticket: Ticket, now: float) -> None:
        """Begin a turn of one that `may_run`."""
        ticket.began = now
        self.open(now)

    def give(self, ticket: Ticket) -> None:
        """Have a ticket wait for the next pass, in which it has a turn before anybody in line."""
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
        """One that was woken has come. False if nothing is left of the slice: it is to join again.

        The first of a pass always has its turn, however late it is.
        """
        del self.given[ticket]
        if self._is_open and self._took:
            # What its owner did around it counts as well, and what it costs to come to the next.
            self._note(max(self._took, now - self._taken))
        ticket.missed = self._is_open and now >= self.ends
        if ticket.missed:
            self._look()
            return False
        self._taken = now
        self.run(ticket, now)
        return True

    def stop(self, ticket: Ticket, now: float) -> None:
        """A turn is over, if there was one: note what it took."""
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
        """Nobody waits for this turn any more. One that was given already is free for whoever comes next."""
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
