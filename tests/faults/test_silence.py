"""Processes that are stopped, and cables that are pulled: found within the bound, and usable afterwards."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import trio

import flowengine as fe
from flowengine.cluster.local import local_cluster, target_of
from tests.effort import IS_NIGHTLY
from tests.faults.namespaces import TASKS, Network, tasks_in, why_not
from tests.faults.test_links import MASTER, PS, WORKER, graph
from tests.faults.ticks import within

pytestmark = pytest.mark.slow

SILENCE = 1.5
BOUND = SILENCE * 13 / 12 + 1.0
CONFIG = fe.Config(silence_seconds=SILENCE)


async def lost_step(session: fe.Session) -> fe.errors.OpError:
    """A step that would wait for ever: how it ends, within the bound."""
    with trio.fail_after(30), within(BOUND), pytest.raises(fe.errors.OpError) as caught:
        await session.run("never:0")
    assert isinstance(caught.value, fe.errors.UnavailableError | fe.errors.AbortedError)
    return caught.value


async def usable_again(session: fe.Session) -> None:
    """Steps work soon, and go on to."""
    with trio.fail_after(30):
        while True:
            try:
                assert await session.run("y:0", {"x:0": 3}) == -6
                break
            except (fe.errors.UnavailableError, fe.errors.AbortedError):
                await trio.sleep(0.05)
    for _ in range(3):
        assert await session.run("y:0", {"x:0": 3}) == -6


@pytest.mark.slow
async def test_stopped_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWENGINE_SILENCE_SECONDS", str(SILENCE))
    async with (
        local_cluster({"ps": 1, "worker": 2}, options=["--log-level", "error"]) as cluster,
        fe.Session(graph(), target=cluster.target("worker", 0), config=CONFIG) as session,
    ):
        await session.run((), targets=["init"])
        await usable_again(session)
        for task in (WORKER, MASTER):
            process = cluster.processes[task].pid
            os.kill(process, signal.SIGSTOP)
            try:
                error = await lost_step(session)
                assert task in error.message
                if task == WORKER:
                    assert "on the link from" in error.message
                    assert await session.run("held:0") == 2
            finally:
                os.kill(process, signal.SIGCONT)
            await usable_again(session)


async def test_pulled_cables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = why_not()
    if reason:
        pytest.skip(reason)
    variables = {"FLOWENGINE_SILENCE_SECONDS": str(SILENCE)}
    assert TASKS == (MASTER, PS, WORKER)
    with Network() as network:
        async with (
            tasks_in(network, tmp_path, variables) as spec,
            fe.Session(graph(), target=target_of(spec, MASTER), config=CONFIG) as session,
        ):
            await session.run((), targets=["init"])
            await usable_again(session)
            for one, other in ((1, 2), (0, 2), (0, 1)) if IS_NIGHTLY else ((1, 2),):
                with network.pulled(one, other):
                    error = await lost_step(session)
                    assert TASKS[other] in error.message, (one, other)
                    assert TASKS[one] in error.message, (one, other)
                    assert "on the link from" in error.message
                    if one:
                        assert await session.run("held:0") == 2
                await usable_again(session)
