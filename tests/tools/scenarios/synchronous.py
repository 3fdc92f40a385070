"""Synchronous training under faults, by `fe.train.run_with_recovery`: it must end as if there were none.

outcome = play_synchronous(seed=7)      # raises Divergence or Hang
print(outcome.log.text())
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import trio

import flowengine as fe
from flowengine.checkpoint import open_checkpoint
from flowengine.testing.simulation.chance import generator
from flowengine.testing.simulation.faults import Fault, make_faults, random_faults
from flowengine.testing.simulation.world import World, simulate
from tests.tools.scenarios.outcomes import LINKS, SECONDS_MAX, Divergence, ScenarioOutcome
from tests.tools.scenarios.training import Training

#: The host of the program that trains.
CLIENT: Final = "client"
#: The task whose master it dials.
MASTER: Final = "/job:worker/task:0"
#: More than any scenario needs: what goes on for ever shows as a hang.
_RESTARTS_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class SynchronousTraining:
    """A synchronous training run, and its length.

    training      the graph
    steps         steps to train
    save_every    steps between checkpoints
    faults        how many there are
    """

    training: Training = field(default_factory=Training)
    steps: int = 12
    save_every: int = 4
    faults: int = 4

    def random_faults(self, seed: object) -> list[Fault]:
        """The faults of a seed."""
        hosts = [f"{job}{number}" for job, count in self.training.jobs.items() for number in range(count)]
        return random_faults(generator(seed, "faults"), [*hosts, CLIENT], self.faults)


class _Trainer:
    """The program of the client: trains to the last step, from the latest checkpoint whenever it begins."""

    def __init__(self, world: World, scenario: SynchronousTraining) -> None:
        self._world = world
        self._scenario = scenario
        self.values: list[Any] = []
        self.restarts = 0

    async def run(self) -> None:
        scenario, world = self._scenario, self._world
        result = await fe.train.run_with_recovery(
            scenario.training.graph(),
            self._step,
            directory=world.disk / "checkpoints",
            steps=scenario.steps,
            save_steps=scenario.save_every,
            # A name made of the folder, which is another each time, would show.
            target=world.target(MASTER, client=CLIENT),
            config=world.config,
            max_restarts=_RESTARTS_MAX,
            max_wait_seconds=SECONDS_MAX,
            on_restart=self._restarted,
        )
        assert result.checkpoint is not None, "a run ended without a checkpoint"
        with open_checkpoint(result.checkpoint) as saved:
            self.values = [saved.read(f"w{number}".encode()) for number in range(scenario.training.ps)]

    async def _step(self, session: fe.Session, number: int) -> None:
        found = await session.run("train:0")
        if found != number + 1:
            raise Divergence(f"step {number + 1} says that it is step {found}")
        self._world.log.add(CLIENT, f"step {found}")

    def check(self) -> None:
        """Raises Divergence unless the last checkpoint holds what it must."""
        expected = self._scenario.training.reference(self._scenario.steps)
        for number, (value, right) in enumerate(zip(self.values, expected, strict=True)):
            if not np.array_equal(value, right):
                raise Divergence(f"w{number} is {value.tolist()}, without faults it is {right.tolist()}")

    def _restarted(self, restart: fe.train.Restart) -> None:
        self.restarts += 1
        what = f"{type(restart.error).__name__}: {restart.error}"
        self._world.log.add(CLIENT, f"goes on from step {restart.resumed}, at {restart.step} it met {what}")


def play_synchronous(
    seed: object,
    scenario: SynchronousTraining | None = None,
    faults: Sequence[Fault] | None = None,
    **options: Any,
) -> ScenarioOutcome:
    """Train under faults, by default the seed's own.

    Raises Divergence where the parameters are not, bit by bit, those of a run without faults, and Hang where
    training does not end.
    """
    scenario = scenario if scenario is not None else SynchronousTraining()
    chosen = scenario.random_faults(seed) if faults is None else list(faults)
    trainers: list[_Trainer] = []
    seconds: list[float] = []

    async def main(world: World) -> None:
        trainers.append(_Trainer(world, scenario))
        world.add_host(CLIENT)
        begun = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(make_faults, world, chosen)
            await world.run_client(CLIENT, trainers[0].run)
            nursery.cancel_scope.cancel()
        seconds.append(trio.current_time() - begun)
        world.log.add(CLIENT, f"has {[value.tolist() for value in trainers[0].values]}")
        trainers[0].check()

    options.setdefault("model", LINKS)
    options.setdefault("seconds_max", SECONDS_MAX)
    world = simulate(main, seed=seed, jobs=scenario.training.jobs, **options)
    return ScenarioOutcome(world.log, seconds[0], trainers[0].restarts)


__all__ = ["CLIENT", "MASTER", "SynchronousTraining", "play_synchronous"]
