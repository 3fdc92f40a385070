"""The strings of a step: scalars of type string, each counted while something else refers to it.

A Python string takes no weak reference. So the count keeps a reference itself, now and then counts the
others, and drops the strings without any. Arrays of strings do not need this.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import getrefcount
from typing import Final

from flowengine.core.accounting import text_bytes
from flowengine.devices.allocation import Ledger

#: Shorter ones are not followed: a plan has as many of them as it has edges, at most.
_FOLLOWED_BYTES: Final = 256
#: So many are looked through whenever there may be a new peak; more of them each time they have doubled.
_FEW: Final = 64


class CountedValues:
    """The scalar strings of one step, in all ledgers that count it."""

    __slots__ = ("_held", "_ledgers", "_looks_at")

    def __init__(self, ledgers: Sequence[Ledger]) -> None:
        self._ledgers = tuple(ledgers)
        #: {id of a string: (the string,)}
        self._held: dict[int, tuple[bytes]] = {}
        self._looks_at = _FEW

    def hold(self, text: bytes) -> None:
        """Count a string that a kernel has made, once."""
        if len(text) < _FOLLOWED_BYTES or id(text) in self._held:
            return
        if len(self._held) <= _FEW or len(self._held) >= self._looks_at:
            self.sweep()
            self._looks_at = max(_FEW, 2 * len(self._held))
        self._held[id(text)] = (text,)
        self._change(text_bytes(text))

    def sweep(self) -> None:
        """Drop the strings that nothing else refers to."""
        unused = [key for key, entry in tuple(self._held.items()) if getrefcount(entry[0]) <= _ALONE]
        for key in unused:
            entry = self._held.pop(key, None)  # another thread may have looked, too
            if entry is not None:
                self._change(-text_bytes(entry[0]))

    def clear(self) -> None:
        """The step is over: count none of them any more."""
        self._change(-sum(text_bytes(text) for (text,) in self._held.values()))
        self._held.clear()

    def _change(self, size: int) -> None:
        for ledger in self._ledgers:
            ledger.change(size)


def _measure_alone() -> int:
    """Measure the count that an expression of `sweep`'s form gives for a string without other references.

    It runs often enough to be seen before and after the interpreter specialises it.
    """
    held = {0: (bytes(_FOLLOWED_BYTES),)}

    def count() -> list[int]:
        return [getrefcount(entry[0]) for _, entry in tuple(held.items())]

    return min(count()[0] for _ in range(64))


_ALONE: Final = _measure_alone()

__all__ = ["CountedValues"]
