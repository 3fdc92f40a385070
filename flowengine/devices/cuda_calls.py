"""Contexts around kernel calls on a card: CuPy uses the device's stream and its memory pool.

    with device.entered():                # a row of kernels on this thread: entered once
        with device.computing(): ...      # each kernel
        with device.computing(): ...

To enter card, stream and allocator takes the host as long as a third of a launch. Around single kernels they
are entered for each. Nothing is entered while a thread does anything else: others may use CuPy on it.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Any, Final

from flowengine.devices.cuda_errors import CudaErrors
from flowengine.devices.cuda_times import CudaTimes


class CardCalls:
    """The contexts that one device enters around its kernels.

    card         makes the card as a context
    allocator    makes the allocator of the device's memory as a context
    stream       of the work
    has_worked   whether kernels have run since the last event of the work
    """

    def __init__(self, card: Any, allocator: Any, stream: Any, errors: CudaErrors, times: CudaTimes) -> None:
        self.has_worked = False
        self.stream: Final = stream
        self.card: Final = card
        self.allocator: Final = allocator
        self.errors: Final = errors
        self.times: Final = times
        self._within: Final = _WithinCall(self)
        self.threads: Final = threading.local()

    def around(self) -> AbstractContextManager[None]:
        """Around one kernel."""
        if getattr(self.threads, "is_within", False) and not self.times.is_wanted:
            return self._within
        return _CardCall(self)

    def entered(self) -> AbstractContextManager[None]:
        """Around a row of kernels; within another one it does nothing."""
        return _CardRow(self)


class _CardRow:
    """Around a row of kernels. What is wrong with the card is left to them, whose errors name nodes."""

    __slots__ = ("_calls", "_entered")

    def __init__(self, calls: CardCalls) -> None:
        self._calls = calls
        self._entered: list[Any] = []

    def __enter__(self) -> None:
        calls = self._calls
        if calls.errors.lost or getattr(calls.threads, "is_within", False):
            return
        with suppress(*calls.errors.kinds):
            self._entered = _enter(calls)
            calls.threads.is_within = True

    def __exit__(self, *_: object) -> None:
        if self._entered:
            self._calls.threads.is_within = False
            _leave(self._entered)


class _WithinCall:
    """Around each kernel of a row: no two threads' calls share anything here."""

    __slots__ = ("_calls",)

    def __init__(self, calls: CardCalls) -> None:
        self._calls = calls

    def __enter__(self) -> None:
        if self._calls.errors.lost:
            self._calls.errors.check()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        calls = self._calls
        calls.has_worked = True
        if error is not None and isinstance(error, calls.errors.kinds):
            raise calls.errors.ours(error) from None


class _CardCall:
    """Around a kernel by itself. No generator: those take the host twice as long."""

    __slots__ = ("_calls", "_entered", "_timed")

    def __init__(self, calls: CardCalls) -> None:
        self._calls = calls

    def __enter__(self) -> None:
        calls = self._calls
        if calls.errors.lost:
            calls.errors.check()
        self._entered = _enter(calls)
        self._timed = calls.times.begin(0, "work", calls.stream)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        calls = self._calls
        if self._timed is not None:
            # If the card refuses that, the error of the call, or of the next one, is the one to raise.
            with suppress(*calls.errors.kinds):
                calls.times.end(self._timed, calls.stream)
        _leave(self._entered)
        # Set at the end, because another thread may have recorded an event before all of it was launched.
        calls.has_worked = True
        if error is not None and isinstance(error, calls.errors.kinds):
            raise calls.errors.ours(error) from None


def _enter(calls: CardCalls) -> list[Any]:
    """Card, stream and allocator, which this thread is in from now on."""
    card, allocator = calls.card(), calls.allocator()
    card.__enter__()
    try:
        calls.stream.__enter__()
        try:
            allocator.__enter__()
        except BaseException:
            calls.stream.__exit__(None, None, None)
            raise
    except BaseException:
        card.__exit__(None, None, None)
        raise
    return [card, calls.stream, allocator]


def _leave(contexts: list[Any]) -> None:
    """Leave what `_enter` gave."""
    for context in reversed(contexts):
        context.__exit__(None, None, None)


__all__ = ["CardCalls"]
