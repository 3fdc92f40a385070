"""One seed, one log: in another process, with another hash of text, after other simulations."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

import pytest
import trio

import flowengine.transport.wire.identity as identity
from flowengine.testing.simulation.chance import generator, seeded
from tests.effort import IS_NIGHTLY
from tests.tools.scenarios.asynchronous import AsynchronousTraining, play_asynchronous
from tests.tools.scenarios.synchronous import SynchronousTraining, play_synchronous

#: Seeds whose faults kill, part and slow.
_SEEDS = (3, 4, 25)


def _elsewhere(root: Path, scenario: str, seed: int, log: Path, hash_seed: str) -> bytes:
    command = [sys.executable, "-m", "tests.tools.scenarios", "--scenario", scenario]
    subprocess.run(
        [*command, "--seed", str(seed), "--log", str(log)],
        check=True,
        capture_output=True,
        cwd=root,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )
    return log.read_bytes()


def test_one_seed_gives_one_log_in_any_process(root: Path, tmp_path: Path) -> None:
    play_synchronous(99)
    for seed, hash_seed in zip(_SEEDS, ("1", "77"), strict=False):
        here = play_synchronous(seed).log.text().encode()
        assert here.count(b"\n") > 300
        assert _elsewhere(root, "synchronous", seed, tmp_path / "log", hash_seed) == here


def test_one_seed_gives_one_log_of_asynchronous_training(root: Path, tmp_path: Path) -> None:
    here = play_asynchronous(_SEEDS[2], AsynchronousTraining(attempts=12)).log.text().encode()
    assert _elsewhere(root, "asynchronous", _SEEDS[2], tmp_path / "log", "5") == here


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25) if IS_NIGHTLY else _SEEDS)
def test_every_seed_gives_its_log_again(seed: int) -> None:
    assert play_synchronous(seed).log.digest() == play_synchronous(seed).log.digest()


def test_another_seed_gives_another_log() -> None:
    quiet = SynchronousTraining(faults=0)
    logs = {play_synchronous(seed, quiet).log.digest() for seed in range(3)}
    assert len(logs) == 3


async def _order() -> list[int]:
    ran: list[int] = []

    async def note(number: int) -> None:
        ran.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(note, number)
    return ran


def test_the_seed_decides_the_order_of_tasks() -> None:
    orders = []
    for seed in (1, 1, 2, 3, 4):
        with seeded(seed):
            orders.append(tuple(trio.run(_order)))
    assert orders[0] == orders[1]
    assert len(set(orders)) == 4


def test_the_engine_draws_from_the_seed_and_only_meanwhile() -> None:
    drawn = []
    for seed in (1, 1, 2):
        with seeded(seed):
            drawn.append((identity.new_incarnation(), identity.new_key()))
    assert drawn[0] == drawn[1] != drawn[2]
    assert vars(identity)["secrets"] is secrets
    assert identity.new_incarnation() != identity.new_incarnation()


def test_no_clock_of_the_machine_is_read_meanwhile() -> None:
    """Nor that of a thread: on a busy machine a fold takes long, and its op is left to the step."""
    clocks = (time.time, time.monotonic, time.perf_counter, time.thread_time, time.process_time)
    with seeded(1):
        left = [
            f"{module}.{name}"
            for module, found in list(sys.modules.items())
            if module.startswith("flowengine.") and not module.startswith("flowengine.testing.")
            for name, value in vars(found).items()
            if any(value is clock for clock in clocks)
        ]
    assert left == []


def test_everything_is_put_back_when_a_simulation_fails() -> None:
    threads, switch = trio.to_thread.run_sync, vars(trio._core._run)["_ALLOW_DETERMINISTIC_SCHEDULING"]
    with pytest.raises(ZeroDivisionError), seeded(1):
        raise ZeroDivisionError
    assert trio.to_thread.run_sync is threads
    assert vars(trio._core._run)["_ALLOW_DETERMINISTIC_SCHEDULING"] is switch
    assert vars(identity)["secrets"] is secrets


def test_what_draws_more_does_not_disturb_another() -> None:
    first, second = generator(7, "a"), generator(7, "b")
    expected = generator(7, "b").random()
    first.random()
    assert second.random() == expected != generator(8, "b").random()
