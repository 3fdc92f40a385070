"""Offloaded runs: parts of a step that a worker thread runs by itself, item after item.

The layers of a network take a millisecond or less, and each needs the one before it. If the event loop passed
them to a thread one by one, each would take 0.12 to 0.22 ms more, in which the library's own threads fall
asleep. If some ran on the event loop's thread and some on the worker, the library would keep two sets of
threads, which compete for the cores. So if a plan's products take long enough together, a thread gets the
whole executor. It runs ready items until one needs the event loop, or until somebody asks for the executor.

The thread owns the executor during an offloaded run (`lanes.py`). Tensors and results that arrive for the
step from outside wait until the run is over, so the items that become ready in it depend on nothing else.

A sequence of layers may take a tenth of a second. It is suspended when the offloaded run ends, and the next
run resumes it.

The same holds for variables. Those that the step may still write are reserved for the offloaded run. Those
that it only reads are lent to it with the values that they have at its beginning, which are as valid as any
later ones. An item whose variable is not available is left to the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from time import perf_counter
from typing import Any, Final

from flowengine.core.arrays import Value
from flowengine.core.errors import FailedPreconditionError
from flowengine.resources.variable import Variable
from flowengine.runtime.lanes import Ownership
from flowengine.runtime.planning.items import Item
from flowengine.runtime.planning.offloaded_run_items import READS, TAKES, OffloadedItems
from flowengine.runtime.state import ExecutorState
from flowengine.runtime.token_propagation import ReadyEntry

#: The duration of an offloaded run while jobs of other steps wait for the thread.
_SHARE_SECONDS: Final = 0.005
#: The interval at which a body asks whether it must pause.
LOOK_SECONDS: Final = 0.002
#: Items that are left to the event loop come first there.
_FIRST: Final = 1 << 41


class ReadOnlyVariable:
    """A variable as the code of a region that only reads it sees it."""

    __slots__ = ("_value",)

    def __init__(self, value: Value) -> None:
        self._value = value

    def read(self) -> Value:
        return self._value


class OffloadedRun:
    """The variables and items that a compute thread holds while it has a step's executor.

    Made and ended on the event loop's thread.

    items   facts about the plan's items
    """

    __slots__ = ("_held", "_is_wanted", "_kept", "_lanes", "_lent", "_shared_from", "_state", "items")

    def __init__(
        self, items: OffloadedItems, state: ExecutorState, lanes: Ownership, is_wanted: Callable[[], bool]
    ) -> None:
        """Reserve variables; call `end` after the run.

        is_wanted   whether others wait for the thread
        """
        self.items = items
        self._state = state
        self._lanes = lanes
        self._is_wanted = is_wanted
        self._shared_from = perf_counter() + _SHARE_SECONDS
        #: An item that only the event loop can run.
        self._kept: list[ReadyEntry] = []
        self._held: list[Variable] = []
        self._lent: dict[Variable, Value] = {}
        self._take_variables()

    @property
    def holds_variables(self) -> bool:
        """Return whether a variable may be half written until it has run."""
        return bool(self._held)

    def _take_variables(self) -> None:
        """Reserve or borrow the variables of the root frame's items that have not run."""
        root = self._state.root
        pending, entries = root.pending, root.entries
        ready = {item for _, _, item, iteration in self._state.ready if iteration is root}
        written: dict[Variable, None] = {}
        read: dict[Variable, None] = {}
        for item, uses in self.items.at_root:
            if not pending[item.local] and item not in ready:
                continue  # it has run
            for slot, use in uses:
                value = entries[item.start + slot]
                if isinstance(value, Variable):
                    (written if use == TAKES else read)[value] = None
        for variable in written:
            if variable.acquire(self, self._lanes.recall):
                self._held.append(variable)
        for variable in read:
            if variable.writer is None:
                try:
                    self._lent[variable] = variable.read()
                except FailedPreconditionError:
                    continue  # its reader will report it

    # -- on the compute thread ----------------------------------------------------------------------

    def is_over(self) -> bool:
        """Return whether somebody wants the executor, or others have waited long enough for the thread."""
        return self._lanes.is_recalled or (perf_counter() > self._shared_from and self._is_wanted())

    def leaves(self, item: Item) -> bool:
        """Return whether only the event loop can run an item."""
        return item not in self.items.free

    def resolve(self, item: Item, args: list[Any]) -> bool:
        """Replace the variables that an item reads by their values.

        Returns False, and does nothing, if the offloaded run lacks some of its variables or resources.
        """
        given = args[:]
        for slot, use in self.items.variables.get(item, ()):
            value = args[slot]
            if not isinstance(value, Variable):
                return False
            if value.writer is self:
                if use == READS:
                    given[slot] = value.read()
            elif use == TAKES or value not in self._lent:
                return False
            else:
                lent = self._lent[value]
                given[slot] = lent if use == READS else ReadOnlyVariable(lent)
        args[:] = given
        return True

    def keep(self, entry: ReadyEntry) -> None:
        """Leave an item, its inputs in place, to the event loop, which runs it before all others."""
        self._kept.append(entry)

    # -- on the event loop's thread -----------------------------------------------------------------

    def end(self) -> None:
        """Release everything after the run."""
        for order, serial, item, iteration in self._kept:
            heappush(self._state.ready, (order - _FIRST, serial, item, iteration))
        self._kept.clear()
        self._lent.clear()
        held, self._held = self._held, []
        for variable in held:
            variable.release()


__all__ = ["LOOK_SECONDS", "OffloadedRun", "ReadOnlyVariable"]
