"""Bodies: the resumable form of a block that is more than one call.

Most blocks are a plain function: compiled code without a loop, a kernel. A block that can loop, meet a
variable that is being written, or outlast a slice follows one protocol instead:

    outcome = body.begin(inputs, turn)        # and as long as it returns TURN or PARKED
    outcome = body.resume(turn)               # on any thread, one at a time
    body.close()                              # between members; the step has ended, or the body is done

A body that is not running holds no lock and no reservation. When closed, it releases its values; work that
its members have done stays done. A compiled loop is one (`LoopBody`), a sequence of layers the other
(`SequenceBody`). A function's body that is one block is called as one, with no frame, no counts and no ready
items (`OneRegion`): its way through the state machine takes 8 us, a call takes one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from flowengine.core.arrays import DEAD
from flowengine.ir.graph import OutputPort
from flowengine.kernels.common.pieces import Turn
from flowengine.kernels.numpy.sequences import Progress, as_outputs
from flowengine.kernels.numpy.sequences import Sequence as Layers
from flowengine.resources.variable import Variable
from flowengine.runtime.planning.items import Edge, Item, Kind, MergeEdge, StaticFrame
from flowengine.runtime.planning.timings import PlanTimes

if TYPE_CHECKING:
    from flowengine.runtime.frames import IterationState

#: The outcomes of a body: it has its outputs; its time is up; a member needs a variable that is being
#: written, and nothing of that member has happened.
DONE, TURN, PARKED = range(3)

#: An iteration of a compiled loop that takes longer, time after time, should have been on a thread.
_SLOW_ITERATION_SECONDS: Final = 0.005
#: Iterations are counted in twos up to so many while they take less than the first, and down again above
#: the second.
_MASK_MAX: Final = 4095
_SHORT_SECONDS: Final = 0.0001
_LONG_SECONDS: Final = 0.0005


class Outcome(NamedTuple):
    """The progress of a body.

    value   DONE: its outputs, as those of a kernel; PARKED: the variable
    """

    kind: int
    value: Any = None


_TURN: Final = Outcome(TURN)


class Body(Protocol):
    """One execution of a block.

    seconds   its time, which its runner counts
    """

    seconds: float

    def begin(self, inputs: list[Any], turn: Turn) -> Outcome:
        """Run until it is done, or its turn is over. Empties `inputs`. Raises the errors of members."""

    def resume(self, turn: Turn) -> Outcome:
        """Continue from there, as `begin` does."""

    def close(self) -> None:
        """Release all values. Without effect on a body that is closed, or done."""


class LoopBody:
    """A compiled block with a loop.

    Its code is a generator that yields between iterations, every `mask + 1` of them, a power of two that is
    fitted here to their time. It yields the mask, because each loop of a block has its own.
    """

    __slots__ = (
        "_call",
        "_context",
        "_generator",
        "_item",
        "_mask",
        "_step",
        "_times",
        "_variables",
        "_was_slow",
        "seconds",
    )

    def __init__(
        self,
        item: Item,
        context: Any,
        times: PlanTimes,
        step: object,
        call: Callable[..., Any] | None = None,
    ) -> None:
        """
        times   counts slow iterations
        step    the step whose own writes to variables do not stop it
        call    the code of the block, if it is another one than the plan's
        """
        self.seconds = 0.0
        self._item = item
        self._call = item.region.call if call is None else call
        self._context = context
        self._times = times
        self._step = step
        self._generator: Generator[int, int | None, Any] | None = None
        self._variables: tuple[Variable, ...] = ()
        #: The number of iterations less one before it yields; None before the first.
        self._mask: int | None = None
        #: Whether one iteration alone took long.
        self._was_slow = False

    def begin(self, inputs: list[Any], turn: Turn) -> Outcome:
        if self._item.mutates:
            self._variables = tuple(value for value in inputs if isinstance(value, Variable))
        self._generator = self._call(inputs, self._context)
        return self.resume(turn)

    def resume(self, turn: Turn) -> Outcome:
        for variable in self._variables:
            # The variables that it may read or write: another step's thread may have begun to while the loop
            # paused.
            if variable.writer is not None and variable.writer is not self._step:
                return Outcome(PARKED, variable)
        try:
            self._advance(turn)
        except StopIteration as stop:
            if self._times.slow_iterations and not self._was_slow:
                self._times.slow_iterations -= 1  # the machine did other work
            return Outcome(DONE, stop.value)
        return _TURN

    def close(self) -> None:
        generator, self._generator = self._generator, None
        self._variables = ()
        if generator is not None:
            generator.close()

    def _advance(self, turn: Turn) -> None:
        """Run iterations until the turn is over. Raises StopIteration with the outputs at the loop's end."""
        generator = self._generator
        assert generator is not None, "it has begun and is not closed"
        now = perf_counter()
        mask = generator.send(self._mask)  # a fresh one takes None
        while True:
            before, now = now, perf_counter()
            if now - before < _SHORT_SECONDS:
                mask = min(2 * mask + 1, _MASK_MAX)
            elif now - before > _LONG_SECONDS:
                if not mask and now - before > _SLOW_ITERATION_SECONDS:
                    self._times.slow_iterations += 1
                    self._was_slow = True
                mask >>= 1
            if now > turn.ends and turn.is_over():
                self._mask = mask
                return
            mask = generator.send(mask)


