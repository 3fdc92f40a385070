"""Bugs planted on purpose: the simulation must find each within a bounded number of seeds.

Guards stand behind one another in the engine, so a guard that others make up for is not found missing, and
is not among these.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import trio
from hypothesis import Phase, find, settings

from flowengine.cluster.ids import StepNumbers
from flowengine.cluster.remote import RemoteSession
from flowengine.core.errors import OpError
from flowengine.testing.simulation.faults import Fault, FaultKind
from flowengine.testing.simulation.outcomes import Failure
from flowengine.testing.simulation.strategies import fault_schedules
from flowengine.train.saver import Saver
from flowengine.transport.connection import Connection
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.tensors.steps import EndedSteps
from tests.tools.scenarios.asynchronous import AsynchronousTraining, play_asynchronous
from tests.tools.scenarios.outcomes import Divergence
from tests.tools.scenarios.synchronous import CLIENT, SynchronousTraining, play_synchronous
from tests.tools.scenarios.training import Training

_SMALL = SynchronousTraining(Training(2, 2), steps=8, save_every=3)
#: Seeds within which each must be found.
_SEEDS = 25

Patch = pytest.MonkeyPatch


def _step_numbers_return(patch: Patch) -> None:
    """Plant a bug: messages of an earlier step that come late are taken for the present step's."""
    patch.setattr(StepNumbers, "new", lambda self: 1 << 40)
    patch.setattr(EndedSteps, "add", lambda self, step: None)


def _lost_answers_are_asked_for_again(patch: Patch) -> None:
    """A step that has been made may be made twice."""
    step: Callable[..., Any] = RemoteSession._step

    async def again(self: RemoteSession, *arguments: Any) -> Any:
        try:
            return await step(self, *arguments)
        except ConnectionLostError:
            await trio.sleep(0.1)
            return await step(self, *arguments)

    patch.setattr(RemoteSession, "_step", again)


def _silence_is_endured(patch: Patch) -> None:
    """A peer that says nothing is waited for, for ever."""
    patch.setattr(Connection, "handle_time", lambda self, now: setattr(self.wire, "now", now))


def _nothing_is_restored(patch: Patch) -> None:
    """Training goes on from whatever the variables hold."""

    async def restore(self: Saver, *arguments: Any, **options: Any) -> list[str]:
        return []

    patch.setattr(Saver, "restore", restore)


def _failure(play: Callable[[], object]) -> Exception | None:
    try:
        play()
    except (Failure, OpError) as error:
        return error
    return None


@pytest.mark.slow
@pytest.mark.parametrize(
    "plant",
    [_step_numbers_return, _silence_is_endured, _nothing_is_restored],
)
def test_a_planted_bug_is_found(plant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    plant(monkeypatch)
    assert any(
        _failure(partial(play_synchronous, seed, _SMALL, seconds_max=600.0)) is not None
        for seed in range(_SEEDS)
    )


@pytest.mark.slow
def test_an_update_that_is_made_twice_is_found(monkeypatch: Patch) -> None:
    _lost_answers_are_asked_for_again(monkeypatch)
    model = AsynchronousTraining(1, 1, 12)
    assert any(
        isinstance(_failure(partial(play_asynchronous, 0, model, [fault])), Divergence)
        for fault in (Fault(60 + seed, FaultKind.RESET, "client0", "worker0") for seed in range(_SEEDS))
    )


@pytest.mark.slow
def test_what_is_found_shrinks_to_one_fault(monkeypatch: Patch) -> None:
    _nothing_is_restored(monkeypatch)
    tiny = SynchronousTraining(Training(1, 1), steps=5, save_every=2)
    smallest = find(
        fault_schedules(["ps0", "worker0", CLIENT], count_max=2, pieces_max=90),
        lambda faults: _failure(partial(play_synchronous, 0, tiny, faults, seconds_max=600.0)) is not None,
        settings=settings(max_examples=40, derandomize=True, phases=(Phase.generate, Phase.shrink)),
    )
    assert len(smallest) == 1, [str(fault) for fault in smallest]
