"""The executor of a step by its options: the plain one, one that records a trace, or one under a guard."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from flowengine.core.config import RunOptions
from flowengine.runtime.executor import Executor
from flowengine.runtime.guarding.executor import Guard, GuardedExecutor
from flowengine.runtime.tracing.executor import TracedExecutor
from flowengine.runtime.tracing.recorder import Recorder


def executor_for(
    options: RunOptions | None, recorder: Recorder | None, device_name: str
) -> Callable[..., Executor]:
    """Return the maker of a step's executor; it takes the arguments of `Executor`.

    recorder   follows the step, if it is traced
    """
    if recorder is not None:
        return partial(TracedExecutor, recorder=recorder, device_name=device_name)
    if options is not None and options.guard:
        bounds = {} if options.guard is True else options.guard
        return partial(GuardedExecutor, guard=Guard(bounds, options.guard_file))
    return Executor


__all__ = ["executor_for"]
