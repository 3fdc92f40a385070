"""Single members: the call of a kernel or a region, its references, and its errors.

The same for an item by itself, for a member of a block, and for the region that is a function's whole body.
"""

from __future__ import annotations

from contextvars import Context, ContextVar
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from flowengine.core.accounting import call_for
from flowengine.core.errors import OpError, ResourceExhaustedError
from flowengine.kernels.context import KernelContext
from flowengine.passes.blocks.compiled_regions import Blame, CompiledRegion
from flowengine.resources.variable import Variable
from flowengine.runtime.failures import as_op_error, cause_of, locate, locate_at
from flowengine.runtime.frames import IterationState
from flowengine.runtime.memory import MemoryMeter
from flowengine.runtime.planning.items import Item, grouped
from flowengine.runtime.planning.plan import Plan
from flowengine.runtime.planning.timings import SLOW_REGION_SECONDS, PlanTimes
from flowengine.runtime.streams.memory_holders import forget_locals, name_holders


def _without_warnings() -> tuple[ContextVar[Any], Any]:
    """Find the variable in which NumPy keeps its error handling, and the value that ignores all errors.

    `np.errstate` sets the same, in three Python calls. If a NumPy keeps it elsewhere, this returns a variable
    that nobody reads, so that kernels may warn.
    """
    apart = Context()
    apart.run(np.seterr, all="ignore")
    for variable, value in apart.items():
        return variable, value
    return ContextVar("no error handling"), None


#: `NUMPY_ERRORS.set(IGNORED)` before kernels run, and `reset` after them, keeps NumPy from warning.
NUMPY_ERRORS, IGNORED = _without_warnings()


class MemberCalls:
    """The kernel calls of one step.

    plan      the plan of the items
    context   the context of the kernels
    meter     counts the step's memory, if anybody asks
    """

    plan: Plan
    meter: MemoryMeter | None = None

    if TYPE_CHECKING:

        @property
        def context(self) -> KernelContext: ...

    def follow(self, item: Item, iteration: IterationState, args: list[Any]) -> Variable | None:
        """Follow references to values; or return a variable that another thread writes, and do nothing."""
        for value in args:
            if isinstance(value, Variable) and value.writer is not None and value.writer is not self:
                return value
        try:
            for slot in item.dereference:
                args[slot] = args[slot].read()
        except Exception as error:
            raise self.failure(error, item, iteration, None) from cause_of(error)
        return None

    def call(self, item: Item, iteration: IterationState, args: list[Any]) -> Any:
        """Call a kernel and return its outputs. Empties `args`."""
        try:
            if self.meter is not None:
                outputs = self._call_metered(item, args, self.meter)
            else:
                outputs = item.function(
                    *grouped(item, args), **({"ctx": self.context} if item.takes_context else {})
                )
        except Exception as error:
            raise self.failure(error, item, iteration, args) from cause_of(error)
        args.clear()
        return outputs

    def _call_metered(self, item: Item, args: list[Any], meter: MemoryMeter) -> Any:
        """Call a kernel, count its memory and return its outputs."""
        meter.check_before(item, args)
        keywords = {"ctx": self.context} if item.takes_context else {}
        outputs = call_for(meter, item.function, *grouped(item, args), **keywords)
        meter.count(item, outputs, args)
        return outputs

    def call_region(self, item: Item, iteration: IterationState, args: list[Any], times: PlanTimes) -> Any:
        """Call a region without a loop and return its outputs.

        times   the plan's object that records slow runs
        """
        region, taken = item.region, item.times
        started = perf_counter()
        try:
            outputs = region.call(args, self.context if region.takes_context else None)
        except Exception as error:
            raise self.region_failure(error, item, iteration) from cause_of(error)
        seconds = perf_counter() - started
        if seconds < taken.fastest_seconds or seconds > SLOW_REGION_SECONDS or taken.slow_runs:
            times.region_took(taken, seconds)
        return outputs

    def failure(self, error: Exception, item: Item, iteration: IterationState, inputs: Any) -> OpError:
        """Convert a kernel's exception to the error that the caller sees."""
        told = as_op_error(error)
        if isinstance(told, ResourceExhaustedError):
            name_holders(told, self.context, item.node, iteration, inputs or ())
        return locate(told, item, iteration, inputs, self.context.device)

    def blame(self, error: Exception, item: Item) -> Blame | None:
        """Return the member of a region that raised an error."""
        return cast(CompiledRegion, item.region).blame(error.__traceback__)

    def region_failure(self, error: Exception, item: Item, iteration: IterationState) -> OpError:
        """Return the error of a member, located as if it had run by itself."""
        blame = self.blame(error, item)
        if blame is None:
            return self.failure(error, item, iteration, None)
        tag = iteration.tag() + blame.tag
        told = as_op_error(error)
        if isinstance(told, ResourceExhaustedError):
            name_holders(told, self.context, blame.node, iteration, blame.inputs)
        if self.context.hardware is not None:
            # The error's frames would keep the region's values in the device's memory.
            forget_locals(error.__traceback__)
        return locate_at(told, blame.node, tag, blame.inputs, self.context.device)


__all__ = ["MemberCalls"]
