"""Whether anybody still wants what a thread computes.

A step that ends does not wait for kernels that only compute. One that goes over many strings asks now and
then, and stops when its step is over: else the thread, and the interpreter's lock, stay taken for nobody.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from flowengine.core.errors import CancelledError

#: What a step is told that the end of its session overtook.
SESSION_CLOSED: Final = "the session was closed while this step was running"

T = TypeVar("T")

#: So many strings are gone over between two looks: a look costs as much as a tenth of a short one.
_STRIDE: Final = 16


class WantedJob(Protocol):
    """A job that a thread runs and that its caller may give up."""

    is_given_up: bool


class _ThreadJob(threading.local):
    job: WantedJob | None = None


_UNDER_WAY: Final = _ThreadJob()


def begin(job: WantedJob | None) -> None:
    """Say what this thread does from here on."""
    _UNDER_WAY.job = job


def may_wait() -> bool:
    """Whether this thread works for somebody: the event loop's does not, and must not wait for another."""
    return _UNDER_WAY.job is not None


def check_wanted() -> None:
    """CancelledError where nobody wants the result any more. May be called on any thread."""
    # No variable of a frame that the error keeps may hold the job, which keeps the error.
    if _is_given_up():
        raise CancelledError("the step that asked for this is over")


def _is_given_up() -> bool:
    job = _UNDER_WAY.job
    return job is not None and job.is_given_up


def each(function: Callable[[Any], T], values: Sequence[Any]) -> list[T]:
    """Apply a function to each value, and stop with CancelledError once nobody wants the results."""
    if len(values) <= _STRIDE:
        return [function(value) for value in values]
    found: list[T] = []
    for start in range(0, len(values), _STRIDE):
        check_wanted()
        found += [function(value) for value in values[start : start + _STRIDE]]
    return found


__all__ = ["SESSION_CLOSED", "WantedJob", "begin", "check_wanted", "each", "may_wait"]
