"""Stretches: parts of a step that a worker thread runs by itself, item after item.

The layers of a network take a millisecond or less and wait for each other. Handed over one by one, each costs
the way to a thread and back, 0.12 to 0.22 ms, in which the library's own threads fall asleep; run here and
there, on the event loop's thread and on the worker, they keep two sets of such threads, which fight for the
cores. So where a plan's products take long together, a thread is given the executor as it is: it takes ready
items and finishes them, until there is one that only the event loop can run, or somebody asks.

While a stretch runs the executor is the thread's. What comes for the step from outside meanwhile is put off
until it is over, so whatever becomes ready in a stretch depends on nothing that happens beside it.

A sequence of layers may take a tenth of a second. It is suspended where the stretch ends, and the next one
goes on with it.

That settles variables too. Those that the step may yet write are reserved for the stretch; those that it only
reads are lent to it as they are when it begins, which is as good a moment as any later one. An item with a
variable that could not be had is left to the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from time import perf_counter
from typing import Any, Final

from flowengine.core.arrays import Value
from flowengine.core.errors import FailedPreconditionError
from flowengine.kernels.numpy.sequences import Progress, Sequence, as_outputs
from flowengine.resources.variable import Variable
from flowengine.runtime.frames import IterationState
from flowengine.runtime.heavy import ALONE_MICROSECONDS, HEAVY_MICROSECONDS
from flowengine.runtime.items import Item, Kind, grouped
from flowengine.runtime.state import ExecutorState, ReadyEntry
from flowengine.runtime.stretch_items import READS, TAKES, StretchItems

#: How long a stretch goes on while jobs of other steps wait for the thread.
_SHARE_SECONDS: Final = 0.005
#: How often a sequence asks whether it shall be suspended.
_LOOK_SECONDS: Final = 0.002
#: What is left to the event loop comes before anything else there.
_FIRST: Final = 1 << 41


class Lent:
    """A variable as a region's code sees it that only reads it."""

    __slots__ = ("_value",)

    def __init__(self, value: Value) -> None:
        self._value = value

    def read(self) -> Value:
        return self._value


