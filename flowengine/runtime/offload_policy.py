"""Heavy items: the choice of kernels that are worth a worker thread, and the kernels that are on one.

A kernel's time is estimated from its inputs, by its registered cost or by their bytes, and corrected by
earlier measurements. A kernel that takes less than passing it to a thread runs in place; so does one that
would be alone, unless the host would wait too long for its turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from flowengine.resources.variable import Variable
from flowengine.runtime.frames import IterationState
from flowengine.runtime.lanes import HEAVY_MICROSECONDS
from flowengine.runtime.planning.items import Item, Kind, grouped
from flowengine.runtime.planning.signatures import INLINE_BYTES
from flowengine.runtime.planning.timings import NEVER_RAN
from flowengine.runtime.threads import POOL, PRODUCTS, Job

#: A shorter region of one partition is not worth it either, though others could run meanwhile.
_REGION_SECONDS: Final = 250e-6
#: Bytes of input in a microsecond for a kernel without an estimate of its own.
_BYTES_A_MICROSECOND: Final = INLINE_BYTES / HEAVY_MICROSECONDS
#: The number of ready items that are searched for another one worth a thread.
_LOOK_AHEAD: Final = 16


def bytes_of(args: Sequence[Any]) -> int:
    """Return the bytes of the arrays among a kernel's arguments; strings count nothing."""
    size = 0
    for value in args:
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            size += value.nbytes
    return size


def estimated(item: Item, args: list[Any], size: int | None = None) -> float:
    """Estimate the microseconds of a kernel, from its inputs and earlier measurements.

    size   the inputs' bytes, if the caller has counted them
    """
    if item.cost is None:
        return item.times.pace * (bytes_of(args) if size is None else size) / _BYTES_A_MICROSECOND
    try:
        return item.times.pace * float(item.cost(*grouped(item, args)))
    except Exception:
        # The estimate trusts the inputs; the kernel itself reports wrong ones.
        return 0.0


def is_worth_thread(item: Item, args: list[Any]) -> bool:
    """Return whether a kernel or a region may be worth a thread, by its inputs, if others can run."""
    if item.kind == Kind.REGION:
        return is_worth_sharing(item)
    limit = item.times.inline_bytes
    for value in args:
        # Most inputs are scalars, which need no sum.
        if type(value) is np.ndarray and value.ndim:
            return bytes_of(args) > limit and estimated(item, args) > HEAVY_MICROSECONDS
    return limit < 0 and estimated(item, args) > HEAVY_MICROSECONDS


def has_company(item: Item, ready: Sequence[tuple[int, int, Item, IterationState]]) -> bool:
    """Return whether one of the next ready items is worth a thread, too."""
    for _, _, other, _ in ready[:_LOOK_AHEAD]:
        if other.times.microseconds > HEAVY_MICROSECONDS and not (item.is_product and other.is_product):
            return True
    return False


def is_worth_sharing(item: Item) -> bool:
    """Return whether a region goes to a thread if other partitions of the step could run meanwhile."""
    return item.is_pure and _REGION_SECONDS < item.times.fastest_seconds < NEVER_RAN


class HeavyJobs:
    """The kernels of one step that are on worker threads."""

    __slots__ = ("_running",)

    def __init__(self) -> None:
        self._running: dict[Job, tuple[Item, IterationState, tuple[Variable, ...]]] = {}

    def __bool__(self) -> bool:
        return bool(self._running)

    @property
    def have_product(self) -> bool:
        """Return whether one of them uses every core by itself."""
        return any(item.is_product for item, _, _ in self._running.values())

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
        """Return the item that a finished job ran, its variables released; None if it was abandoned."""
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
                job.is_given_up = True
                del self._running[job]


__all__ = ["HeavyJobs", "bytes_of", "estimated", "has_company", "is_worth_sharing", "is_worth_thread"]
