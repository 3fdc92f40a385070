"""Sequences of hand-made pieces, with a log of what ran, and of what is alive."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.ir.graph import Node
from flowengine.kernels.common.pieces import (
    Like,
    Piece,
    Placed,
    Same,
    Sizes,
    SuspendedJoint,
    Turn,
    Want,
    is_plain,
)
from flowengine.kernels.numpy.sequences import Sequence as FusedSequence
from flowengine.kernels.numpy.sequences import SequenceStep
from tests.kernels.turns import Turns

KINDS = ("sum", "sum", "sum", "sized", "same", "pair", "always", "plain", "late", "list")


#: Kinds that give two values.
TWO = ("pair", "always")


#: Runs in which every test has joined what it can.
ENOUGH = 3


class Log:
    """A log of the steps that ran, in order, and of the values that are alive."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        #: Those of `ran` that ran in a joint.
        self.joined: list[str] = []
        #: Called before anything runs.
        self.look: Callable[[], None] = lambda: None
        #: {name of a step: references to what it gave in this run}
        self.given: dict[str, list[weakref.ref[Any]]] = {}
        self.joints: list[Joined] = []


def _flat(arguments: Sequence[Any]) -> list[Any]:
    return [item for each in arguments for item in (each if isinstance(each, tuple) else (each,))]


def _sum(*arrays: Array) -> Array:
    if len({array.shape for array in arrays}) > 1:
        raise InvalidArgumentError("shapes differ")
    total: Array = np.add.reduce(list(arrays)) % 1009 + 1
    return total


def _weighted(x: Array, numbers: Sequence[float]) -> Array:
    return (x * 3 + sum(numbers)) % 1009


class Silent:
    """A kernel that tells nothing."""

    def __init__(self, name: str, kind: str, log: Log) -> None:
        self.name, self.kind, self._log = name, kind, log
        self.calls = 0
        #: What one of kind "always" gives besides: {shape: the same object in every call}.
        self._constants: dict[tuple[int, ...], Array] = {}

    def constant(self, shape: tuple[int, ...]) -> Array:
        return self._constants.setdefault(shape, np.ones(shape))

    def compute(self, *arguments: Any) -> list[Array]:
        values = _flat(arguments)
        if self.kind in ("sized", "same"):
            return [_weighted(values[0], values[1].tolist())]
        if self.kind == "always":
            return [_weighted(values[0], [1]), self.constant(values[0].shape)]
        total = _sum(*values)
        return [total, total + 7] if self.kind == "pair" else [total]

    def __call__(self, *arguments: Any) -> Any:
        self._log.look()
        self.calls += 1
        made = self.compute(*arguments)
        self._log.ran.append(self.name)
        self._log.given[self.name] = [weakref.ref(array) for array in made]
        return tuple(made) if self.kind in TWO else made[0]


class Telling(Silent):
    """A kernel that tells what its calls come to; one of kind "late" after a few of them."""

    def piece(self, *values: Any) -> Piece | None:
        if not all(map(is_plain, values)) or (self.kind == "late" and self.calls < 3):
            return None
        wants: list[Want] = [Like.of(value) for value in values]
        compute = self.compute
        sources = tuple(range(len(values)))
        if self.kind in ("sized", "same"):
            numbers = values[1].tolist()
            wants[1] = Sizes.of(values[1]) if self.kind == "sized" else Same(values[1])
            sources = (0,)

            def compute(*arguments: Any) -> list[Array]:
                return [_weighted(arguments[0], numbers)]

        results: tuple[Like | Same, ...] = (Like.of(values[0]),)
        if self.kind in TWO:
            results += (Like.of(values[0]) if self.kind == "pair" else Same(self.constant(values[0].shape)),)
        call = ((self.name, compute), (*sources, *(~slot for slot in range(len(results)))))
        log = self._log
        return Piece((call,), tuple(wants), results, lambda placed, wanted: Joined(log, placed, wanted))


class Joined:
    """Pieces that run in a row; what is not wanted outside is never seen there."""

    def __init__(self, log: Log, placed: Sequence[Placed], wanted: Collection[int]) -> None:
        self._log, self._placed, self._wanted = log, placed, frozenset(wanted)
        self.asked = self.ran = 0
        log.joints.append(self)

    def run(self, known: list[Any], turn: Turn | None = None) -> bool | SuspendedJoint:
        self._log.look()
        self.asked += 1
        return self.go_on(known, Halfway(), turn)

    def go_on(self, known: list[Any], halfway: Halfway, turn: Turn | None) -> bool | SuspendedJoint:
        made, always, begun = halfway.made, halfway.always, len(halfway.names)
        for piece, numbers, results in self._placed[begun:]:
            if turn is not None and len(halfway.names) > begun and turn.is_over():
                return halfway
            for number, want in zip(numbers, piece.wants, strict=True):
                if number not in made and not _is_so(known[number], want):
                    return False
            (((name, compute), sources),) = piece.calls
            taken = [numbers[source] for source in sources if isinstance(source, int) and source >= 0]
            try:
                values = compute(*[made[n] if n in made else known[n] for n in taken])
            except OpError:
                return False
            for number, result, array in zip(results, piece.results, values, strict=True):
                if isinstance(result, Same):
                    always[number] = result.value
                else:
                    made[number] = array
            halfway.names.append(name)
        for number, value in made.items():
            if number in self._wanted:
                known[number] = value
        for number, value in always.items():
            known[number] = value
        self._log.ran += halfway.names
        self._log.joined += halfway.names
        self.ran += 1
        return True


