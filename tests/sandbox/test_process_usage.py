"""Usage of a process as the kernel reports it, and its refusals: the process takes memory on demand."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from flowengine.sandbox.process_usage import THREADS_MAX, ProcessUsage, died_of

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limits are Linux's")

_MB: Final = 1 << 20

_TAKING: Final = """
import mmap
held = []
while True:
    kind, size = input().split()
    try:
        if kind == "written":
            held.append(bytearray(b"1") * int(size))
        elif kind == "mapped":
            held.append(mmap.mmap(-1, int(size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        else:
            held.clear()
        print("taken", flush=True)
    except (MemoryError, OSError):
        print("refused", flush=True)
"""

Take = Callable[[str, int], str]


@pytest.fixture
def taking() -> Iterator[tuple[ProcessUsage, Take]]:
    """A process at rest, and what makes it take so many MB, written or only mapped, or drop all."""
    with subprocess.Popen(
        [sys.executable, "-I", "-c", _TAKING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def take(kind: str, size: int) -> str:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{kind} {size * _MB}\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        take("dropped", 0)
        gauge = ProcessUsage(process.pid)
        gauge.settle(100 * _MB)
        yield gauge, take
        gauge.close()
        process.kill()


def _near(size: int) -> object:
    return pytest.approx(size * _MB, abs=4 * _MB)


def test_what_is_written_counts_and_what_is_mapped_does_not(taking: tuple[ProcessUsage, Take]) -> None:
    gauge, take = taking
    assert take("written", 40) == "taken"
    assert take("mapped", 300) == "taken"
    assert gauge.taken_bytes == _near(40)
    gauge.shared_bytes = lambda: 10 * _MB
    assert gauge.taken_bytes == _near(50)
    take("dropped", 0)
    assert gauge.taken_bytes == _near(10)


def test_what_may_be_asked_for(taking: tuple[ProcessUsage, Take]) -> None:
    gauge, take = taking
    gauge.allow(100 * _MB)
    assert not gauge.is_tight
    assert take("written", 60) == "taken"
    assert take("written", 60) == "refused"
    assert gauge.taken_bytes == _near(60)
    gauge.allow(40 * _MB)
    assert take("written", 30) == "taken"
    assert take("written", 30) == "refused"
    assert gauge.taken_bytes == _near(90)
    gauge.allow(-10 * _MB, least=8 * _MB)
    assert take("written", 20) == "refused"
    assert take("written", 5) == "taken"
    take("dropped", 0)
    assert gauge.taken_bytes == _near(0)
    gauge.allow(100 * _MB)
    assert take("written", 90) == "taken"


def test_what_was_asked_for_and_not_written_counts_until_the_process_rests(
    taking: tuple[ProcessUsage, Take],
) -> None:
    gauge, take = taking
    gauge.allow(300 * _MB)
    assert take("mapped", 150) == "taken"
    assert gauge.taken_bytes == _near(0)
    gauge.allow(200 * _MB)
    assert gauge.is_tight
    assert take("written", 120) == "refused"
    assert take("written", 60) == "taken"
    take("dropped", 0)
    gauge.rest()
    gauge.allow(200 * _MB)
    assert take("mapped", 90) == "taken"
    gauge.rest()
    gauge.allow(200 * _MB)
    assert take("written", 150) == "taken"


def test_threads_are_bounded_whatever_else_runs(taking: tuple[ProcessUsage, Take]) -> None:
    gauge, _ = taking
    gauge.allow(100 * _MB)
    assert gauge.threads == 1
    soft, hard = resource.prlimit(gauge.pid, resource.RLIMIT_NPROC)
    # Those of others count, so the bound is beyond them; it can be raised again when they are more.
    assert THREADS_MAX < soft < THREADS_MAX + 100_000
    assert hard == resource.getrlimit(resource.RLIMIT_NPROC)[1]


def test_the_address_space_is_bounded(taking: tuple[ProcessUsage, Take]) -> None:
    _, take = taking
    assert take("mapped", 1000) == "taken"
    assert take("mapped", 1000) == "refused"


def test_a_gauge_that_is_closed_sees_nothing_and_holds_nothing(taking: tuple[ProcessUsage, Take]) -> None:
    before = set(os.listdir("/proc/self/fd"))
    gauge = ProcessUsage(taking[0].pid)
    assert len(set(os.listdir("/proc/self/fd")) - before) == 3
    gauge.settle(1)
    assert gauge.cpu_seconds >= 0
    for _ in range(2):
        gauge.close()
    assert set(os.listdir("/proc/self/fd")) == before
    limits = resource.prlimit(gauge.pid, resource.RLIMIT_DATA)
    gauge.allow(1)
    # Its number may be another's by now.
    assert resource.prlimit(gauge.pid, resource.RLIMIT_DATA) == limits
    assert gauge.taken_bytes <= 0
    assert (gauge.threads, gauge.cpu_seconds) == (0, 0)


def test_a_process_that_is_gone_takes_nothing(taking: tuple[ProcessUsage, Take]) -> None:
    gauge = ProcessUsage(2**22 + 1)
    gauge.settle(1)
    gauge.rest()
    gauge.allow(1)
    assert gauge.taken_bytes == 0
    assert gauge.cpu_seconds == 0


@pytest.mark.parametrize(
    ("code", "said"), [(-9, "by SIGKILL"), (-200, "by signal 200"), (3, "by itself, with exit code 3")]
)
def test_how_a_process_ended(code: int, said: str) -> None:
    assert died_of(code) == said