class Stretch:
    """One stretch of one step. Made and ended on the event loop's thread, run on another.

    is_recalled  whether somebody asked it to end
    deferred     what is to be called when it is over
    ends         from when on a sequence is to ask whether it `is_over`: see `pieces.Turn`
    heavy_items  how many kernels it ran that were worth a thread
    """

    __slots__ = (
        "_first",
        "_held",
        "_is_wanted",
        "_items",
        "_kept",
        "_lent",
        "_shared_from",
        "_state",
        "deferred",
        "ends",
        "heavy_items",
        "is_recalled",
    )

    def __init__(
        self, items: StretchItems, state: ExecutorState, first: tuple[Item, IterationState, list[Any]]
    ) -> None:
        """`first` begins it, an item that has its inputs. Reserves variables: `end` it once it has run."""
        self._items = items
        self._state = state
        self._first: tuple[Item, IterationState, list[Any]] | None = first
        self.is_recalled = False
        #: What only the event loop can run.
        self._kept: list[ReadyEntry] = []
        self._held: list[Variable] = []
        self._lent: dict[Variable, Value] = {}
        self.deferred: list[Callable[[], None]] = []
        self.heavy_items = 0
        self.ends = self._shared_from = 0.0
        self._is_wanted: Callable[[], bool] = bool
        self._take_variables()

    @property
    def holds_variables(self) -> bool:
        """Whether something may be half written until it has run."""
        return bool(self._held)

    def _take_variables(self) -> None:
        """Reserve or borrow what the items of the root frame need that have not run."""
        root = self._state.root
        pending, entries = root.pending, root.entries
        ready = {item for _, _, item, iteration in self._state.ready if iteration is root}
        written: dict[Variable, None] = {}
        read: dict[Variable, None] = {}
        for item, uses in self._items.at_root:
            if not pending[item.local] and item not in ready:
                continue  # it has run
            for slot, use in uses:
                value = entries[item.start + slot]
                if isinstance(value, Variable):
                    (written if use == TAKES else read)[value] = None
        for variable in written:
            if variable.acquire(self, self.recall):
                self._held.append(variable)
        for variable in read:
            if variable.writer is None:
                try:
                    self._lent[variable] = variable.read()
                except FailedPreconditionError:
                    continue  # whoever reads it will say so

    # -- on the worker thread -----------------------------------------------------------------------

    def run(
        self,
        run_other: Callable[[Item, IterationState], None],
        located: Callable[[Exception, Item, IterationState, Any], Exception],
        is_wanted: Callable[[], bool],
    ) -> None:
        """Run items until there are no more of them here. Raises what ends the step.

        run_other  runs what is no kernel: regions and control flow
        located    makes an error say where it came up
        is_wanted  whether others wait for this thread
        """
        state, ready, free, kept = self._state, self._state.ready, self._items.free, self._kept
        suspended = state.suspended
        variables, sequences = self._items.variables, self._items.sequences
        began = perf_counter()
        self.ends = began + _LOOK_SECONDS
        self._shared_from = ends = began + _SHARE_SECONDS
        self._is_wanted = is_wanted
        first, self._first = self._first, None
        assert first is not None, "a stretch runs once"
        item, iteration, args = first
        # Or its inputs would live as long as this does.
        del first
        while True:
            began = perf_counter()
            before = 0.0
            try:
                if item in sequences:
                    outputs, before = self._run_sequence(sequences[item], args)
                else:
                    outputs = item.function(*grouped(item, args))
            except Exception as error:
                raise located(error, item, iteration, args) from error
            args.clear()
            ended = perf_counter()
            if type(outputs) is Progress:
                outputs.seconds = ended - began + before
                self._suspend(item, iteration, outputs)
                return
            item.times.microseconds = took = 1e6 * (ended - began + before)
            if took > HEAVY_MICROSECONDS:
                self.heavy_items += 1
                if took > ALONE_MICROSECONDS:
                    item.times.was_heavy = True
            if item.single:
                state.finish_single(item, iteration, outputs)
            else:
                state.finish(item, iteration, () if outputs is None else outputs)
            # Or what a kernel gave would outlive its consumers.
            outputs = None
            while True:
                if not ready or self.is_recalled or (ended > ends and is_wanted()):
                    return
                entry = heappop(ready)
                _, _, item, iteration = entry
                dead = iteration.dead
                if dead is not None and item.local in dead and not item.runs_dead:
                    state.finish_dead(item, iteration)
                elif item not in free:
                    kept.append(entry)
                    return
                elif item in sequences and (item.order, iteration.serial) in suspended:
                    args = [suspended.pop((item.order, iteration.serial))]
                    break
                elif item.kind <= Kind.GENERAL:
                    start, stop = item.start, item.stop
                    entries = iteration.entries
                    args = entries[start:stop]
                    for index in range(start, stop):
                        entries[index] = None
                    if item not in variables or self.resolve(item, iteration, args):
                        break
                    return
                elif item.kind == Kind.MERGE:
                    state.finish_merge(item, iteration)
                else:
                    run_other(item, iteration)
                    ended = perf_counter()
                    if kept:
                        return

    def _run_sequence(self, sequence: Sequence, args: list[Any]) -> tuple[Any, float]:
        """(what a sequence gives, or how far it has come; the seconds that it took before this stretch)."""
        made: list[Any] | Progress
        before = 0.0
        if type(args[0]) is Progress:
            before = args[0].seconds
            made = sequence.go_on(args[0], self)
        else:
            made = sequence.begin(args, self)
        return (made if isinstance(made, Progress) else as_outputs(made)), before

    def _suspend(self, item: Item, iteration: IterationState, progress: Progress) -> None:
        """Let the next stretch go on with a sequence."""
        self._state.suspended[item.order, iteration.serial] = progress
        heappush(self._state.ready, (item.order, iteration.serial, item, iteration))

    def is_over(self) -> bool:
        """Whether a sequence is to be suspended: see `pieces.Turn`."""
        now = perf_counter()
        self.ends = now + _LOOK_SECONDS
        return self.is_recalled or (now > self._shared_from and self._is_wanted())

    def resolve(self, item: Item, iteration: IterationState, args: list[Any]) -> bool:
        """Put the values of variables in place of those that an item reads.

        False where a variable, or another resource, is not the stretch's: the item is put back as it was.
        """
        given = args[:]
        for slot, use in self._items.variables[item]:
            value = args[slot]
            if not isinstance(value, Variable):
                return self._keep(item, iteration, args)
            if value.writer is self:
                if use == READS:
                    given[slot] = value.read()
            elif use == TAKES or value not in self._lent:
                return self._keep(item, iteration, args)
            else:
                lent = self._lent[value]
                given[slot] = lent if use == READS else Lent(lent)
        args[:] = given
        return True

    def _keep(self, item: Item, iteration: IterationState, args: list[Any]) -> bool:
        iteration.entries[item.start : item.stop] = args
        self._kept.append((item.order, iteration.serial, item, iteration))
        return False

    # -- on the event loop's thread -----------------------------------------------------------------

    def recall(self) -> None:
        """End the stretch after the item that runs."""
        self.is_recalled = True

    def put_off(self, call: Callable[[], None]) -> None:
        """Have something done to the executor as soon as that can be."""
        self.deferred.append(call)
        self.is_recalled = True

    def end(self) -> None:
        """Give everything back: it has run."""
        for order, serial, item, iteration in self._kept:
            heappush(self._state.ready, (order - _FIRST, serial, item, iteration))
        self._kept.clear()
        self._lent.clear()
        held, self._held = self._held, []
        for variable in held:
            variable.release()


__all__ = ["Lent", "Stretch"]
