"""The executor of a watched step: it shows a watcher every value that a node makes.

A watched step, and the functions that it calls, run the plans that were not compiled, whose values are those
of the compiled ones to the bit. Nothing is changed: a step gives what it gives without a watcher, unless the
watcher raises an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

from flowengine.devices.device import Device
from flowengine.resources.variable import Variable
from flowengine.runtime.executor import Executor
from flowengine.runtime.failures import cause_of
from flowengine.runtime.frames import IterationState
from flowengine.runtime.guarding.value_checks import COPY_OUT
from flowengine.runtime.offload import Offload
from flowengine.runtime.offload_policy import HeavyJobs
from flowengine.runtime.planning.functions import Done
from flowengine.runtime.planning.items import Item
from flowengine.runtime.planning.plan import Plan
from flowengine.runtime.ready_loop import NOT_NOW
from flowengine.runtime.threads import Job

#: ((frame name, iteration), ...) from the outermost loop in.
Tag = tuple[tuple[str, int], ...]


@contextmanager
def copying_out(hardware: Device | None) -> Iterator[None]:
    """Let watchers see values in the memory of a device, if it has its own, as arrays of NumPy."""
    token = COPY_OUT.set(None if hardware is None else hardware.copy_out)
    try:
        yield
    finally:
        COPY_OUT.reset(token)


class StepWatcher(Protocol):
    """The object that sees the values of a step."""

    def before(self, item: Item, inputs: Sequence[Any]) -> Any:
        """Look at the inputs of an item before it runs; the result is given to `look`."""

    def look(
        self, item: Item, tag: Tag, inputs: Sequence[Any], outputs: Any, found_before: Any = None
    ) -> None:
        """Look at the outputs of an item. An OpError ends the step."""


class WatchedExecutor(Executor):
    """One run of a plan that a watcher sees."""

    def __init__(self, *arguments: Any, watcher: StepWatcher, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.watcher = watcher
        #: {key of an item that may wait: its inputs}
        self._inputs: dict[tuple[int, int], Sequence[Any]] = {}

    def _looked(
        self,
        item: Item,
        iteration: IterationState,
        inputs: Sequence[Any],
        outputs: Any,
        found_before: Any = None,
    ) -> Any:
        """Return the outputs of an item, which the watcher has seen."""
        try:
            with copying_out(self.context.hardware):
                self.watcher.look(item, iteration.tag(), inputs, outputs, found_before)
        except Exception as error:
            raise self.failure(error, item, iteration, inputs) from cause_of(error)
        return outputs

    # -- kernels ------------------------------------------------------------------------------------

    def _run_unary(self, item: Item, iteration: IterationState) -> Any:
        inputs = iteration.entries[item.start : item.stop]
        value = super()._run_unary(item, iteration)
        return value if value is NOT_NOW else self._looked(item, iteration, inputs, value)

    def _run_binary(self, item: Item, iteration: IterationState) -> Any:
        inputs = iteration.entries[item.start : item.stop]
        value = super()._run_binary(item, iteration)
        return value if value is NOT_NOW else self._looked(item, iteration, inputs, value)

    def call(self, item: Item, iteration: IterationState, args: list[Any]) -> Any:
        inputs = args[:]
        with copying_out(self.context.hardware):
            found_before = self.watcher.before(item, inputs)
        outputs = super().call(item, iteration, args)
        return self._looked(item, iteration, inputs, outputs, found_before)

    # -- functions ----------------------------------------------------------------------------------

    def run_body(
        self,
        item: Item,
        iteration: IterationState,
        args: list[Any],
        plan: Plan,
        values: Sequence[Any],
        done: Done,
    ) -> Sequence[Any] | None:
        plain = plan if plan.unfused is None else plan.unfused
        return super().run_body(item, iteration, args, plain, values, done)

    # -- threads and tasks ------------------------------------------------------------------------------

    def _own_offload(self) -> Offload:
        if self.offload is None:
            super()._own_offload().jobs = WatchedJobs(self.watcher, self.context.hardware)
        assert self.offload is not None
        return self.offload

    def begin_async(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        self._inputs[item.order, iteration.serial] = args
        super().begin_async(item, iteration, args)

    def _complete(self, item: Item, iteration: IterationState, outputs: Any) -> None:
        inputs = self._inputs.pop((item.order, iteration.serial), ())
        super()._complete(item, iteration, self._looked(item, iteration, inputs, outputs))


class WatchedJobs(HeavyJobs):
    """The kernels of a watched step on threads, which show their outputs there."""

    __slots__ = ("_hardware", "_watcher")

    def __init__(self, watcher: StepWatcher, hardware: Device | None) -> None:
        super().__init__()
        self._watcher = watcher
        self._hardware = hardware

    def submit(
        self,
        job: Job,
        item: Item,
        iteration: IterationState,
        held: tuple[Variable, ...] = (),
        args: list[Any] | None = None,
    ) -> None:
        if args is not None:
            inputs = args[:]
            with copying_out(self._hardware):
                found_before = self._watcher.before(item, inputs)
            job.function = partial(self._looked, job.function, item, iteration.tag(), inputs, found_before)
        super().submit(job, item, iteration, held, args)

    def _looked(
        self,
        function: Callable[..., Any],
        item: Item,
        tag: Tag,
        inputs: Sequence[Any],
        found_before: Any,
        *arguments: Any,
        **keywords: Any,
    ) -> Any:
        outputs = function(*arguments, **keywords)
        with copying_out(self._hardware):
            self._watcher.look(item, tag, inputs, outputs, found_before)
        return outputs


__all__ = ["StepWatcher", "Tag", "WatchedExecutor", "WatchedJobs", "copying_out"]
