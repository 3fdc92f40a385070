"""Functions that resources call: each call is a step of its own, with all that a step has.

It has a number and a container, waits for turns as other steps do, has its heavy kernels on threads, becomes
compiled when it is hot, and is ended with the session. The body is planned when it is first called.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np

from flowengine.core.arrays import Value
from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.core.pieces import Piecework
from flowengine.ir.attrs import FuncAttr
from flowengine.resources.calling import FunctionCaller, NamedFunction
from flowengine.resources.container import ResourceManager
from flowengine.runtime.planning.functions import FunctionTable
from flowengine.runtime.planning.jobs import in_turns
from flowengine.runtime.planning.tiers import TieredPlan
from flowengine.runtime.step import StepRunner


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
        """A function by name and attributes."""
        return _Called(self._runner, self._table, function)

    def of_library(self, library: object) -> FunctionCaller:
        """What calls the functions of another library."""
        table = self._table.of_library(library)
        table.caller = StepCaller(self._runner, table, self.owner)
        return table.caller


class _Called:
    """One function. See `resources.calling.NamedFunction`."""

    __slots__ = ("_function", "_keeps", "_plans", "_rows", "_runner", "_table", "name")

    def __init__(
        self, runner: StepRunner, table: FunctionTable, function: FuncAttr, rows: int | None = None
    ) -> None:
        self.name = function.name
        #: How many of the arguments are rows; None where it is called for one.
        self._rows = rows
        self._runner = runner
        self._table = table
        self._function = function
        self._plans: TieredPlan | None = None
        #: Whether what it gives may be memory that somebody writes to later.
        self._keeps = False

    def of_rows(self, count: int) -> NamedFunction | None:
        try:
            body = self._table.rows_of(self._function, count)
        except OpError:
            return None  # the call itself knows how to tell what is wrong with the function
        return None if body is None else _Called(self._runner, self._table, self._function, count)

    async def _planned(self) -> TieredPlan:
        job = Piecework(self._table.planning(self._function, self._rows))
        await in_turns(job, self._runner.turns)
        plans = self._plans = job.result()
        nodes = plans.interpreted.graph
        self._keeps = any(node.op_def is None or node.op_def.is_stateful for node in nodes)
        return plans

    async def __call__(self, arguments: Sequence[Value], sequences: ResourceManager) -> tuple[Value, ...]:
        plans = self._plans
        if plans is None:
            plans = await self._planned()
        if len(arguments) != len(plans.interpreted.feeds):
            raise InvalidArgumentError(
                f"function '{self.name}' takes {len(plans.interpreted.feeds)} arguments; "
                f"{len(arguments)} are given"
            )
        runner = self._runner
        compiles = runner.settings.compiles_plans
        plan = plans.choose(arguments) if compiles else plans.interpreted
        started = perf_counter()
        results = await runner.run(plan, list(arguments), sequences=sequences)
        if compiles and plan is plans.interpreted and plans.ran(arguments, perf_counter() - started):
            await runner.compile_in_turns(plans)
        return tuple(map(_own, results)) if self._keeps else tuple(results)


def _own(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) and value.flags.writeable else value


__all__ = ["StepCaller"]