class SequenceBody:
    """Layers that run one after another: see `kernels/numpy/sequences.py`."""

    __slots__ = ("_layers", "_progress", "seconds")

    def __init__(self, layers: Layers) -> None:
        self.seconds = 0.0
        self._layers = layers
        self._progress: Progress | None = None

    def begin(self, inputs: list[Any], turn: Turn) -> Outcome:
        made = self._layers.begin(inputs, turn)
        inputs.clear()
        return self._outcome(made)

    def resume(self, turn: Turn) -> Outcome:
        progress, self._progress = self._progress, None
        assert progress is not None, "it was suspended"
        return self._outcome(self._layers.go_on(progress, turn))

    def _outcome(self, made: list[Any] | Progress) -> Outcome:
        if isinstance(made, Progress):
            self._progress = made
            return _TURN
        return Outcome(DONE, as_outputs(made))

    def close(self) -> None:
        self._progress = None


class RegionPlan(Protocol):
    """The parts of a `Plan` that decide whether it is one region."""

    items: list[Item]
    root: StaticFrame
    feeds: list[tuple[tuple[Edge, ...], tuple[MergeEdge, ...]]]
    constants: list[tuple[tuple[Edge, ...], tuple[MergeEdge, ...], Any]]
    fetches: list[tuple[int, int, OutputPort]]


class RegionCaller(Protocol):
    """The calls of a step's members that `OneRegion` makes: see `MemberCalls`."""

    def follow(self, item: Item, iteration: IterationState, args: list[Any]) -> Variable | None: ...

    def call(self, item: Item, iteration: IterationState, args: list[Any]) -> Any: ...

    def call_region(
        self, item: Item, iteration: IterationState, args: list[Any], times: PlanTimes
    ) -> Any: ...


class OneRegion:
    """A plan that is one region, or one kernel, ready to be called with the values of its feeds.

    item   the region or kernel, for the names in errors
    """

    __slots__ = ("_arguments", "_constants", "_fills", "_places", "item")

    def __init__(
        self,
        item: Item,
        arguments: Sequence[Any],
        fills: Sequence[tuple[int, int]],
        constants: Sequence[Any],
        places: Sequence[int],
    ) -> None:
        self.item = item
        #: The item's arguments, with those that are constants in place.
        self._arguments = list(arguments)
        #: (position among the arguments, feed that goes there)
        self._fills = tuple(fills)
        self._constants = tuple(constants)
        #: For each result its place in the item's outputs, the feeds and the constants, in a row.
        self._places = tuple(places)

    @classmethod
    def of(cls, plan: RegionPlan) -> OneRegion | None:
        """Return the plan in this form, or None for one that is more than a region."""
        item = plan.items[0] if len(plan.items) == 1 else None
        if item is None or item.kind != Kind.REGION or item.region.is_generator:
            return None
        return cls.of_item(plan, item)

    @classmethod
    def of_item(cls, plan: RegionPlan, item: Item) -> OneRegion | None:
        """Return the plan with this one item; None if there is more to it."""
        if item.has_rare_edges or item.dereference or plan.constants:
            return None
        root = plan.root
        fills: list[tuple[int, int]] = []
        #: {a place among the root's entries: the value that goes there}
        places: dict[int, int] = {}
        for slot, edges in enumerate(item.edges):
            for _, entry, _ in edges:
                places[entry] = slot
        outputs = item.num_outputs
        for feed, (edges, merges) in enumerate(plan.feeds):
            if merges:
                return None
            for _, entry, consumer in edges:
                if consumer is item:
                    fills.append((entry - item.start, feed))
                else:
                    places[entry] = outputs + feed
        if root.pending[item.local] != len(fills):
            return None
        constants: list[Any] = []
        for _, entry, _ in plan.fetches:
            if entry not in places:
                if root.entries[entry] is DEAD:
                    return None
                places[entry] = outputs + len(plan.feeds) + len(constants)
                constants.append(root.entries[entry])
        arguments = root.entries[item.start : item.stop]
        return cls(item, arguments, fills, constants, [places[entry] for _, entry, _ in plan.fetches])

    def call(
        self, values: Sequence[Any], caller: RegionCaller, iteration: IterationState, times: PlanTimes
    ) -> list[Any] | None:
        """Return the results for these values of the feeds; None if a thread writes a variable among them."""
        arguments = self._arguments[:]
        for position, feed in self._fills:
            arguments[position] = values[feed]
        item = self.item
        if item.mutates and caller.follow(item, iteration, arguments) is not None:
            return None
        if item.kind == Kind.REGION:
            outputs = caller.call_region(item, iteration, arguments, times)
        else:
            outputs = caller.call(item, iteration, arguments)
        if item.single:
            pool = (outputs, *values, *self._constants)
        elif outputs is None:
            pool = (*values, *self._constants)
        else:
            pool = (*outputs, *values, *self._constants)
        return [pool[place] for place in self._places]


__all__ = ["DONE", "PARKED", "TURN", "Body", "LoopBody", "OneRegion", "Outcome", "SequenceBody"]
