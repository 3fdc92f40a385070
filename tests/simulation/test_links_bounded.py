"""Cut, silent, half-open and slow links: a client hears of them within the stated bound, and which it was."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio

from flowengine.core.errors import OpError
from flowengine.testing.simulation.faults import Fault, FaultKind, make_faults
from flowengine.testing.simulation.network import LinkModel
from flowengine.testing.simulation.world import CONFIG, World, simulate
from tests.tools.scenarios.training import Training

_SILENCE = 6.0
#: A peer is given up a twelfth after its time at the latest; the client may hear of it over another link.
_BOUND = _SILENCE * 13 / 12 + 0.1
_CONFIG = replace(CONFIG, silence_seconds=_SILENCE)
_TRAINING = Training(2, 2)
#: Links of all kinds: client and master, master and task, task and task.
_LINKS = [("client", "worker0"), ("worker0", "ps1"), ("ps0", "worker1")]
#: For longer than anybody waits.
_LONG = 10_000.0


def first_error(faults: list[Fault], *, steps_max: int = 10_000) -> tuple[OpError, float]:
    """Train until a step fails: its error, and the simulated seconds from the first fault on."""
    found: list[tuple[OpError, float]] = []

    async def main(world: World) -> None:
        begun: list[float] = []

        async def fault() -> None:
            await world.network.wait_pieces(150)
            begun.append(trio.current_time())
            await make_faults(world, faults)

        async def client() -> None:
            async with world.session(_TRAINING.graph(), "/job:worker/task:0") as session:
                await session.run([], targets=["init"])
                try:
                    for _ in range(steps_max):
                        await session.run("train:0")
                except OpError as error:
                    found.append((error, trio.current_time() - begun[0]))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fault)
            await world.run_client("client", client)
            nursery.cancel_scope.cancel()

    simulate(main, seed=1, jobs=_TRAINING.jobs, config=_CONFIG, seconds_max=1000.0)
    assert found, "no step failed"
    return found[0]


@pytest.mark.parametrize(("near", "far"), [*_LINKS, *((far, near) for near, far in _LINKS)])
@pytest.mark.parametrize("kind", [FaultKind.RESET, FaultKind.PART, FaultKind.HALF_OPEN])
def test_an_error_comes_in_time_and_names_the_link(kind: FaultKind, near: str, far: str) -> None:
    error, seconds = first_error([Fault(0, kind, near, far, _LONG)])
    assert seconds <= (_BOUND if kind is not FaultKind.RESET else 0.1)
    task = {"worker0": "/job:worker/task:0", "worker1": "/job:worker/task:1"}
    names = [each for host in (near, far) for each in (host, task.get(host, f"/job:ps/task:{host[-1]}"))]
    assert any(name in error.message for name in names if "client" not in name), error.message
    assert "link" in error.message or "sim://" in error.message, error.message


@pytest.mark.parametrize("host", ["worker0", "worker1", "ps0", "ps1"])
@pytest.mark.parametrize("kind", [FaultKind.KILL, FaultKind.LOSE, FaultKind.STALL])
def test_a_task_that_is_gone_is_named_in_time(kind: FaultKind, host: str) -> None:
    error, seconds = first_error([Fault(0, kind, host, seconds=_LONG)])
    assert seconds <= (_BOUND if kind is not FaultKind.KILL else 0.1)
    assert host in error.message or f"/job:{host[:-1]}/task:{host[-1]}" in error.message, error.message


def test_a_slow_link_is_no_error() -> None:
    with pytest.raises(AssertionError, match="no step failed"):
        first_error([Fault(0, FaultKind.SLOW, "worker0", "ps0", 1.0)], steps_max=100)


def test_a_link_that_takes_longer_than_silence_may_is_lost() -> None:
    async def main(world: World) -> None:
        async def client() -> None:
            begun = trio.current_time()
            async with world.session(_TRAINING.graph(), "/job:worker/task:0") as session:
                with pytest.raises(OpError, match="task:0"):
                    await session.run([], targets=["init"])
                assert trio.current_time() - begun < 3 * _BOUND

        world.network.models["worker0", "ps0"] = LinkModel(latency_seconds=2 * _SILENCE)
        await world.run_client("client", client)

    simulate(main, seed=1, jobs=_TRAINING.jobs, config=_CONFIG, seconds_max=1000.0)
