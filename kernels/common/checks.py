"""Checks of values that shapes do not show: an index out of range, a divisor of zero.

    refuse(((indices < 0) | (indices >= bound)).any(), lambda: outside(indices, bound))

In host memory the condition is looked at, and the error raised, at once. On a device with memory of its own
a look would wait for all that was launched before, so the condition is handed to whoever gathers checks
around the kernel's call (`gathered`), who looks before results leave the step. Until then a kernel goes on
with what it has: an index out of range wraps around there, and what is computed is thrown away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from flowengine.core.arrays import in_host_memory


@dataclass(frozen=True, slots=True)
class Check:
    """A condition that must not hold.

    wrong   an array of rank 0 in a device's memory
    error   makes the error; it may read what it tells of
    """

    wrong: Any
    error: Callable[[], Exception]


_kept: Final = threading.local()


def refuse(wrong: Any, error: Callable[[], Exception]) -> None:
    """Raise the error where the condition holds: now, or when whoever gathers checks looks at it."""
    if isinstance(wrong, bool) or in_host_memory(wrong):
        if wrong:
            raise error()
        return
    gatherer: list[Check] | None = getattr(_kept, "gatherer", None)
    if gatherer is not None:
        gatherer.append(Check(wrong, error))


class CheckGathering:
    """Gathers the checks that kernels make inside, on this thread. It is around each: no generator."""

    __slots__ = ("_before", "_found")

    def __enter__(self) -> list[Check]:
        self._before = getattr(_kept, "gatherer", None)
        self._found: list[Check] = []
        _kept.gatherer = self._found
        return self._found

    def __exit__(self, *_: object) -> None:
        _kept.gatherer = self._before


def gathered() -> CheckGathering:
    """The checks that kernels make inside, on this thread: `with gathered() as checks`."""
    return CheckGathering()


__all__ = ["Check", "CheckGathering", "gathered", "refuse"]
