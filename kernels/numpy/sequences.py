"""Nodes that run one after another on one thread as one: what `fuse_sequences` makes.

Between two layers of a library, some 20 us pass without any computation: kernels inspect inputs, find the
program prepared for their shapes, and allocate memory. So after a few runs a sequence gets the pieces of its
kernels (`pieces`) and joins them: one call for several kernels, with reused memory for values without other
consumers. Before each run it checks the conditions of a joint on its inputs; if they do not hold, the members
run one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, ClassVar, Final

from flowengine.core.errors import OpError
from flowengine.ir.graph import Node
from flowengine.kernels.common.pieces import Joint, Like, Piece, Placed, SuspendedJoint, Turn, piece_of
from flowengine.kernels.member_times import MEMBER_TIMES, MemberTimes, add_shares
from flowengine.kernels.numpy.fused import PRODUCT_MICROSECONDS
from flowengine.kernels.provider import ClaimedBody, MemberRun, located, program_of, run_alone
from flowengine.kernels.registry import kernel

#: The run in which members are first asked: what never changes has been prepared by then. Then they are asked
#: again after so many times as many runs, for what has settled meanwhile.
_FIRST_LOOK: Final = 2
_LOOK_AGAIN: Final = 8
#: Runs in which a joint was not possible before members are asked again, twice as many each time.
_MISSES: Final = 4


@dataclass(frozen=True, slots=True)
class SequenceStep:
    """One node of a sequence.

    function   its bound kernel
    sources    numbers of what it takes: inputs, then the outputs of the steps before it; a tuple for a list
    outputs    how many it gives
    """

    node: Node
    function: Callable[..., Any]
    sources: tuple[int | tuple[int, ...], ...]
    outputs: int

    def numbers(self) -> Iterator[int]:
        """The numbers of what it takes, one by one."""
        for source in self.sources:
            if isinstance(source, tuple):
                yield from source
            else:
                yield source

    def arguments(self, known: SequenceOf[Any]) -> list[Any]:
        return [
            tuple([known[i] for i in source]) if isinstance(source, tuple) else known[source]
            for source in self.sources
        ]

    def piece(self, known: SequenceOf[Any]) -> Piece | None:
        """Return the piece of its kernel's call; the arguments of lists come one by one."""
        found = piece_of(
            self.node.attrs.get("program", self.function), [known[number] for number in self.numbers()]
        )
        return found if found is not None and len(found.results) == self.outputs else None


@dataclass(frozen=True, slots=True)
class _SequenceUnit:
    """Steps that run next to each other.

    places  of the steps
    joint   all of them as one, if that is possible
    drops   numbers of the values that no later step needs
    """

    places: tuple[int, ...]
    joint: Joint | None
    drops: tuple[int, ...] = ()


class Progress:
    """How far a run of a sequence has come: what is known, its units, how many are done, what goes on."""

    __slots__ = ("done", "known", "suspended", "units")

    def __init__(self, known: list[Any], units: SequenceOf[_SequenceUnit]) -> None:
        self.known = known
        self.units = units
        self.done = 0
        self.suspended: SuspendedJoint | None = None


