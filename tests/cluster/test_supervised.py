"""How soon a task that ended is started again, on a clock of its own and without processes."""

from __future__ import annotations

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
