"""Allocations in a device's memory: each with its holder, counted until its last reference goes.

A ledger belongs to a device and outlives steps, so that variables count. If an allocation would exceed the
device's limit, it raises an error that names the largest holders.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from flowengine.core.errors import ResourceExhaustedError

#: How many of the largest holders an error names.
_NAMED: Final = 5
#: The holder of the texts of string tensors, which several tensors share.
_TEXTS: Final = "texts"


@dataclass(frozen=True, slots=True)
class AllocationStatistics:
    """A device's memory at one moment.

    bytes_in_use, peak_bytes_in_use    now, and at most since the last `reset_peak`
    num_allocations                    counted so far
    largest_allocation                 bytes of the largest one so far
    bytes_limit                        the most bytes in use at once; None for no limit
    """

    bytes_in_use: int
    peak_bytes_in_use: int
    num_allocations: int
    largest_allocation: int
    bytes_limit: int | None


class Ledger:
    """The allocations of one device. For the event loop's thread; the last reference may go on any.

    live, peak   bytes now, and at most since the last `reset_peak`
    refused      the number of errors because of the limit
    log          if it is a list, the changes in their order, of which `holders_at_peak` tells
    relief       frees memory that can be computed again, and returns whether it did; called before an error
    """

    def __init__(self, limit_bytes: int | None = None, what: str = "memory") -> None:
        """`what` names the limit in errors: whose it is and how it is set."""
        self.limit_bytes = limit_bytes
        self.live = 0
        self.peak = 0
        self.allocations = 0
        self.largest = 0
        self.refused = 0
        self.relief: Callable[[], bool] | None = None
        #: (key of the owner, the name of its holder or "", the bytes that are added)
        self.log: list[tuple[int, str, int]] | None = None
        self._what = what
        #: {id of the object that owns the memory: (its bytes, the name of its holder, a weak reference)}
        self._owners: dict[int, tuple[int, str, weakref.ref[Any]]] = {}

    def hold(self, owner: Any, size: int, holder: str) -> None:
        """Count the memory of `owner` once, under the name of `holder`.

        Raises no error, because the memory is allocated already; `check` tells whether it is too much.
        """
        key = id(owner)
        if key in self._owners:
            return
        self._owners[key] = (size, holder, weakref.ref(owner, partial(self._forget, key)))
        self._note(key, holder, size)
        self.live += size
        self.peak = max(self.peak, self.live)
        self.allocations += 1
        self.largest = max(self.largest, size)

    def book(self, owner: Any, size: int, holder: str) -> None:
        """Say how many bytes an object holds now; they count until it goes, or says another number."""
        key = id(owner)
        before = self._owners.get(key)
        if before is None:
            self.hold(owner, size, holder)
            return
        self._owners[key] = (size, holder, before[2])
        self._note(key, holder, size - before[0])
        self._add(size - before[0])

    def knows(self, owner: Any) -> bool:
        """Whether what an object holds is counted."""
        return id(owner) in self._owners

    def change(self, size: int) -> None:
        """Add a number of bytes, or subtract them; the holder subtracts them when it frees the memory."""
        self._note(0, _TEXTS, size)
        self._add(size)

    def _add(self, size: int) -> None:
        self.live += size
        if self.live > self.peak:
            self.peak = self.live

    def _note(self, key: int, holder: str, size: int) -> None:
        if self.log is not None:
            self.log.append((key, holder, size))

    def holders_at_peak(self) -> dict[str, int]:
        """Return {name of a holder: bytes} at the moment of the most bytes, the largest first.

        Needs `log` from the beginning; {} without it.
        """
        live = peak = moment = 0
        changes = self.log or []
        for place, (_, _, size) in enumerate(changes, 1):
            live += size
            if live > peak:
                peak, moment = live, place
        held: dict[int, int] = {}
        names: dict[int, str] = {}
        for key, holder, size in changes[:moment]:
            held[key] = held.get(key, 0) + size
            names[key] = holder or names[key]
        found: dict[str, int] = {}
        for key, size in held.items():
            if size:
                found[names[key]] = found.get(names[key], 0) + size
        return dict(sorted(found.items(), key=lambda entry: -entry[1]))

    def check(self, wanted: int = 0) -> None:
        """ResourceExhaustedError naming the largest holders if `wanted` more bytes pass the limit."""
        limit = self.limit_bytes
        if limit is None or self.live + wanted <= limit:
            return
        if wanted <= limit and self.relief is not None:
            while self.live + wanted > limit and self.relief():
                pass
        if self.live + wanted > limit:
            self.refused += 1
            raise self._exhausted(wanted)

    def statistics(self) -> AllocationStatistics:
        return AllocationStatistics(self.live, self.peak, self.allocations, self.largest, self.limit_bytes)

    def reset_peak(self) -> None:
        """Let the peak be what is in use now."""
        self.peak = self.live

    def close(self) -> None:
        """Nobody asks any more: know none of what is held."""
        self._owners.clear()

    def _forget(self, key: int, _: object) -> None:
        size, _, _ = self._owners.pop(key, (0, "", None))
        self._note(key, "", -size)
        self.live -= size

    def _exhausted(self, wanted: int) -> ResourceExhaustedError:
        by_holder: dict[str, int] = {}
        for size, holder, _ in tuple(self._owners.values()):
            by_holder[holder] = by_holder.get(holder, 0) + size
        largest = sorted(by_holder.items(), key=lambda entry: -entry[1])[:_NAMED]
        holders = "; ".join(f"'{name}' holds {size:,}" for name, size in largest) or "nothing yet"
        asked = f"{wanted:,} bytes are wanted and " if wanted else ""
        return ResourceExhaustedError(
            f"{asked}{self.live:,} bytes are in use, the limit is {self.limit_bytes:,} "
            f"({self._what}); the largest holders: {holders}"
        )


__all__ = ["AllocationStatistics", "Ledger"]
