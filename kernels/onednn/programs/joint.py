"""Several kernels' programs as one: one call from Python, what lies between them in scratch memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count
from sys import getrefcount
from typing import Any, Final, TypeAlias

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.buffers import ALIGNED, STAGGER, empty
from flowengine.core.errors import InternalError
from flowengine.kernels.common.pieces import (
    Call,
    FixedMemory,
    Like,
    Piece,
    Placed,
    Review,
    Same,
    Sizes,
    Source,
    SuspendedJoint,
    Turn,
    Want,
)
from flowengine.kernels.onednn.library import address, library
from flowengine.kernels.onednn.programs.preparing import required
from flowengine.kernels.onednn.programs.program import KEPT_BYTES, PrimitiveProgram, SuspendedProgram, padded

#: Scratch memory that a joint program may take.
_SCRATCH_MAX: Final = KEPT_BYTES

#: Runs at a time whose results a joint keeps.
_RUNS: Final = 2

#: (arrays, their addresses)
_Given: TypeAlias = tuple[list[Any], list[int]]
_Look: TypeAlias = Callable[[Sequence[Sequence[Array]]], bool]
#: (what a piece calls, numbers of its arguments, numbers of its results)
_PieceCalls: TypeAlias = tuple[list[Call], Sequence[int], Sequence[int]]


class _SuspendedRun(SuspendedJoint):
    """See `pieces.SuspendedJoint`: the memory of results, and the program."""

    __slots__ = ("given", "program")

    def __init__(self, given: _Given, program: SuspendedProgram) -> None:
        self.given = given
        self.program = program


class JointProgram:
    """See `pieces.Joint`."""

    def __init__(self, pieces: Sequence[Placed], wanted: Collection[int]) -> None:
        """
        wanted   numbers of results that are taken outside as well
        """
        every = [each for piece, _, numbers in pieces for each in zip(numbers, piece.results, strict=True)]
        taken = {number for _, arguments, _ in pieces for number in arguments}.union(wanted)
        idle = {
            numbers[place]
            for piece, _, numbers in pieces
            for place, _ in piece.asides
            if numbers[place] not in taken
        }
        made = {n: result for n, result in every if isinstance(result, Like) and n not in idle}
        reviews = _reviews(pieces)
        reviewed = {number for _, each in reviews for numbers in each for number in numbers}
        self._always = [(number, result.value) for number, result in every if isinstance(result, Same)]
        wants = [
            (number, want)
            for piece, arguments, _ in pieces
            for number, want in zip(arguments, piece.wants, strict=True)
            if want is not None and number not in made
        ]
        self._same = _of_kind(wants, Same)
        self._like = [(n, w.shape, w.dtype, w.strides) for n, w in _of_kind(wants, Like)]
        self._sizes = _of_kind(wants, Sizes)
        #: The arrays of the results of one run in each entry, and their addresses. Arrays without other
        #: references are used again, so that the library's memory objects keep their addresses.
        self._given: deque[_Given] = deque(maxlen=_RUNS)
        places, self._outs, used = _arranged(pieces, made, reviewed.union(wanted))
        #: Numbers of arguments, then addresses of what stays where it is, in the order of the program's own.
        self._ins: list[int] = []
        fixed: list[FixedMemory] = []
        calls = [(_calls(piece, numbers, idle), arguments, numbers) for piece, arguments, numbers in pieces]
        for each, arguments, _ in calls:
            for source in (source for _, sources in each for source in sources):
                if isinstance(source, FixedMemory):
                    fixed.append(source)
                elif source >= 0 and (number := arguments[source]) not in made and number not in self._ins:
                    self._ins.append(number)
        self._numbers = [number for number, _ in self._outs]
        place_of = {number: n for n, number in enumerate(self._numbers)}
        #: (a look, where the arrays are that it is given: places among results, ~n of what has number n)
        self._reviews = [
            (look, [[place_of.get(n, ~n) for n in numbers] for numbers in each]) for look, each in reviews
        ]
        # Larger ones are kept for nothing: what it takes to get their memory, it takes to reach it again.
        self._kept = [n for n, (_, like) in enumerate(self._outs) if _bytes(like) < ALIGNED]
        self._new = [n for n, (_, like) in enumerate(self._outs) if _bytes(like) >= ALIGNED]
        self._fixed = dict.fromkeys(each.address for each in fixed)
        self._owners = fixed
        self._program = self._joined(calls, places, used)

    def _joined(self, calls: Sequence[_PieceCalls], places: Mapping[int, int], used: int) -> PrimitiveProgram:
        """The programs of all pieces as one.

        places   {number: where it lies among the arrays that only the pieces use}; there are `used` bytes
        """
        order = count()
        at = {number: ~next(order) for number in self._ins}
        at_fixed = {where: ~next(order) for where in self._fixed}
        at.update((number, ~next(order)) for number, _ in self._outs)
        at.update(places)

        def place(source: Source, arguments: Sequence[int], results: Sequence[int]) -> int:
            if isinstance(source, FixedMemory):
                return at_fixed[source.address]
            return at[arguments[source] if source >= 0 else results[~source]]

        joined = PrimitiveProgram(required())
        for made_by, arguments, results in calls:
            for program, sources in made_by:
                joined.include(program, [place(each, arguments, results) for each in sources], used)
        return joined

    def run(self, known: list[Any], turn: Turn | None = None) -> bool | SuspendedJoint:
        """See `pieces.Joint`."""
        if library() is None:  # any more, in a process that is a fork
            return False
        for number, same in self._same:
            if known[number] is not same.value:
                return False
        for number, shape, dtype, strides in self._like:
            array = known[number]
            if (
                type(array) is not np.ndarray
                or array.shape != shape
                or (array.dtype is not dtype and array.dtype != dtype)
                or not (array.flags.c_contiguous if strides is None else array.strides == strides)
            ):
                return False
        for number, sizes in self._sizes:
            if known[number].ndim != 1 or known[number].tolist() != sizes.values:
                return False
        given = self._memory()
        addresses = (*[address(known[n]) for n in self._ins], *self._fixed, *given[1])
        try:
            suspended = self._program.begin(addresses, turn)
        except InternalError:
            return False  # the kernels themselves say which of them it is
        return self._ended(known, given) if suspended is None else _SuspendedRun(given, suspended)

    def go_on(self, known: list[Any], suspended: _SuspendedRun, turn: Turn | None) -> bool | SuspendedJoint:
        """See `pieces.Joint`."""
        try:
            is_done = self._program.go_on(suspended.program, turn)
        except InternalError:
            return False
        return self._ended(known, suspended.given) if is_done else suspended

    def _ended(self, known: list[Any], given: _Given) -> bool:
        """Whether what was made is right; it is put where it belongs."""
        outs, _ = given
        for are_right, looked_at in self._reviews:
            if not are_right([[outs[n] if n >= 0 else known[~n] for n in each] for each in looked_at]):
                return False
        for number, out in zip(self._numbers, outs, strict=True):
            known[number] = out
        for number, value in self._always:
            known[number] = value
        for n in self._new:
            outs[n] = None
        self._given.append(given)
        return True

    def _memory(self) -> _Given:
        """(arrays for what is made, their addresses)."""
        try:
            given = self._given.pop()
        except IndexError:
            given = [None] * len(self._outs), [0] * len(self._outs)
        outs, places = given
        for n in self._kept:
            # Everything refers to None.
            if getrefcount(outs[n]) > _ALONE:
                _, like = self._outs[n]
                outs[n] = made = np.empty(like.shape, like.dtype)
                places[n] = address(made)
        for n in self._new:
            _, like = self._outs[n]
            outs[n] = made = empty(like.shape, like.dtype)
            places[n] = address(made)
        return given


def _measure_alone() -> int:
    """The smallest count that an expression of `_memory`'s form gives for an array that nobody else has."""
    outs: list[Array | None] = [np.empty(1)]

    def count() -> int:
        return getrefcount(outs[0])

    return min(count() for _ in range(64))


