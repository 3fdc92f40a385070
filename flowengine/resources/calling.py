"""How a resource calls a function of the graph: as a step of its own, run by whoever made its context."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Final, Protocol

from flowengine.core.arrays import Value
from flowengine.ir.attrs import FuncAttr
from flowengine.resources.container import ResourceManager

#: Whether the calls that a task makes run beside calls of other tasks, so that each is worth a thread of its
#: own where alone it would not be.
BESIDE_OTHERS: Final[ContextVar[bool]] = ContextVar("flowengine calls beside others", default=False)


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

    def of_rows(self, count: int) -> NamedFunction | None:
        """The function of many rows: its first `count` arguments and its results have one more first axis.

        None where the function is not known to say the same of each row by itself.
        """


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
        """What calls the functions of another library, in steps of the same session."""


__all__ = ["BESIDE_OTHERS", "FunctionCaller", "NamedFunction"]
