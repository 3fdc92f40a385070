"""Several kernels' programs as one: one call from Python, what lies between them in scratch memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import count
from typing import Any, Final

import numpy as np

from flowengine.core.buffers import STAGGER, empty
from flowengine.core.errors import InternalError
from flowengine.kernels.onednn.library import address, library
from flowengine.kernels.onednn.program import KEPT_BYTES, Program, padded, required
from flowengine.kernels.pieces import Fixed, Like, Piece, Placed, Same, Sizes, Source, Want

#: Scratch memory that a joint program may take.
_SCRATCH_MAX: Final = KEPT_BYTES


class JointProgram:
    """See `pieces.Joint`."""

    def __init__(self, pieces: Sequence[Placed], wanted: Collection[int]) -> None:
        """
        wanted   numbers of results that are taken outside as well
        """
        every = [each for piece, _, numbers in pieces for each in zip(numbers, piece.results, strict=True)]
        made = {number: result for number, result in every if isinstance(result, Like)}
        self._always = [(number, result.value) for number, result in every if isinstance(result, Same)]
        wants = [
            (number, want)
            for piece, arguments, _ in pieces
            for number, want in zip(arguments, piece.wants, strict=True)
            if want is not None and number not in made
        ]
        self._same = _of_kind(wants, Same)
        self._like = _of_kind(wants, Like)
        self._sizes = _of_kind(wants, Sizes)
        places, self._outs, used = _arranged(pieces, made, wanted)
        #: Numbers of arguments, then addresses of what stays where it is, in the order of the program's own.
        self._ins: list[int] = []
        fixed: list[Fixed] = []
        for piece, arguments, _ in pieces:
            for source in _sources(piece):
                if isinstance(source, Fixed):
                    fixed.append(source)
                elif source >= 0 and (number := arguments[source]) not in made and number not in self._ins:
                    self._ins.append(number)
        self._fixed = dict.fromkeys(each.address for each in fixed)
        self._owners = fixed
        numbers = count()
        at = {number: ~next(numbers) for number in self._ins}
        at_fixed = {where: ~next(numbers) for where in self._fixed}
        at.update((number, ~next(numbers)) for number, _ in self._outs)
        at.update(places)

        def place(source: Source, arguments: Sequence[int], results: Sequence[int]) -> int:
            if isinstance(source, Fixed):
                return at_fixed[source.address]
            return at[arguments[source] if source >= 0 else results[~source]]

        self._program = Program(required())
        for piece, arguments, results in pieces:
            for program, sources in piece.calls:
                self._program.include(program, [place(each, arguments, results) for each in sources], used)

    def run(self, known: list[Any]) -> bool:
        """See `pieces.Joint`."""
        if library() is None:  # any more, in a process that is a fork
            return False
        for number, same in self._same:
            if known[number] is not same.value:
                return False
        for number, like in self._like:
            array = known[number]
            if (
                type(array) is not np.ndarray
                or array.shape != like.shape
                or array.dtype != like.dtype
                or not (array.flags.c_contiguous if like.strides is None else array.strides == like.strides)
            ):
                return False
        for number, sizes in self._sizes:
            if known[number].tolist() != sizes.values:
                return False
        outs = [empty(like.shape, like.dtype) for _, like in self._outs]
        try:
            self._program(*[address(known[n]) for n in self._ins], *self._fixed, *map(address, outs))
        except InternalError:
            return False  # the kernels themselves say which of them it is
        for (number, _), out in zip(self._outs, outs, strict=True):
            known[number] = out
        for number, value in self._always:
            known[number] = value
        return True


def _of_kind(wants: Sequence[tuple[int, Want]], kind: type[Any]) -> list[tuple[int, Any]]:
    """What is wanted of this kind, once of each argument."""
    return list({number: want for number, want in wants if isinstance(want, kind)}.items())


def _sources(piece: Piece) -> Iterator[Source]:
    for _, sources in piece.calls:
        yield from sources


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
    own = max(program.scratch_bytes for piece, _, _ in pieces for program, _ in piece.calls)
    while True:
        offsets: dict[int, int] = {}
        used = 0
        for number in inner:
            size = _room(made[number])
            taken = sorted(
                (offsets[n], offsets[n] + _room(made[n]))
                for n in offsets
                if first[n] <= last[number] and first[number] <= last[n]
            )
            offset = 0
            for start, stop in taken:
                if offset + size <= start:
                    break
                offset = max(offset, stop)
            offsets[number] = offset
            used = max(used, offset + size)
        if used + own <= _SCRATCH_MAX or not inner:
            return offsets, [(n, form) for n, form in made.items() if n not in offsets], used
        del inner[0]


def _room(like: Like) -> int:
    """Bytes that a result takes; two that follow each other do not lie at one place of their pages."""
    return padded(_bytes(like)) + STAGGER


def _bytes(like: Like) -> int:
    return int(np.prod(like.shape, dtype=np.int64)) * like.dtype.itemsize
