"""The executor of a step by its options: plain, traced, under a guard, or observed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from flowengine.core.run_options import RunOptions
from flowengine.runtime.executor import Executor
from flowengine.runtime.guarding.guard import Guard
from flowengine.runtime.guarding.observer import Observer
from flowengine.runtime.guarding.stepped import SteppedExecutor
from flowengine.runtime.guarding.watched import WatchedExecutor
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
        return partial(WatchedExecutor, watcher=Guard(bounds, options.guard_file))
    if options is not None and options.observe is not None:
        return partial(WatchedExecutor, watcher=Observer(options.observe))
    if options is not None and options.stepper is not None:
        return partial(SteppedExecutor, control=options.stepper)
    return Executor


__all__ = ["executor_for"]
