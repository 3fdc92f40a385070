"""How long OpenMP's idle threads look for work before they sleep.

GNU's OpenMP is told so in turns of a loop around the processor's PAUSE, which takes 10 ns on one processor
and 140 cycles on others: the same number is too short here (whoever waits for the others falls asleep before
they have woken up, and then has to be woken in turn) and robs the host's other threads there. So a turn
is timed, and the number made of it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Final

#: To wake a sleeping thread takes up to 0.1 ms on a virtual machine, and the threads of a team must outlast
#: that. What is longer harms where a core is busy with something else: there a detection network takes 48 ms
#: with 0.05 ms, 58 with 0.15 and 61 with 0.2; on idle cores 36, 28.5 and 28.
_SECONDS: Final = 150e-6
#: Of these where a turn cannot be timed.
_TURNS: Final = 5_000
_TURNS_MIN: Final = 1_000
_TURNS_MAX: Final = 20_000
_VARIABLE: Final = "GOMP_SPINCOUNT"
_VARIABLES: Final = (_VARIABLE, "OMP_WAIT_POLICY")

#: endbr64; mov ecx, edi; again: pause; dec ecx; jnz again; ret. No library has a function that pauses so
#: many times and no more.
_PAUSES: Final = bytes.fromhex("f30f1efa 89f9 f390 ffc9 75fa c3")
_TIMED: Final = 1_000
_ROUNDS: Final = 5


def seconds_of_a_turn() -> float | None:
    """What PAUSE takes here, 0.1 to 0.3 ms to find out; None on other processors, and where memory with
    instructions of a program's own is not allowed."""
    if sys.platform != "linux" or platform.machine() != "x86_64" or sys.maxsize < 1 << 32:
        return None
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return None
    with page:
        page.write(_PAUSES)
        start = ctypes.c_char.from_buffer(page)
        pause = ctypes.CFUNCTYPE(None, ctypes.c_uint32)(ctypes.addressof(start))
        best = float("inf")
        for _ in range(_ROUNDS):
            started = perf_counter()
            pause(_TIMED)
            best = min(best, perf_counter() - started)
        del start  # a page that something points into cannot be closed
    return best / _TIMED


def turns(seconds_of_one: float | None) -> int:
    """How many turns an idle thread should take, each of so many seconds."""
    if seconds_of_one is None:
        return _TURNS
    return max(_TURNS_MIN, min(_TURNS_MAX, round(_SECONDS / seconds_of_one)))


@contextmanager
def quiet_idle_threads() -> Iterator[None]:
    """While a library is loaded, tell GNU's OpenMP not to keep idle threads busy.

    It reads its settings when it is loaded, and only then: a host's own are respected, and the environment
    is left as it was found.
    """
    if any(name in os.environ for name in _VARIABLES):
        yield
        return
    os.environ[_VARIABLE] = str(turns(seconds_of_a_turn()))
    try:
        yield
    finally:
        del os.environ[_VARIABLE]