_ALONE: Final = _measure_alone()


def _of_kind(wants: Sequence[tuple[int, Want]], kind: type[Any]) -> list[tuple[int, Any]]:
    """Return the wants of this kind, one for each argument."""
    return list({number: want for number, want in wants if isinstance(want, kind)}.items())


def _calls(piece: Piece, numbers: Sequence[int], idle: Collection[int] = ()) -> list[Call]:
    """Return a piece's calls for results of these numbers, except for the idle ones that nobody takes."""
    return [*piece.calls, *(call for place, call in piece.asides if numbers[place] not in idle)]


def _reviews(pieces: Sequence[Placed]) -> list[tuple[_Look, list[list[int]]]]:
    """(one look, the numbers of what it is given of each piece) for each type of review."""
    found: dict[type[Any], list[tuple[Review, list[int]]]] = {}
    for piece, arguments, results in pieces:
        review = piece.review
        if review is not None:
            numbers = [arguments[s] if s >= 0 else results[~s] for s in review.sources]
            found.setdefault(type(review), []).append((review, numbers))
    return [
        (each[0][0].joined([review for review, _ in each]), [numbers for _, numbers in each])
        for each in found.values()
    ]


def _arranged(
    pieces: Sequence[Placed], made: dict[int, Like], wanted: Collection[int]
) -> tuple[dict[int, int], list[tuple[int, Like]], int]:
    """(offsets of results in scratch memory, results that are arrays of their own, bytes of the former).

    Nothing lies where something lies that is still needed; the largest are arrays if all do not fit.
    """
    last: dict[int, int] = {}
    first: dict[int, int] = {}
    for place, (_, arguments, results) in enumerate(pieces):
        for number in results:
            first[number] = last[number] = place
        for number in arguments:
            if number in made:
                last[number] = place
    inner = sorted((n for n in made if n not in wanted), key=lambda n: -_bytes(made[n]))
    own = max(program.scratch_bytes for piece, _, results in pieces for program, _ in _calls(piece, results))

    def placed(left_out: int) -> tuple[dict[int, int], int]:
        return _packed({n: (_room(made[n]), first[n], last[n]) for n in inner[left_out:]})

    # The fewest that have to be left out for the others to fit.
    least, most = 0, len(inner)
    while least < most:
        middle = (least + most) // 2 if least else 0
        if placed(middle)[1] + own <= _SCRATCH_MAX:
            most = middle
        else:
            least = middle + 1
    offsets, used = placed(least)
    return offsets, [(n, form) for n, form in made.items() if n not in offsets], used


def _packed(wanted: dict[int, tuple[int, int, int]]) -> tuple[dict[int, int], int]:
    """(where each lies, bytes in all), of {number: (bytes, the first and the last place that it is needed)}.

    One after another, as low as it can lie beside those before that are needed at the same time.
    """
    offsets: dict[int, int] = {}
    used = 0
    for number, (size, first, last) in wanted.items():
        taken = sorted(
            (where, where + wanted[n][0])
            for n, where in offsets.items()
            if wanted[n][1] <= last and first <= wanted[n][2]
        )
        offset = 0
        for start, stop in taken:
            if offset + size <= start:
                break
            offset = max(offset, stop)
        offsets[number] = offset
        used = max(used, offset + size)
    return offsets, used


def _room(like: Like) -> int:
    """Bytes that a result takes; two that follow each other do not lie at one place of their pages."""
    return padded(_bytes(like)) + STAGGER


def _bytes(like: Like) -> int:
    return int(np.prod(like.shape, dtype=np.int64)) * like.dtype.itemsize
