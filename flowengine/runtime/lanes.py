"""Lanes: the owner of a step's executor, and the place where an item runs. No trio, no threads, no clock.

**The owner.** One thread at a time runs a step's items and touches its counts: the event loop's thread for a
slice, or a compute thread for as long as nobody asks. All others reach the step through one of two queues:
the *inbox*, to the owner of the executor (results of threads and coroutines, tensors, released variables),
and the *outbox*, from a compute thread to the event loop (items that wait, Sends, Recvs).

    state      owner of the executor
    HERE       the event loop's thread
    LEAVING    the same, and a compute thread gets it at the end of the slice
    AWAY       a compute thread
    RECALLED   the same, which returns it after the running member
    ABANDONED  the same, and the step has ended: arrivals are dropped
    OVER       nobody: the step has ended, and arrivals are dropped

`_TABLE` gives the result of each event; any other event is a fault of ours. Only the event loop's thread
changes the state, so the queues need no lock: both are deques. The inbox is emptied when the executor is
returned. It is not emptied before, though a compute thread could: an event from outside may have happened
after a write that the step must then see, and a compute thread sees variables as they were when it began. So
an event from outside calls the executor back; results of the step's own kernels do not.

**The lane.** `lane_of` decides for a kernel with large inputs, by its estimated time and by the other work.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

#: The states.
HERE, LEAVING, AWAY, RECALLED, ABANDONED, OVER = range(6)
STATE_NAMES: Final = ("HERE", "LEAVING", "AWAY", "RECALLED", "ABANDONED", "OVER")

#: The reactions to an event: nothing; the caller acts at once; keep it in the queue; keep it and tell the
#: event loop; empty both queues; drop it.
NOTHING, NOW, KEEP, CALL, EMPTY, DROP = range(6)

Doing: TypeAlias = Callable[[], None]

#: {event: {state: (next state, reaction)}}
_TABLE: Final[dict[str, dict[int, tuple[int, int]]]] = {
    # An item was found that is worth the way to a thread.
    "depart": {HERE: (LEAVING, NOTHING)},
    "hand over": {LEAVING: (AWAY, NOTHING)},
    "give back": {AWAY: (HERE, EMPTY), RECALLED: (HERE, EMPTY), ABANDONED: (OVER, DROP)},
    # Cancelled, closed, or wanted by a step that waits for this step's variables.
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
    """The owner of one step's executor, with the queues of work for the owner and the event loop.

    state    one of the states above
    inbox    work for the owner of the executor
    outbox   work for the event loop's thread
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
        """Return whether a compute thread has the executor."""
        return AWAY <= self.state <= ABANDONED

    @property
    def is_recalled(self) -> bool:
        """Return whether a compute thread must return it. May be asked on any thread."""
        return self.state in (RECALLED, ABANDONED)

    @property
    def is_closed(self) -> bool:
        """Return whether the step has ended."""
        return self.state in (ABANDONED, OVER)

    # -- by the event loop's thread -----------------------------------------------------------------

    def depart(self) -> None:
        """Let a compute thread have the executor at the end of the slice."""
        self._on("depart")

    def hand_over(self) -> None:
        self._on("hand over")

    def recall(self) -> None:
        """Get the executor back as soon as possible."""
        self._on("recall")

    def give_back(self) -> None:
        """Take the executor back from a compute thread that has ended. Then empty both queues."""
        if self._on("give back") == DROP:
            self.inbox.clear()
            self.outbox.clear()

    def arrive(self, doing: Doing, *, is_own: bool = False) -> bool:
        """Handle an event for the executor; return True if the caller must act at once.

        Otherwise the action follows when the executor is back, or never, if the step is over.
        is_own   the event comes from one of the step's own kernels
        """
        action = self._on("hand in" if is_own else "arrive")
        if action == KEEP:
            self.inbox.append(doing)
        return action == NOW

    def close(self) -> None:
        """Record that the step has ended, or is being ended: later events are dropped."""
        self._on("close")
        self.inbox.clear()
        self.outbox.clear()

    # -- by the owner of the executor ---------------------------------------------------------------

    def issue(self, doing: Doing) -> int:
        """Handle an event for the event loop's thread.

        Returns NOW if the caller is that thread, CALL if it must be told, KEEP if it was, DROP if nobody
        acts.
        """
        action = _TABLE["issue"][self.state][1]
        if action != CALL:
            return action
        self.outbox.append(doing)
        # Counted after it was queued: the thread that empties the queue now finds it, or leaves it alone.
        return CALL if len(self.outbox) == 1 else KEEP

    def take(self, door: deque[Doing]) -> None:
        """Do the work in a queue, in order of arrival, including work that arrives meanwhile."""
        while door:
            door.popleft()()


# -- the lane of an item ----------------------------------------------------------------------------

#: The lane of a kernel with large inputs: here, here in the next slice, on a thread by itself, or as the
#: first of those that a compute thread runs with the executor.
INLINE, LATER, THREAD, OFFLOADED_RUN = range(4)
LANE_NAMES: Final = ("inline", "later", "a thread", "an offloaded run")

#: A shorter kernel is not worth passing to a thread: that takes 13 us if the thread is awake, and several
#: times as much if it is not.
HEAVY_MICROSECONDS: Final = 100.0
#: A kernel that would be alone, with nothing else to do meanwhile, goes to a thread only for the sake of the
#: host, whose turn comes after a slice anyway.
ALONE_MICROSECONDS: Final = 800.0
#: A product may take a whole slice, at the slice's beginning: it has every core, passing it on and waking two
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

    seconds_left        the rest of the slice
    is_product          whether it uses every core by itself
    is_running          whether kernels of the step are on threads
    product_is_running  whether one of those is a product
    others_wait         whether some are about to go to threads
    has_company         whether another ready item is worth a thread
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
        # Their results would have to wait for a turn.
        or (is_running and estimate > ALONE_MICROSECONDS)
        # Two products at a time would compete for the cores.
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
