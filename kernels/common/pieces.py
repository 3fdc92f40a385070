"""Pieces: the calls of a library to which a kernel's call is reduced.

A kernel of a library inspects its inputs, finds the program prepared for their shapes, allocates its result
and calls the library. Inputs of the same shapes lead to the same calls; beside a layer of 10 us the rest
takes twice that. A kernel may return these calls as a piece, so that several kernels in a row can be joined
(`sequences`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from flowengine.core.arrays import Array


@dataclass(frozen=True, slots=True)
class Same:
    """An argument that has to be this very object: something was made of its elements."""

    value: Any


@dataclass(frozen=True, slots=True)
class Like:
    """An argument that has to be an array of this shape and type, C-contiguous or with these strides."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None = None

    @classmethod
    def of(cls, array: Array) -> Like:
        return cls(array.shape, array.dtype, None if array.flags.c_contiguous else array.strides)


@dataclass(frozen=True, slots=True)
class Sizes:
    """An argument that has to be a vector of these numbers."""

    values: list[int]

    @classmethod
    def of(cls, vector: Array) -> Sizes:
        return cls(vector.tolist())


#: What has to be true of an argument; None where its value does not matter.
Want: TypeAlias = Same | Like | Sizes | None


@dataclass(frozen=True, slots=True)
class FixedMemory:
    """Memory that stays where it is as long as `owner` does."""

    address: int
    owner: Any = field(repr=False)


#: Where an address comes from: the argument of this number, ~n for the n-th result, or memory that stays.
Source: TypeAlias = int | FixedMemory


#: A program and where each of the addresses that it is called with comes from.
Call: TypeAlias = tuple[Any, tuple[Source, ...]]


class Review(Protocol):
    """A check of numbers that shows whether a result is right.

    sources   whose numbers: arguments, and ~n for the n-th result
    """

    @property
    def sources(self) -> tuple[int, ...]: ...

    def joined(self, every: Sequence[Any]) -> Callable[[Sequence[Sequence[Array]]], bool]:
        """One look for several reviews of this type, itself among them; it is given the arrays of each."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A description of one call of a kernel.

    calls    in order
    wants    the condition that each argument must meet
    results  the results; `Same` for one that is always the same object
    join     makes one piece of several, see `Joining`
    asides   (n, the call that makes the n-th result from others), left out if no consumer takes it
    review   the check of the results
    """

    calls: tuple[Call, ...]
    wants: tuple[Want, ...]
    results: tuple[Like | Same, ...]
    join: Joining
    asides: tuple[tuple[int, Call], ...] = ()
    review: Review | None = None


class Turn(Protocol):
    """The time that a kernel may compute before others get the thread.

    ends   the time, of `time.perf_counter`, from which on `is_over` is worth asking
    """

    ends: float

    def is_over(self) -> bool: ...


class SuspendedJoint:
    """A joint's suspended call; a base for the state that it needs to go on."""

    __slots__ = ()


class Joint(Protocol):
    """Several pieces as one call."""

    def run(self, known: list[Any], turn: Turn | None = None) -> bool | SuspendedJoint:
        """Take the values of numbers from `known` and put there what is made; False if that was not possible.

        Nothing is changed then, nor while it is suspended, which it may be where there is a turn.
        """

    def go_on(self, known: list[Any], suspended: Any, turn: Turn | None) -> bool | SuspendedJoint:
        """As `run`, after what that or this has returned, with the same values. On any thread."""


#: A piece, the numbers of its arguments and those of its results.
Placed: TypeAlias = tuple[Piece, Sequence[int], Sequence[int]]
#: (pieces that run one after another, the numbers of results with other consumers) -> them as one.
Joining: TypeAlias = Callable[[Sequence[Placed], Collection[int]], Joint]

FLOAT32: Final = np.dtype(np.float32)


def is_plain(array: Any) -> bool:
    """Whether an array can be given to a library as it lies: neither a view with gaps nor of another kind."""
    return type(array) is np.ndarray and array.flags.c_contiguous


def has_pieces(function: Any) -> bool:
    """Whether a bound kernel, or the program of a fused node, may return its calls as pieces."""
    return getattr(function, "piece", None) is not None


def piece_of(function: Any, arguments: Sequence[Any]) -> Piece | None:
    """Return the piece that a bound kernel would run; None if it has none, or does more than that."""
    tell = getattr(function, "piece", None)
    found: Piece | None = None if tell is None else tell(*arguments)
    return found


__all__ = [
    "FLOAT32",
    "Call",
    "FixedMemory",
    "Joining",
    "Joint",
    "Like",
    "Piece",
    "Placed",
    "Review",
    "Same",
    "Sizes",
    "Source",
    "SuspendedJoint",
    "Turn",
    "Want",
    "has_pieces",
    "is_plain",
    "piece_of",
]
