"""The executor of a guarded step: it looks at every value that a node makes, and ends at the first bad one.

A guarded step runs the plan that was not compiled, whose values are those of the compiled one to the bit.
Blocks that are left, which are bodies of functions, run as copies that show each member's value. Nothing is
changed: a step without a fault gives what it gives without the guard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from flowengine.core.errors import InvalidArgumentError
from flowengine.passes.blocks.compiled_regions import Blame, CompiledRegion, WatchedRegion
from flowengine.resources.variable import Variable
from flowengine.runtime.executor import Executor
from flowengine.runtime.failures import cause_of
from flowengine.runtime.frames import IterationState
from flowengine.runtime.guarding.value_checks import Bounds, array_of, digest, fault_of, is_finite
from flowengine.runtime.offload import Offload
from flowengine.runtime.offload_policy import HeavyJobs
from flowengine.runtime.planning.items import Item
from flowengine.runtime.planning.timings import PlanTimes
from flowengine.runtime.ready_loop import NOT_NOW
from flowengine.runtime.resumable_blocks import Body, LoopBody
from flowengine.runtime.threads import Job


@dataclass(frozen=True, slots=True)
class Guard:
    """The request of `RunOptions(guard=...)`.

    bounds   {pattern of node names: (least, largest value)}
    file     gets the inputs and outputs of the node that is found, as a .npz file; None for none
    """

    bounds: Bounds = field(default_factory=dict)
    file: str | None = None

    def before(self, item: Item, inputs: Sequence[Any]) -> bool | None:
        """Return whether the inputs of an item that writes some of them are finite; None for any other."""
        return all(map(is_finite, inputs)) if item.mutates else None

    def look(self, item: Item, inputs: Sequence[Any], outputs: Any, were_finite: bool | None = None) -> None:
        """Look at the outputs of an item.

        were_finite   the result of `before`

        Raises InvalidArgumentError if one is not finite though all inputs were, or is out of its bounds.
        """
        made = () if outputs is None else (outputs,) if item.single else tuple(outputs)
        if item.mutates:
            made += tuple(value for value in inputs if isinstance(value, Variable))
        self.judge(item.name, inputs, made, were_finite)

    def judge(
        self, name: str, inputs: Sequence[Any], made: Sequence[Any], were_finite: bool | None = None
    ) -> None:
        """Do the same for a node by its name and all values that it has made."""
        fault = fault_of(name, made, self.bounds)
        if fault is None or (
            not fault.is_of_bounds
            and not (all(map(is_finite, inputs)) if were_finite is None else were_finite)
        ):
            return
        known = "".join(f"; input {slot}: {digest(value)}" for slot, value in enumerate(inputs))
        error = InvalidArgumentError(f"guard: output {fault.slot} has {fault.reason}{known}")
        if self.file is not None:
            self._keep(error, inputs, made)
        raise error

    def _keep(self, error: InvalidArgumentError, inputs: Sequence[Any], made: Sequence[Any]) -> None:
        assert self.file is not None
        arrays: Mapping[str, Any] = {
            f"{side}_{slot}": array_of(value)
            for side, values in (("input", inputs), ("output", made))
            for slot, value in enumerate(values)
            if array_of(value) is not None
        }
        try:
            np.savez(Path(self.file), **arrays)
        except OSError as failure:
            error.add_note(f"its values could not be kept in {self.file}: {failure.strerror}")
        else:
            error.add_note(f"its inputs and outputs are in {self.file}")


class GuardedExecutor(Executor):
    """One run of a plan under a guard."""

    def __init__(self, *arguments: Any, guard: Guard, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.guard = guard
        #: {key of an item that may wait: its inputs}
        self._inputs: dict[tuple[int, int], Sequence[Any]] = {}

    def _looked(
        self,
        item: Item,
        iteration: IterationState,
        inputs: Sequence[Any],
        outputs: Any,
        were_finite: bool | None = None,
    ) -> Any:
        """Return the outputs of an item, which the guard lets pass."""
        try:
            self.guard.look(item, inputs, outputs, were_finite)
        except InvalidArgumentError as error:
            raise self.failure(error, item, iteration, inputs) from None
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
        were_finite = self.guard.before(item, inputs)
        outputs = super().call(item, iteration, args)
        return self._looked(item, iteration, inputs, outputs, were_finite)

    # -- blocks of functions ----------------------------------------------------------------------------

    def _watched(self, item: Item) -> Callable[[list[Any], Any], Any]:
        region: WatchedRegion = item.region.watched()

        def watch(number: int, made: Any, *inputs: Any) -> None:
            self.guard.judge(region.marked[number].name, inputs, (made,))

        return lambda args, context: region.call(args, context, watch)

    def call_region(self, item: Item, iteration: IterationState, args: list[Any], times: PlanTimes) -> Any:
        try:
            return self._watched(item)(args, self.context if item.region.takes_context else None)
        except Exception as error:
            raise self.region_failure(error, item, iteration) from cause_of(error)

    def begin_body(self, item: Item, iteration: IterationState, body: Body, args: list[Any]) -> None:
        if isinstance(body, LoopBody):
            body = LoopBody(item, self.context, self.plan.times, self, self._watched(item))
        super().begin_body(item, iteration, body, args)

    def blame(self, error: Exception, item: Item) -> Blame | None:
        return cast(CompiledRegion, item.region).watched().blame(error.__traceback__)

    # -- threads and tasks ------------------------------------------------------------------------------

    def _own_offload(self) -> Offload:
        if self.offload is None:
            super()._own_offload().jobs = GuardedJobs(self.guard)
        assert self.offload is not None
        return self.offload

    def begin_async(self, item: Item, iteration: IterationState, args: list[Any]) -> None:
        self._inputs[item.order, iteration.serial] = args
        super().begin_async(item, iteration, args)

    def _complete(self, item: Item, iteration: IterationState, outputs: Any) -> None:
        inputs = self._inputs.pop((item.order, iteration.serial), ())
        super()._complete(item, iteration, self._looked(item, iteration, inputs, outputs))


class GuardedJobs(HeavyJobs):
    """The kernels of a guarded step on threads, which look at their outputs there."""

    __slots__ = ("_guard",)

    def __init__(self, guard: Guard) -> None:
        super().__init__()
        self._guard = guard

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
            job.function = partial(self._looked, job.function, item, inputs, self._guard.before(item, inputs))
        super().submit(job, item, iteration, held, args)

    def _looked(
        self,
        function: Callable[..., Any],
        item: Item,
        inputs: Sequence[Any],
        were_finite: bool | None,
        *arguments: Any,
        **keywords: Any,
    ) -> Any:
        outputs = function(*arguments, **keywords)
        self._guard.look(item, inputs, outputs, were_finite)
        return outputs


__all__ = ["Guard", "GuardedExecutor", "GuardedJobs"]
