"""Functions that resources call: each call is a complete step of its own.

It has a number and a container, waits for turns as other steps do, has its heavy kernels on threads, becomes
compiled when it is hot, and is ended with the session. The body is planned on the first call.

If nothing of a hot function waits, writes or needs the event loop's thread, it is called as a whole, several
calls in a run: see `planning/compiled_calls.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, Final, TypeAlias

import numpy as np

from flowengine.core.arrays import Value
from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.core.work_pieces import Pieces, Piecework
from flowengine.ir.attrs import FuncAttr
from flowengine.ir.graph import Node
from flowengine.resources.container import ResourceManager
from flowengine.resources.function_calls import (
    BESIDE_OTHERS,
    CallOutcome,
    FunctionCaller,
    NamedFunction,
    each_by_itself,
)
from flowengine.runtime.planning.compiled_calls import Give, Take, WholePlan, outcomes_of
from flowengine.runtime.planning.functions import FunctionTable
from flowengine.runtime.planning.planning_jobs import finish_in_turns, in_turns
from flowengine.runtime.planning.tiers import INLINE_NODES, TieredPlan
from flowengine.runtime.step import StepRunner

logger: Final = logging.getLogger("flowengine.runtime")

#: A call that is a step of its own, for these arguments.
Step: TypeAlias = Callable[[Sequence[Value]], Awaitable[Sequence[Value]]]


class StepCaller:
    """Calls the functions of one table in steps of one runner.

    owner   names the session; that of the runner if none is given
    """

    def __init__(self, runner: StepRunner, table: FunctionTable, owner: str | None = None) -> None:
        self._runner = runner
        self._table = table
        self.owner = runner.owner if owner is None else owner
        self.library: object = table.definitions

    def function(self, function: FuncAttr) -> NamedFunction:
        """Return a function by name and attributes."""
        return _PlannedFunction(self._runner, self._table, function)

    def of_library(self, library: object) -> FunctionCaller:
        """Return a caller for the functions of another library."""
        table = self._table.of_library(library)
        table.caller = StepCaller(self._runner, table, self.owner)
        return table.caller


class WholeCalls:
    """The calls of one plan: whole calls once it is known that they are possible, and until then steps.

    take   makes the feeds of the plan from a call's arguments
    give   makes a call's results from those of the plan
    """

    __slots__ = ("_doors", "_is_known", "_name", "_runner", "_whole")

    def __init__(self, runner: StepRunner, take: Take, give: Give, name: str = "") -> None:
        """`name`: that of the function, for traces."""
        settings = runner.settings
        self._name = name
        self._runner = runner
        self._doors = (take, give)
        self._whole: WholePlan | None = None
        #: Nothing more can be found out. If memory is counted, each kernel has to be.
        self._is_known = (
            not settings.compiles_plans or not settings.worker_threads or settings.counts_allocations
        )

    @property
    def run_length(self) -> int:
        """Return the best number of calls in one run; 1 if each is a step of its own."""
        return 1 if self._whole is None else self._whole.run_length

    async def outcomes(
        self, step: Step, calls: Sequence[Sequence[Value]], sequences: ResourceManager | None
    ) -> list[CallOutcome]:
        """Run calls and return their outcomes, in order.

        Calls that cannot be made as a whole run by `step`, one after the other.
        """
        whole = self._whole
        if whole is None:
            return await each_by_itself(step, calls)
        return await outcomes_of(
            self._runner,
            whole,
            calls,
            sequences,
            self._doors,
            is_beside_others=BESIDE_OTHERS.get(),
            name=self._name,
        )

    async def call(
        self, step: Step, arguments: Sequence[Value], sequences: ResourceManager | None
    ) -> Sequence[Value]:
        """Run one call and return its results; raises its error."""
        if self._whole is None:
            return await step(arguments)
        (outcome,) = await self.outcomes(step, (arguments,), sequences)
        return outcome.value()

    async def learn(self, plans: TieredPlan) -> None:
        """Check, after a step of these plans, whether they are hot, and can be called as a whole."""
        if self._is_known or not plans.learned.is_settled:
            return
        self._is_known = True
        job = Piecework(self._making(plans))
        try:
            await finish_in_turns(job, self._runner.turns)
        except Exception:
            # A fault of ours; the step has its results, and the next ones are made in the same way.
            logger.exception("a function of %d items could not be called as a whole", plans.nodes)
            return
        if job.is_over:
            self._whole = job.result()
        else:
            self._is_known = False  # the task that did it was cancelled: another call begins again

    def _making(self, plans: TieredPlan) -> Pieces[WholePlan | None]:
        items = plans.interpreted.items
        # A large one is compiled beside the event loop, and gains little.
        if plans.nodes > INLINE_NODES or any(item.is_product for item in items):
            return None
        if any(map(_has_effects, plans.interpreted.graph)):
            return None
        try:
            plan = yield from plans.making_whole()
        except OpError:
            return None  # a plan that cannot be made so runs as before
        return WholePlan.of(plan, 1e-6 * sum(item.times.microseconds for item in items))


def _has_effects(node: Node) -> bool:
    return node.op_def is None or node.op_def.is_stateful


class _PlannedFunction:
    """One function. See `resources.calling.NamedFunction`."""

    __slots__ = ("_calls", "_function", "_keeps", "_plans", "_rows", "_runner", "_table", "name")

    def __init__(
        self, runner: StepRunner, table: FunctionTable, function: FuncAttr, rows: int | None = None
    ) -> None:
        self.name = function.name
        #: The number of arguments that are rows; None if it is called for one row.
        self._rows = rows
        self._runner = runner
        self._table = table
        self._function = function
        self._plans: TieredPlan | None = None
        #: Whether its results may be memory that is written to later.
        self._keeps = False
        self._calls = WholeCalls(runner, self._taken, tuple, function.name)

    @property
    def run_length(self) -> int:
        return self._calls.run_length

    def of_rows(self, count: int) -> NamedFunction | None:
        try:
            body = self._table.rows_of(self._function, count)
        except OpError:
            return None  # the call itself reports the fault of the function
        return None if body is None else _PlannedFunction(self._runner, self._table, self._function, count)

    async def _planned(self) -> TieredPlan:
        job = Piecework(self._table.planning(self._function, self._rows))
        await in_turns(job, self._runner.turns)
        plans = self._plans = job.result()
        self._keeps = any(map(_has_effects, plans.interpreted.graph))
        return plans

    async def __call__(self, arguments: Sequence[Value], sequences: ResourceManager) -> tuple[Value, ...]:
        return tuple(await self._calls.call(self._stepping(sequences), arguments, sequences))

    async def outcomes(
        self, calls: Sequence[Sequence[Value]], sequences: ResourceManager
    ) -> list[CallOutcome]:
        return await self._calls.outcomes(self._stepping(sequences), calls, sequences)

    def _stepping(self, sequences: ResourceManager) -> Step:
        return partial(self._step, sequences)

    def _taken(self, arguments: Sequence[Value]) -> list[Any]:
        """Return the values to feed to the plan."""
        assert self._plans is not None, "it was called before"
        count = len(self._plans.interpreted.feeds)
        if len(arguments) != count:
            raise InvalidArgumentError(
                f"function '{self.name}' takes {count} arguments; {len(arguments)} are given"
            )
        return list(arguments)

    async def _step(self, sequences: ResourceManager, arguments: Sequence[Value]) -> tuple[Value, ...]:
        """Run a call as a step."""
        plans = self._plans
        if plans is None:
            plans = await self._planned()
        feeds = self._taken(arguments)
        runner = self._runner
        compiles = runner.settings.compiles_plans
        plan = plans.choose(arguments) if compiles else plans.interpreted
        started, recorder = perf_counter(), runner.recorder
        results = await runner.run(plan, feeds, sequences=sequences, recorder=recorder)
        if recorder is not None:
            recorder.called(self.name, runner.device.name, "", started)
        if compiles and plan is plans.interpreted and plans.ran(arguments, perf_counter() - started):
            await runner.compile_in_turns(plans)
        await self._calls.learn(plans)
        return tuple(map(_own, results)) if self._keeps else tuple(results)


def _own(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) and value.flags.writeable else value


__all__ = ["StepCaller", "WholeCalls"]
