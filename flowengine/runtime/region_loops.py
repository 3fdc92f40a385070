"""A loop of a compiled region, which runs in slices.

The generated code is a generator that yields between iterations, every `mask + 1` of them, a power of two
that is fitted here to how long they take; it says which mask that was, for each loop of a region has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from time import perf_counter
from typing import Any, Final

from flowengine.resources.variable import Variable
from flowengine.runtime.learned import PlanTimes

#: An iteration of a compiled loop that takes longer, time after time, should have been on a thread.
SLOW_ITERATION_SECONDS: Final = 0.005
#: Iterations are counted in twos up to so many while they take less than the first, and down again above
#: the second.
_MASK_MAX: Final = 4095
_SHORT_SECONDS: Final = 0.0001
_LONG_SECONDS: Final = 0.0005


class RegionLoop:
    """A loop that has begun, between two slices or in one.

    variables   those that it may read or write
    times       where slow iterations are counted
    """

    __slots__ = ("_generator", "_mask", "_times", "variables")

    def __init__(
        self, generator: Generator[int, int | None, Any], variables: tuple[Variable, ...], times: PlanTimes
    ) -> None:
        self._generator = generator
        #: How many iterations less one it does before it yields; None before the first.
        self._mask: int | None = None
        self.variables = variables
        self._times = times

    def awaits(self, step: object) -> Variable | None:
        """A variable that another step's thread began to write while the loop paused, if there is one."""
        for variable in self.variables:
            if variable.writer is not None and variable.writer is not step:
                return variable
        return None

    def advance(self, deadline: float, is_cancelled: Callable[[], bool]) -> None:
        """Run iterations until the deadline is past or the step cancelled.

        Raises StopIteration with the region's outputs when the loop has ended, or what a member raised.
        """
        generator = self._generator
        now = perf_counter()
        mask = generator.send(self._mask)  # a fresh one takes None
        while True:
            before, now = now, perf_counter()
            if now - before < _SHORT_SECONDS:
                mask = min(2 * mask + 1, _MASK_MAX)
            elif now - before > _LONG_SECONDS:
                if not mask and now - before > SLOW_ITERATION_SECONDS:
                    self._times.slow_iterations += 1
                mask >>= 1
            if now > deadline or is_cancelled():
                self._mask = mask
                return
            mask = generator.send(mask)


__all__ = ["RegionLoop"]
