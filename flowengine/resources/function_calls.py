"""How a resource calls a function of the graph: as a step of its own, run by whoever made its context."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Final, NamedTuple, Protocol

from flowengine.core.accounting import bytes_at_most
from flowengine.core.arrays import Value
from flowengine.core.errors import OpError
from flowengine.ir.attrs import FuncAttr
from flowengine.resources.container import ResourceManager

#: Whether the calls that a task makes run beside calls of other tasks, so that each is worth a thread of its
#: own where alone it would not be.
BESIDE_OTHERS: Final[ContextVar[bool]] = ContextVar("flowengine calls beside others", default=False)


class CallOutcome(NamedTuple):
    """The outcome of one call.

    results   none where it failed
    error     None where it did not
    bytes     of the results
    """

    results: tuple[Value, ...]
    error: OpError | None
    bytes: int

    def value(self) -> tuple[Value, ...]:
        """The results, or the error raised."""
        if self.error is not None:
            raise self.error
        return self.results


async def each_by_itself(
    call: Callable[[Sequence[Value]], Awaitable[Sequence[Value]]], calls: Sequence[Sequence[Value]]
) -> list[CallOutcome]:
    """Make calls one after the other, and return their outcomes; an error is that call's outcome."""
    outcomes: list[CallOutcome] = []
    for arguments in calls:
        try:
            results = tuple(await call(arguments))
        except OpError as error:
            outcomes.append(CallOutcome((), error, 0))
        else:
            outcomes.append(CallOutcome(results, None, sum(map(bytes_at_most, results))))
    return outcomes


class NamedFunction(Protocol):
    """One function of a graph, ready to be called any number of times, at the same time too.

    name   in the graph's library
    """

    name: str

    async def __call__(self, arguments: Sequence[Value], sequences: ResourceManager) -> tuple[Value, ...]:
        """The results for these arguments, in memory that nobody else writes to.

        sequences   where the random nodes of the body keep their places

        The call is a step with a number and a container of its own, within the session's limits. Raises
        the step's error. Cancelled, it leaves the effects of nodes that had completed.
        """

    @property
    def run_length(self) -> int:
        """How many calls are best made as one run; 1 where each is a step of its own."""

    async def outcomes(
        self, calls: Sequence[Sequence[Value]], sequences: ResourceManager
    ) -> list[CallOutcome]:
        """Make several calls one after the other, and return their outcomes in order. See `__call__`.

        calls   the arguments of each

        What goes wrong with a call is its outcome; the others go on. Cancelled, the rest is not made.
        """

    def of_rows(self, count: int) -> NamedFunction | None:
        """The function of many rows: its first `count` arguments and its results have one more first axis.

        None where the function is not known to say the same of each row by itself.
        """


class StepCalls(ABC):
    """A function whose calls are made one by one, as steps are. See `NamedFunction`."""

    run_length = 1

    @abstractmethod
    async def __call__(self, arguments: Sequence[Value], sequences: ResourceManager) -> tuple[Value, ...]:
        """The results for these arguments."""

    async def outcomes(
        self, calls: Sequence[Sequence[Value]], sequences: ResourceManager
    ) -> list[CallOutcome]:
        """Make several calls one after the other, and return their outcomes."""
        return await each_by_itself(lambda arguments: self(arguments, sequences), calls)


class FunctionCaller(Protocol):
    """Calls the functions of one graph.

    owner     names the session that steps belong to; unique in this process
    library   the functions, as the graph holds them
    """

    owner: str
    library: object

    def function(self, function: FuncAttr) -> NamedFunction:
        """A function by name and attributes. Whether there is such a one is told by the first call."""

    def of_library(self, library: object) -> FunctionCaller:
        """Return a caller of another library's functions, in steps of the same session."""


__all__ = ["BESIDE_OTHERS", "CallOutcome", "FunctionCaller", "NamedFunction", "StepCalls", "each_by_itself"]