class Halfway(SuspendedJoint):
    """The state of a suspended toy joint: the values made so far, and the steps that made them."""

    def __init__(self) -> None:
        self.made: dict[int, Array] = {}
        self.always: dict[int, Any] = {}
        self.names: list[str] = []


def _is_so(value: Any, want: Want) -> bool:
    assert value is not None, "something is taken that was let go of"
    if isinstance(want, Same):
        return value is want.value
    if isinstance(want, Sizes):
        return bool(value.tolist() == want.values)
    return want is None or (is_plain(value) and Like.of(value) == want)


class Rig:
    """Steps told as (kind, numbers of what they take), as a sequence."""

    def __init__(
        self, inputs: int, steps: Sequence[tuple[str, Sequence[int]]], gives: Sequence[int] = ()
    ) -> None:
        self.log = Log()
        self.inputs = inputs
        self.kinds = [kind for kind, _ in steps]
        self.taken = [tuple(numbers) for _, numbers in steps]
        self.names = [f"{kind}{place}" for place, kind in enumerate(self.kinds)]
        self.giver: dict[int, int] = {}
        made = []
        count = inputs
        for place, (kind, numbers) in enumerate(steps):
            make = Silent if kind in ("plain", "list") else Telling
            sources: tuple[Any, ...] = (tuple(numbers),) if kind == "list" else tuple(numbers)
            outputs = 2 if kind in TWO else 1
            kernel = make(self.names[place], kind, self.log)
            made.append(SequenceStep(Node(self.names[place], "Toy"), kernel, sources, outputs))
            for _ in range(outputs):
                self.giver[count] = place
                count += 1
        self.steps = made
        self.gives = list(gives) or [count - 1]
        self.sequence = FusedSequence(inputs, made, self.gives)
        #: What the run that is under way began with.
        self.units = self.sequence._units

    def alone(self, values: Sequence[Any]) -> list[Any]:
        """Return the values that the steps give one after another."""
        known = list(values)
        for step in self.steps:
            assert isinstance(step.function, Silent)
            known += step.function.compute(*step.arguments(known))
        return [known[number] for number in self.gives]

    def check(self, *values: Any, turns: Turns | None = None) -> None:
        self.log.ran.clear()
        self.log.joined.clear()
        self.log.given.clear()
        self.units = self.sequence._units
        got = self.sequence.run(values) if turns is None else turns.run(self.sequence, values)
        for mine, wanted in zip(got, self.alone(values), strict=True):
            np.testing.assert_array_equal(mine, wanted)
        self._check_order()

    def _check_order(self) -> None:
        """Everything ran once, and nothing before what it takes."""
        assert sorted(self.log.ran) == sorted(self.names)
        when = {name: moment for moment, name in enumerate(self.log.ran)}
        for name, numbers in zip(self.names, self.taken, strict=True):
            for number in numbers:
                if number in self.giver:
                    assert when[self.names[self.giver[number]]] < when[name]

    def check_drops(self) -> None:
        """Check that no value outlives its last taker; to be called before each kernel.

        But the arguments of the one that runs, which are looked at only when the next one does.
        """
        done = set(self.log.ran)
        for name, references in self.log.given.items():
            place = self.names.index(name)
            numbers = [number for number, giver in self.giver.items() if giver == place]
            for number, reference in zip(numbers, references, strict=True):
                takers = [
                    other for other, taken in zip(self.names, self.taken, strict=True) if number in taken
                ]
                is_kept = number in self.gives or name.startswith("always")
                is_kept |= any(other.startswith("same") for other in takers)
                # The rest of a unit of steps that are joined at other times may be let go of as one.
                if takers and not is_kept and done.issuperset(takers) and self._is_over(takers):
                    assert reference() is None, f"{name} outlives {takers}"

    def _is_over(self, takers: Sequence[str]) -> bool:
        together = [unit.places for unit in self.units if len(unit.places) > 1]
        done = set(self.log.ran)
        return all(
            done.issuperset(self.names[place] for place in unit)
            for unit in together
            if any(self.names[place] in takers for place in unit)
        )


def vector(seed: int, size: int = 4) -> Any:
    return np.random.default_rng(seed).integers(0, 100, size).astype(np.float64)


CHAIN = [("sum", [0, 1]), ("sum", [2, 0]), ("sum", [3, 1])]