class Sequence:
    """Nodes that run one after another on one thread; what nobody needs any more is let go of."""

    is_one_pass: ClassVar[bool] = False

    def __init__(self, inputs: int, steps: SequenceOf[SequenceStep], gives: SequenceOf[int]) -> None:
        """
        inputs   how many it takes
        gives    numbers of what it gives
        """
        self._steps = tuple(steps)
        self._gives = tuple(gives)
        #: The number of each step's first output.
        self._firsts: list[int] = []
        self._count = inputs
        for step in steps:
            self._firsts.append(self._count)
            self._count += step.outputs
        self._empty = (None,) * (self._count - inputs)
        self._plain = self._dropping([_SequenceUnit((place,), None) for place in range(len(steps))])
        #: Any thread may put others here; each run takes those that it finds.
        self._units = self._plain
        self._runs = self._misses = 0
        self._next_look = _FIRST_LOOK
        self._misses_max = _MISSES
        #: {place of a step that is joined: what kinds of things are wanted of its arguments}
        self._joined: dict[int, tuple[type[Any], ...]] = {}
        #: The time of each step when it last ran by itself: its share of a joint's time.
        self._alone = [0.0] * len(self._steps)

    def __repr__(self) -> str:
        return " -> ".join(step.node.op for step in self._steps)

    @property
    def names(self) -> frozenset[str]:
        """The names of the nodes that it stands for."""
        return frozenset(step.node.name for step in self._steps)

    @property
    def inner(self) -> list[ClaimedBody]:
        """The claims among its nodes."""
        found = (program_of(step.node.attrs) for step in self._steps)
        return [body for body in found if body is not None]

    @property
    def joined(self) -> frozenset[str]:
        """The names of the nodes that are computed together with others."""
        return frozenset(self._steps[place].node.name for place in self._joined)

    def one_by_one(self, values: SequenceOf[Any]) -> Iterator[MemberRun]:
        """See `MemberwiseBody`; of a claim among the nodes, its members instead."""
        known = [*values, *self._empty]
        for place, step in enumerate(self._steps):
            arguments = step.arguments(known)
            inner = getattr(program_of(step.node.attrs), "one_by_one", None)
            if inner is not None:
                yield from inner(*arguments)
            found = run_alone(step.node, step.function, arguments)
            first = self._firsts[place]
            known[first : first + step.outputs] = found.outputs[: step.outputs]
            if inner is None:
                yield found

    def run(self, values: SequenceOf[Any]) -> list[Any]:
        known = [*values, *self._empty]
        del values
        made = self._begin(known, None)
        assert not isinstance(made, Progress), "without a turn nothing is suspended"
        return made

    def begin(self, values: SequenceOf[Any], turn: Turn) -> list[Any] | Progress:
        """Run and return the results; or, if the turn is over first, the progress, for `go_on`."""
        known = [*values, *self._empty]
        del values
        return self._begin(known, turn)

    def _begin(self, known: list[Any], turn: Turn | None) -> list[Any] | Progress:
        self._runs += 1
        if self._runs >= self._next_look:
            self._look(known)
            return [known[i] for i in self._gives]
        return self.go_on(Progress(known, self._units), turn)

    def go_on(self, progress: Progress, turn: Turn | None) -> list[Any] | Progress:
        """As `begin`, from there on. On any thread, but once."""
        known, first = progress.known, progress.done
        times = MEMBER_TIMES.get()
        for unit in progress.units[first:] if first else progress.units:
            suspended, progress.suspended = progress.suspended, None
            if (
                turn is not None
                and suspended is None
                and progress.done > first
                and perf_counter() > turn.ends
                and turn.is_over()
            ):
                return progress
            joint = unit.joint
            began = 0.0 if times is None else perf_counter()
            if joint is None:
                ended: bool | SuspendedJoint = False
            elif suspended is None:
                ended = joint.run(known, turn)
            else:
                ended = joint.go_on(known, suspended, turn)
            if times is not None and joint is not None:
                self._add_shares(times, unit, began)
            if isinstance(ended, SuspendedJoint):
                progress.suspended = ended
                return progress
            if not ended:
                for place in unit.places:
                    self._run_step(place, self._steps[place].arguments(known), known, times)
                if joint is not None:
                    self._missed()
            for number in unit.drops:
                known[number] = None
            progress.done += 1
        return [known[i] for i in self._gives]

    def _run_step(
        self, place: int, arguments: list[Any], known: list[Any], times: MemberTimes | None
    ) -> None:
        step = self._steps[place]
        before, began = (0, 0.0) if times is None else (len(times), perf_counter())
        try:
            made = step.function(*arguments)
        except OpError as error:
            raise located(error, step.node) from None
        if times is not None and len(times) == before:  # a claim has added its members
            times.append(((step.node,), began, perf_counter()))
        first = self._firsts[place]
        if step.outputs == 1:
            known[first] = made
        elif step.outputs:
            known[first : first + step.outputs] = made

    def _add_shares(self, times: MemberTimes, unit: _SequenceUnit, began: float) -> None:
        """Add a row for each step of a joint that has run, or a part of it."""
        nodes = [self._steps[place].node for place in unit.places]
        add_shares(times, nodes, [self._alone[place] for place in unit.places], began, perf_counter())

    def _dropping(self, units: SequenceOf[_SequenceUnit]) -> tuple[_SequenceUnit, ...]:
        """The units, each letting go of what nobody behind it takes."""
        last: dict[int, int] = {}
        for position, unit in enumerate(units):
            for place in unit.places:
                first, step = self._firsts[place], self._steps[place]
                for number in (*step.numbers(), *range(first, first + step.outputs)):
                    last[number] = position
        drops: list[list[int]] = [[] for _ in units]
        for number, position in last.items():
            if number not in self._gives:
                drops[position].append(number)
        return tuple(replace(unit, drops=tuple(d)) for unit, d in zip(units, drops, strict=True))

    # What is joined.

    def _missed(self) -> None:
        self._misses += 1
        if self._misses >= self._misses_max:
            self._misses = 0
            self._misses_max *= 2
            self._units, self._joined = self._plain, {}
            self._next_look = 0

    def _look(self, known: list[Any]) -> None:
        """Run every step by itself, and see which of them can be joined from now on."""
        pieces: dict[int, Piece] = {}
        times = MEMBER_TIMES.get()
        for unit in self._plain:
            (place,) = unit.places
            step = self._steps[place]
            piece = step.piece(known)
            if piece is not None:
                pieces[place] = piece
            began = perf_counter()
            self._run_step(place, step.arguments(known), known, times)
            self._alone[place] = perf_counter() - began
            for number in unit.drops:
                known[number] = None
        self._next_look = _LOOK_AGAIN * self._runs
        units = self._gathered(pieces)
        joined = {
            place: tuple(map(type, pieces[place].wants)) for unit in units if len(unit) > 1 for place in unit
        }
        if joined != self._joined:
            self._joined = joined
            self._units = self._dropping([self._unit(places, pieces) for places in units])

    def _gathered(self, pieces: dict[int, Piece]) -> list[tuple[int, ...]]:
        """The steps in an order in which many pieces are next to each other: those are one tuple."""
        giver = {
            number: place
            for place, step in enumerate(self._steps)
            for number in range(self._firsts[place], self._firsts[place] + step.outputs)
        }
        awaits = [{giver[n] for n in step.numbers() if n in giver} for step in self._steps]
        left = list(range(len(self._steps)))
        done: set[int] = set()
        units: list[tuple[int, ...]] = []
        while left:
            group: list[int] = []
            for place in left:
                if (
                    place in pieces
                    and awaits[place] <= done.union(group)
                    and self._fits(place, pieces, group)
                ):
                    group.append(place)
            if group:
                units.append(tuple(group))
            else:
                # All that can run: what waits for them may be joined then.
                group = [place for place in left if awaits[place] <= done]
                units.extend((place,) for place in group)
            done.update(group)
            left = [place for place in left if place not in done]
        return units

    def _fits(self, place: int, pieces: dict[int, Piece], group: Collection[int]) -> bool:
        """Whether what a piece wants of what the group gives can be known before the group runs."""
        made = {
            number: result
            for other in group
            for number, result in enumerate(pieces[other].results, self._firsts[other])
        }
        wants = zip(self._steps[place].numbers(), pieces[place].wants, strict=True)
        return all(
            number not in made or (isinstance(made[number], Like) and (want is None or want == made[number]))
            for number, want in wants
        )

    def _unit(self, places: tuple[int, ...], pieces: dict[int, Piece]) -> _SequenceUnit:
        if len(places) < 2:
            return _SequenceUnit(places, None)
        placed: list[Placed] = [
            (
                pieces[place],
                tuple(self._steps[place].numbers()),
                range(self._firsts[place], self._firsts[place] + self._steps[place].outputs),
            )
            for place in places
        ]
        outside = set(self._gives)
        for place, step in enumerate(self._steps):
            if place not in places:
                outside.update(step.numbers())
        return _SequenceUnit(places, pieces[places[0]].join(placed, outside))


@kernel("_FusedSequence", heavy=lambda inputs: PRODUCT_MICROSECONDS)
def fused_sequence(inputs: tuple[Any, ...], *, node: Node) -> Any:
    """Run large nodes one after another: see `passes/blocks/sequences.py`."""
    return as_outputs(node.attrs["program"].run(inputs))


def as_outputs(made: list[Any]) -> Any:
    """Return the results of a sequence as a kernel returns them."""
    return made[0] if len(made) == 1 else tuple(made)
