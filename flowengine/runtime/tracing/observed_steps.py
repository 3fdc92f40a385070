"""The executor of a step by its options: plain, traced, under a guard, or observed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from flowengine.core.run_options import RunOptions
from flowengine.runtime.executor import Executor

if TYPE_CHECKING:
    from flowengine.runtime.tracing.recorder import Recorder


def executor_for(
    options: RunOptions | None, recorder: Recorder | None, device_name: str
) -> Callable[..., Executor]:
    """Return the maker of a step's executor; it takes the arguments of `Executor`.

    recorder   follows the step, if it is traced
    """
    # Other executors are imported by the first step that wants one: a plain program never has them.
    if recorder is not None:
        from flowengine.runtime.tracing.executor import TracedExecutor

        return partial(TracedExecutor, recorder=recorder, device_name=device_name)
    if options is None:
        return Executor
    if options.guard:
        from flowengine.runtime.guarding.guard import Guard
        from flowengine.runtime.guarding.watched import WatchedExecutor

        bounds = {} if options.guard is True else options.guard
        return partial(WatchedExecutor, watcher=Guard(bounds, options.guard_file))
    if options.observe is not None:
        from flowengine.runtime.guarding.observer import Observer
        from flowengine.runtime.guarding.watched import WatchedExecutor

        return partial(WatchedExecutor, watcher=Observer(options.observe))
    if options.stepper is not None:
        from flowengine.runtime.guarding.stepped import SteppedExecutor

        return partial(SteppedExecutor, control=options.stepper)
    return Executor


__all__ = ["executor_for"]
