"""One kernel on several cores: free threads take independent pieces of its work.

NumPy releases the interpreter lock while it computes, so that pieces of some ten microseconds run in
parallel. The calling thread works on the pieces itself; helpers, one for each further core, join it if they
are free, and the call does not wait for a helper that has not begun. Pieces write to separate places, so that
values do not depend on the threads that compute them, nor on the number of cores.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import queue
import threading
from collections.abc import Callable
from typing import Any, Final

import numpy as np

#: More cores than these add little: elementwise work is bound by memory.
_CORES_MAX: Final = 8


def cores() -> int:
    """On how many cores kernels spread; FLOWENGINE_KERNEL_CORES, or what the process may use up to eight."""
    text = os.environ.get("FLOWENGINE_KERNEL_CORES", "")
    if text.isdecimal() and int(text) > 0:
        return int(text)
    try:
        return min(len(os.sched_getaffinity(0)), _CORES_MAX)
    except AttributeError:  # only Linux has it
        return min(os.cpu_count() or 1, _CORES_MAX)


class _Work:
    """A call of `spread` under way."""

    __slots__ = ("_count", "_ended", "_next", "_piece", "error", "finished")

    def __init__(self, piece: Callable[[int], Any], count: int) -> None:
        self._piece = piece
        self._count = count
        self._next = itertools.count()
        self._ended = itertools.count(1)
        self.error: BaseException | None = None
        #: Held until the last piece has ended.
        self.finished = threading.Lock()
        self.finished.acquire()

    def run(self) -> None:
        """Take pieces until there are none."""
        for number in self._next:
            if number >= self._count:
                return
            try:
                if self.error is None:
                    self._piece(number)
            except BaseException as error:  # handed to the thread that called `spread`
                self.error = error
            if next(self._ended) == self._count:
                self.finished.release()


class _Helpers:
    """Daemon threads, begun when first needed and again in a child process after a fork."""

    def __init__(self) -> None:
        self.count = -1
        self._process = 0
        self._lock = threading.Lock()
        self._calls: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        atexit.register(self._finish)

    def start(self) -> None:
        with self._lock:
            if self._process == os.getpid():
                return
            self._calls = queue.SimpleQueue()
            self._threads = [
                threading.Thread(
                    target=_help, args=(self._calls,), name=f"flowengine-helper-{index}", daemon=True
                )
                for index in range(cores() - 1)
            ]
            for thread in self._threads:
                thread.start()
            self.count = len(self._threads)
            self._process = os.getpid()

    def ask(self, work: _Work, pieces: int) -> None:
        for _ in range(min(self.count, pieces)):
            self._calls.put(work)

    def _finish(self) -> None:
        if self._process != os.getpid():
            return
        with contextlib.suppress(queue.Empty):
            while True:
                self._calls.get_nowait()
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads:
            thread.join()

    def forget(self) -> None:
        """In a child process: the threads have stayed behind, and the lock may be held by one of them."""
        self._process = 0
        self.count = -1
        self._lock = threading.Lock()


def _help(calls: queue.SimpleQueue[_Work | None]) -> None:
    # NumPy keeps floating-point error handling per thread; kernels run without its warnings.
    with np.errstate(all="ignore"):
        while True:
            work = calls.get()
            if work is None:
                return
            work.run()
            del work


_helpers: Final = _Helpers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.forget)


def spread(piece: Callable[[int], Any], count: int) -> None:
    """Call piece(0), ..., piece(count - 1), several at a time; returns when all have ended.

    Raises the error of the first piece that fails, and begins no further piece.
    """
    if count > 1:
        if _helpers.count < 0:
            _helpers.start()
        if _helpers.count:
            work = _Work(piece, count)
            _helpers.ask(work, count - 1)
            work.run()
            work.finished.acquire()
            if work.error is not None:
                raise work.error
            return
    for number in range(count):
        piece(number)


def slices(length: int, step: int) -> list[slice]:
    """[0, length) in pieces of `step` at most."""
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]
