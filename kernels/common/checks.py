"""Checks of values that shapes do not show: an index out of range, a divisor of zero.

    refuse(((indices < 0) | (indices >= bound)).any(), lambda: outside(indices, bound))

For a condition in host memory, `refuse` raises the error at once. Reading one in the memory of a device would
wait for all work launched before. So `refuse` passes it to the caller that gathers checks around the kernel's
call (`gathered`), and that reads it before results leave the step. Until then the kernel continues: an index
out of range wraps around, and its result is dropped.
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
    error   makes the error; it may read the values that the message names
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
