"""Lanes: who has a step's executor, and where an item runs. Pure: no trio, no threads, no clock.

**Who has it.** One thread at a time runs a step's items and touches its counts: the event loop's thread for a
slice, or a compute thread for as long as nobody asks. Whatever else has to do with the step passes one of two
doors: the *inbox*, to whoever has the executor (what a thread or a coroutine gives, a tensor, a variable set
free), and the *outbox*, from a compute thread to the event loop (items that wait, Sends, Recvs).

    state      who has the executor
    HERE       the event loop's thread
    LEAVING    the same, and a compute thread gets it when the slice is over
    AWAY       a compute thread
    RECALLED   the same, which gives it back after the member that runs
    ABANDONED  the same, and the step has ended: what comes is dropped
    OVER       nobody: the step has ended, and what comes is dropped

`_TABLE` says what each event leads to; any other is a fault of ours. Only the event loop's thread changes the
state, so what is put into a door is put there without a lock: both are deques. The inbox is emptied when the
executor is given back. It is not emptied before, though a compute thread could: what comes from outside may
have happened after a write that the step must then see, and a compute thread sees variables as they were when
it began. So what comes from outside calls the executor back; what the step's own kernels give does not.

**Where an item runs.** `lane_of` decides for a kernel with large inputs, by what it is estimated to take and
by what else there is to do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

#: The states.
HERE, LEAVING, AWAY, RECALLED, ABANDONED, OVER = range(6)
STATE_NAMES: Final = ("HERE", "LEAVING", "AWAY", "RECALLED", "ABANDONED", "OVER")

#: What is to be done about an event: nothing; at once by who asks; keep it in the door; keep it and tell the
#: event loop; empty both doors; drop it.
NOTHING, NOW, KEEP, CALL, EMPTY, DROP = range(6)

Doing: TypeAlias = Callable[[], None]

#: {event: {state: (state after it, what is to be done)}}
_TABLE: Final[dict[str, dict[int, tuple[int, int]]]] = {
    # An item was found that is worth the way to a thread.
    "depart": {HERE: (LEAVING, NOTHING)},
    "hand over": {LEAVING: (AWAY, NOTHING)},
    "give back": {AWAY: (HERE, EMPTY), RECALLED: (HERE, EMPTY), ABANDONED: (OVER, DROP)},
    # Cancelled, closed, or wanted by whoever waits for the step's variables.
    "recall": {
        HERE: (HERE, NOTHING),
        LEAVING: (LEAVING, NOTHING),
        AWAY: (RECALLED, NOTHING),
        RECALLED: (RECALLED, NOTHING),
        ABANDONED: (ABANDONED, NOTHING),
        OVER: (OVER, NOTHING),
    },
    # The inbox: from outside of the step.
    "arrive": {
        HERE: (HERE, NOW),
        LEAVING: (LEAVING, NOW),
        AWAY: (RECALLED, KEEP),
        RECALLED: (RECALLED, KEEP),
        ABANDONED: (ABANDONED, DROP),
        OVER: (OVER, DROP),
    },
    # The inbox: from the step's own kernels on other threads.
    "hand in": {
        HERE: (HERE, NOW),
        LEAVING: (LEAVING, NOW),
        AWAY: (AWAY, KEEP),
        RECALLED: (RECALLED, KEEP),
        ABANDONED: (ABANDONED, DROP),
        OVER: (OVER, DROP),
    },
    # The outbox.
    "issue": {
        HERE: (HERE, NOW),
        LEAVING: (LEAVING, NOW),
        AWAY: (AWAY, CALL),
        RECALLED: (RECALLED, CALL),
        ABANDONED: (ABANDONED, DROP),
        OVER: (OVER, DROP),
    },
    "close": {
        HERE: (OVER, NOTHING),
        LEAVING: (OVER, NOTHING),
        AWAY: (ABANDONED, NOTHING),
        RECALLED: (ABANDONED, NOTHING),
        ABANDONED: (ABANDONED, NOTHING),
        OVER: (OVER, NOTHING),
    },
}


class Ownership:
    """The ownership of one step's executor, with the queues of work for the owner and the event loop.

    state    one of the states above
    inbox    what is to be done to the executor by whoever has it
    outbox   what is to be done by the event loop's thread
    """

    __slots__ = ("inbox", "outbox", "state")

    def __init__(self) -> None:
        self.state = HERE
        self.inbox: deque[Doing] = deque()
        self.outbox: deque[Doing] = deque()

    def _on(self, event: str) -> int:
        found = _TABLE[event].get(self.state)
        assert found is not None, f"'{event}' cannot happen to an executor that is {STATE_NAMES[self.state]}"
        self.state, action = found
        return action

    @property
    def is_away(self) -> bool:
        """Whether a compute thread has the executor."""
        return AWAY <= self.state <= ABANDONED

    @property
    def is_recalled(self) -> bool:
        """Whether a compute thread is to give it back. May be asked on any thread."""
        return self.state in (RECALLED, ABANDONED)

    @property
    def is_closed(self) -> bool:
        """Whether the step has ended."""
        return self.state in (ABANDONED, OVER)

    # -- by the event loop's thread -----------------------------------------------------------------

    def depart(self) -> None:
        """The slice is to end, and a compute thread to have the executor then."""
        self._on("depart")

    def hand_over(self) -> None:
        self._on("hand over")

    def recall(self) -> None:
        """Have the executor back as soon as that can be."""
        self._on("recall")

    def give_back(self) -> None:
        """A compute thread has run to its end. What waits in the doors is now to be taken out and done."""
        if self._on("give back") == DROP:
            self.inbox.clear()
            self.outbox.clear()

    def arrive(self, doing: Doing, *, is_own: bool = False) -> bool:
        """Something comes for the executor: True if it is to be done at once, by who asks.

        Else it is done when the executor is back, or by nobody, where the step is over.
        is_own   it comes from one of the step's own kernels
        """
        action = self._on("hand in" if is_own else "arrive")
        if action == KEEP:
            self.inbox.append(doing)
        return action == NOW

    def close(self) -> None:
        """The step has ended, or is being ended: what still comes is dropped."""
        self._on("close")
        self.inbox.clear()
        self.outbox.clear()

    # -- by whoever has the executor ----------------------------------------------------------------

    def issue(self, doing: Doing) -> int:
        """Something has to be done by the event loop's thread.

        NOW if that is the one who asks, CALL if it has to be told, KEEP if it has been, DROP if nobody does.
        """
        action = _TABLE["issue"][self.state][1]
        if action != CALL:
            return action
        self.outbox.append(doing)
        # Counted after it was put there: who empties the box just now finds it, or leaves it alone there.
        return CALL if len(self.outbox) == 1 else KEEP

    def take(self, door: deque[Doing]) -> None:
        """Do what waits in a door, in the order in which it came, also what comes meanwhile."""
        while door:
            door.popleft()()


# -- where an item runs -----------------------------------------------------------------------------

#: Where a kernel with large inputs runs: here, here in the next slice, on a thread by itself, or as the first
#: of those that a compute thread runs with the executor.
INLINE, LATER, THREAD, OFFLOADED_RUN = range(4)
LANE_NAMES: Final = ("inline", "later", "a thread", "an offloaded run")

#: A kernel that takes less is not worth the hand-off to a thread: 13 us if the thread is awake, and several
#: times as much if it is not.
HEAVY_MICROSECONDS: Final = 100.0
#: A kernel that would be alone, with nothing else to do meanwhile, goes to a thread only for the sake of the
#: host, whose turn comes after a slice anyway.
ALONE_MICROSECONDS: Final = 800.0
#: A product may take a whole slice, at the slice's beginning: it has every core, to hand it over and wake two
#: threads takes 120 to 220 us, and a network has a hundred of them one after another.
SLICE_MICROSECONDS: Final = 1800.0


def lane_of(
    estimate: float,
    *,
    seconds_left: float,
    uses_threads: bool,
    is_product: bool,
    is_running: bool,
    product_is_running: bool,
    others_wait: bool,
    has_company: Callable[[], bool],
    may_wait: bool,
    departs: Callable[[], bool],
) -> int:
    """Choose the lane of a kernel by its estimated microseconds.

    seconds_left        of the slice
    is_product          whether it uses every core by itself
    is_running          whether kernels of the step are on threads
    product_is_running  whether one of those is a product
    others_wait         whether some are about to go to threads
    has_company         whether another item that is ready is worth a thread
    may_wait            whether it can be put back to begin the next slice
    departs             whether a compute thread may begin an offloaded run with it
    """
    if estimate <= HEAVY_MICROSECONDS or not uses_threads:
        return INLINE
    if departs():
        return OFFLOADED_RUN
    if (
        others_wait
        or estimate > (SLICE_MICROSECONDS if is_product else ALONE_MICROSECONDS)
        # What they give would have to wait for a turn.
        or (is_running and estimate > ALONE_MICROSECONDS)
        # Two products at a time would fight for the cores.
        or (is_product and product_is_running)
        # One for a thread and one for here: the cores share the work.
        or has_company()
    ):
        return THREAD
    if estimate > ALONE_MICROSECONDS and estimate * 1e-6 > seconds_left:
        return LATER if may_wait else THREAD
    return INLINE


__all__ = [
    "ALONE_MICROSECONDS",
    "HEAVY_MICROSECONDS",
    "INLINE",
    "LANE_NAMES",
    "LATER",
    "OFFLOADED_RUN",
    "STATE_NAMES",
    "THREAD",
    "Ownership",
    "lane_of",
]
