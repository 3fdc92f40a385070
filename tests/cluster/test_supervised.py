"""How tasks of a local cluster are started again and ended, on a clock of its own and without processes."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from flowengine.cluster import local
from flowengine.cluster.local import LocalCluster
from flowengine.cluster.spec import ClusterSpec

TASK = "/job:worker/task:0"
FIRST, MOST, SHORT = local._PAUSE_SECONDS, local._PAUSE_SECONDS_MAX, local._SHORT_LIFE_SECONDS


class FakeProcess:
    """A process that lives for so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._ends = trio.current_time() + seconds

    async def wait(self) -> int:
        await trio.sleep_until(self._ends)
        return 1


async def pauses(monkeypatch: pytest.MonkeyPatch, lives: list[float]) -> list[float]:
    """How long it is from each end of the task to its next start."""
    found: list[float] = []
    left = list(lives)
    processes: dict[str, Any] = {TASK: FakeProcess(left.pop(0))}
    cluster = LocalCluster(ClusterSpec.of({"worker": ["h:1"]}), Path("cluster.toml"), processes, ())

    async def start(self: LocalCluster, task: str) -> None:
        found.append(trio.current_time() - processes[task]._ends)
        if not left:
            await trio.sleep_forever()
        processes[task] = FakeProcess(left.pop(0))

    monkeypatch.setattr(LocalCluster, "start", start)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cluster.supervise)
        await trio.sleep(sum(lives) + MOST * len(lives))
        assert cluster._kept == {TASK}
        nursery.cancel_scope.cancel()
    assert not cluster._kept
    return found


async def test_what_lives_long_is_started_again_soon(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    assert await pauses(monkeypatch, [9.0, 2 * SHORT, 60.0]) == pytest.approx([FIRST] * 3)
    assert autojump_clock.autojump_threshold == 0


async def test_what_ends_at_once_is_started_more_and_more_rarely(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """The longest that is a short life counts as one, and a long life makes good for all before."""
    lives = [SHORT, *([0.0] * 8), 9.0, 0.0]
    expected = [min(FIRST * 2**number, MOST) for number in range(1, 10)]
    assert expected[-1] == MOST
    assert await pauses(monkeypatch, lives) == pytest.approx([*expected, FIRST, 2 * FIRST])
    assert autojump_clock.autojump_threshold == 0


class Asked:
    """A process that may end when it is asked to, in so many seconds, or has ended; and what it was told."""

    def __init__(self, seconds: float, *, has_ended: bool = False) -> None:
        self.seconds = seconds
        self.told: list[int] = []
        self._ended = trio.Event()
        self._ends_at: float | None = None
        if has_ended:
            self._ended.set()

    def poll(self) -> int | None:
        return 0 if self._ended.is_set() else None

    def send_signal(self, number: int) -> None:
        self.told.append(number)
        self._ends_at = trio.current_time() + self.seconds

    def kill(self) -> None:
        self.told.append(signal.SIGKILL)
        self._ended.set()

    async def wait(self) -> int:
        if not self._ended.is_set():
            await trio.sleep_until(float("inf") if self._ends_at is None else self._ends_at)
            self._ended.set()
        return 0


async def test_tasks_are_asked_to_end_and_those_that_do_not_are_ended(
    autojump_clock: trio.testing.MockClock,
) -> None:
    quick, deaf, ended = Asked(1.0), Asked(float("inf")), Asked(0.0, has_ended=True)
    processes: dict[str, Any] = {f"/job:worker/task:{n}": p for n, p in enumerate((quick, deaf, ended))}
    spec = ClusterSpec.of({"worker": ["h:1", "h:2", "h:3"]})
    await LocalCluster(spec, Path("cluster.toml"), processes, ()).end()
    assert (quick.told, deaf.told, ended.told) == ([signal.SIGTERM], [signal.SIGTERM, signal.SIGKILL], [])
    assert autojump_clock.current_time() == pytest.approx(local._END_SECONDS)
