"""Heavy items: which kernels are worth a worker thread, and those that are on one.

A kernel's time is estimated from its inputs, by its registered cost or by their bytes, at a pace that is
corrected by what it took before. What takes less than the hand-off runs where it is; what would be alone does
so too, unless the host would wait too long for its turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from flowengine.resources.variable import Variable
from flowengine.runtime.frames import IterationState
from flowengine.runtime.items import Item, Kind, grouped
from flowengine.runtime.signatures import INLINE_BYTES
from flowengine.runtime.threads import POOL, PRODUCTS, Job

#: A kernel that takes less is not worth the hand-off to a thread: 13 us if the thread is awake, and several
#: times as much if it is not.
HEAVY_MICROSECONDS: Final = 100.0
#: A kernel that would be alone, with nothing else to do meanwhile, goes to a thread only for the sake of the
#: host, whose turn comes after a slice anyway.
ALONE_MICROSECONDS: Final = 800.0
#: A product may take a whole slice, at the slice's beginning: it has every core, to hand it over and wake two
#: threads takes 120 to 220 us, and a network has a hundred of them one after another.
SLICE_MICROSECONDS: Final = 1800.0
#: Bytes of input that a kernel without an estimate of its own is taken to need a microsecond for.
_BYTES_A_MICROSECOND: Final = INLINE_BYTES / HEAVY_MICROSECONDS
#: Ready items that are looked at for another one worth a thread.
_LOOK_AHEAD: Final = 16


def bytes_of(args: Sequence[Any]) -> int:
    """The bytes of the arrays among a kernel's arguments; strings count nothing."""
    return sum(value.nbytes for value in args if isinstance(value, np.ndarray) and value.dtype != object)


def estimated(item: Item, args: list[Any]) -> float:
    """Microseconds that a kernel will take: what its inputs say, by what it took before."""
    if item.cost is None:
        return item.times.pace * bytes_of(args) / _BYTES_A_MICROSECOND
    try:
        return item.times.pace * float(item.cost(*grouped(item, args)))
    except Exception:
        # The estimate trusts the inputs; the kernel itself will say what is wrong with them.
        return 0.0


class HeavyJobs:
    """The kernels of one step that are on worker threads."""

    __slots__ = ("_running",)

    def __init__(self) -> None:
        self._running: dict[Job, tuple[Item, IterationState, tuple[Variable, ...]]] = {}

    def __bool__(self) -> bool:
        return bool(self._running)

    def gets_thread(
        self,
        item: Item,
        estimate: float,
        ready: Sequence[tuple[int, int, Item, IterationState]],
        others_wait: bool,
    ) -> bool:
        """Whether a kernel that is worth a thread gets one, and does not run here, now or in the next slice.

        ready        items that could run now
        others_wait  whether some are about to go to threads
        """
        if others_wait or estimate > (SLICE_MICROSECONDS if item.is_product else ALONE_MICROSECONDS):
            return True
        if estimate > ALONE_MICROSECONDS and self._running:
            return True  # what they give would have to wait for a turn
        if item.is_product and any(other.is_product for other, _, _ in self._running.values()):
            return True  # two products at a time would fight for the cores
        # One for a thread and one for here: the cores share the work.
        for _, _, other, _ in ready[:_LOOK_AHEAD]:
            if other.times.microseconds > HEAVY_MICROSECONDS and not (item.is_product and other.is_product):
                return True
        return False

    def submit(
        self,
        job: Job,
        item: Item,
        iteration: IterationState,
        held: tuple[Variable, ...] = (),
        args: list[Any] | None = None,
    ) -> None:
        """Hand a job to the threads.

        held   variables that are its own until it is done
        args   of a kernel: its inputs, by which its pace will be corrected
        """
        if args is not None:
            job.estimate, job.pace = estimated(item, args), item.times.pace
            item.times.was_heavy = True
        self._running[job] = (item, iteration, held)
        (PRODUCTS if item.is_product else POOL).submit(job)

    def take(self, job: Job) -> tuple[Item, IterationState] | None:
        """What a finished job ran, its variables released; None if it was given up."""
        found = self._running.pop(job, None)
        if found is None:
            return None
        item, iteration, held = found
        if item.kind == Kind.REGION:
            item.times.took_on_thread(job.seconds)
        else:
            item.times.learn(job.estimate, job.seconds * 1e6, job.pace)
        for variable in held:
            variable.release()
        return item, iteration

    def give_up_pure(self) -> None:
        """Forget the jobs that only compute; those that write variables must be waited for."""
        for job, (_, _, held) in tuple(self._running.items()):
            if not held:
                del self._running[job]


__all__ = ["ALONE_MICROSECONDS", "HEAVY_MICROSECONDS", "HeavyJobs", "bytes_of", "estimated"]
