"""Training under faults, by seed and by schedules that shrink: what the engine promises, whatever happens."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings

import flowengine as fe
from flowengine.testing.simulation.faults import Fault, FaultKind
from flowengine.testing.simulation.strategies import fault_schedules
from tests.effort import IS_NIGHTLY
from tests.tools.scenarios.__main__ import main
from tests.tools.scenarios.asynchronous import AsynchronousTraining, play_asynchronous
from tests.tools.scenarios.synchronous import CLIENT, SynchronousTraining, play_synchronous
from tests.tools.scenarios.training import Training

_SMALL = SynchronousTraining(Training(2, 2), steps=8, save_every=3)
_HOSTS = ["ps0", "ps1", "worker0", "worker1", CLIENT]


async def test_the_reference_is_what_one_process_computes() -> None:
    training = Training(2, 3)
    async with fe.Session(training.graph(), config=fe.Config(allow_soft_placement=True)) as session:
        await session.run([], targets=["init"])
        for number in range(25):
            assert await session.run("train:0") == number + 1
            found = await session.run(["w0:0", "w1:0"])
            np.testing.assert_array_equal(found, training.reference(number + 1))
    assert np.abs(training.reference(25)[0]).max() > 0.1


def test_without_faults_nothing_begins_again() -> None:
    outcome = play_synchronous(1, _SMALL, [])
    assert outcome.restarts == 0
    assert outcome.seconds < 1


@pytest.mark.parametrize("kind", list(FaultKind))
def test_each_kind_of_fault_is_survived(kind: FaultKind) -> None:
    two = kind in (FaultKind.RESET, FaultKind.PART, FaultKind.HALF_OPEN, FaultKind.SLOW)
    faults = [Fault(150, kind, "worker0", "ps0" if two else "", 5.0)]
    outcome = play_synchronous(1, _SMALL, faults)
    assert outcome.log.of("worker0"), "the fault was not reached"
    assert outcome.restarts == (kind in (FaultKind.KILL, FaultKind.LOSE, FaultKind.RESET))


def test_the_program_is_killed_and_started_anew() -> None:
    outcome = play_synchronous(1, _SMALL, [Fault(250, FaultKind.KILL, CLIENT, seconds=1.0)])
    assert [entry.what for entry in outcome.log.of(CLIENT) if "starts" in entry.what] == [
        "starts, life 1",
        "starts, life 2",
    ]


@pytest.mark.parametrize("host", ["ps0", CLIENT])
def test_killed_twice_at_one_moment_is_killed_once(host: str) -> None:
    twice = [Fault(after, FaultKind.KILL, host, seconds=0.001) for after in (40, 0)]
    outcome = play_synchronous(0, _SMALL, twice)
    assert sum("crashes" in entry.what for entry in outcome.log.of(host)) == 1


@pytest.mark.slow
@settings(max_examples=1000 if IS_NIGHTLY else 5)
@given(fault_schedules(_HOSTS))
def test_synchronous_training_is_bit_equal(faults: list[Fault]) -> None:
    play_synchronous(0, _SMALL, faults)


@pytest.mark.slow
@settings(max_examples=500 if IS_NIGHTLY else 4)
@given(fault_schedules([*_HOSTS[:4], "client0", "client1"], immortal=frozenset({"ps0", "ps1"})))
def test_asynchronous_updates_are_made_once(faults: list[Fault]) -> None:
    play_asynchronous(0, AsynchronousTraining(2, 2, 10), faults)


@pytest.mark.slow
@pytest.mark.nightly
def test_fifty_workers() -> None:
    model = SynchronousTraining(Training(2, 50), steps=4, save_every=2)
    faults = [
        Fault(1400, FaultKind.KILL, "worker17", seconds=0.5),
        Fault(500, FaultKind.HALF_OPEN, "worker3", "ps1", 4.0),
        Fault(500, FaultKind.RESET, "worker0", "worker40"),
    ]
    outcome = play_synchronous(5, model, faults)
    assert outcome.restarts >= 1
    assert "life 2" in outcome.log.text()


def test_seeds_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "0:2", "--steps", "4", "--workers", "2"]) == 0
    assert "4 played, 0 failed" in capsys.readouterr().out
    assert main(["--seeds", "1", "--steps", "2", "--workers", "1"]) == 0
    assert re.match(r"seeds \d+:\d+\n2 played, 0 failed", capsys.readouterr().out)


def test_what_fails_says_how_to_play_it_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Training, "reference", lambda self, steps: [np.zeros(3)] * self.ps)
    options = ["--scenario", "synchronous", "--steps", "4"]
    assert main([*options, "--seed", "5"]) == 1
    said = capsys.readouterr().out
    assert "synchronous, seed 5: Divergence: w0 is [" in said
    assert "again: python -m tests.tools.scenarios --scenario synchronous --steps 4 --seed 5 --log" in said
    assert "1 played, 1 failed" in said
