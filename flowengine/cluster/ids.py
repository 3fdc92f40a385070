"""Numbers of steps: unique among the masters of a cluster, rising, and reported as ranges when over."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator


class StepNumbers:
    """The numbers of one master's steps: consecutive from a random start, so that masters never share one.

    31 random bits are followed by 31 bits that count: a number repeats only if a master runs two thousand
    million steps, or if two masters draw the same bits.
    """

    def __init__(self) -> None:
        self._next = (secrets.randbits(31) | 1) << 31

    def new(self) -> int:
        number = self._next
        self._next += 1
        return number


class Endings:
    """Steps that have ended and that have not been reported to a task yet: `numbers`."""

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
    """Return a set of numbers as [first, last, first, last, ...]."""
    ranges: list[int] = []
    for number in sorted(set(numbers)):
        if ranges and ranges[-1] == number - 1:
            ranges[-1] = number
        else:
            ranges += (number, number)
    return ranges


def from_ranges(ranges: list[int]) -> Iterator[tuple[int, int]]:
    """Yield (first, last) of each range; a number without a partner at the end is left out."""
    return zip(ranges[::2], ranges[1::2], strict=False)


__all__ = ["Endings", "StepNumbers", "from_ranges", "to_ranges"]
