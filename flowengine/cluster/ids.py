"""Numbers of steps: unique among all masters of a cluster, rising, told of as ranges when they are over."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator


class StepNumbers:
    """One master's steps: consecutive numbers above a random start, so that two masters never share one.

    31 random bits stand above 31 that count: a master would have to run two thousand million steps, and two
    masters to draw the same bits, before a number came twice.
    """

    def __init__(self) -> None:
        self._next = (secrets.randbits(31) | 1) << 31

    def new(self) -> int:
        number = self._next
        self._next += 1
        return number


class Endings:
    """Steps that have ended and that a task has not been told of yet: `numbers`."""

    __slots__ = ("numbers",)

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def __bool__(self) -> bool:
        return bool(self.numbers)

    def take(self) -> list[int]:
        """Return the steps to report, as first, last, first, last, ..., and forget them here."""
        numbers, self.numbers = self.numbers, []
        return numbers * 2 if len(numbers) == 1 else to_ranges(numbers)


def to_ranges(numbers: Iterable[int]) -> list[int]:
    """[first, last, first, last, ...] of a set of numbers."""
    ranges: list[int] = []
    for number in sorted(set(numbers)):
        if ranges and ranges[-1] == number - 1:
            ranges[-1] = number
        else:
            ranges += (number, number)
    return ranges


def from_ranges(ranges: list[int]) -> Iterator[tuple[int, int]]:
    """(first, last) of each range; an odd end is left out."""
    return zip(ranges[::2], ranges[1::2], strict=False)


__all__ = ["Endings", "StepNumbers", "from_ranges", "to_ranges"]
