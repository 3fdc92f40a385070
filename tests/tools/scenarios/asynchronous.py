"""Asynchronous training under faults: each worker has a program and a session of its own.

Every attempt of a worker to add its update is one bit, added to a number on each PS task. Whatever the order
and the faults, an update that a program was told of is there, one that failed is there once or not at all,
and none is there twice. As PS tasks hold the numbers and nothing is restored, they are not killed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import trio

import flowengine as fe
from flowengine.core.errors import OpError
from flowengine.testing.simulation.chance import generator
from flowengine.testing.simulation.faults import DEADLY, Fault, make_faults, random_faults
from flowengine.testing.simulation.world import World, simulate
from tests.tools.scenarios.outcomes import LINKS, SECONDS_MAX, Divergence, ScenarioOutcome

#: Bits of the numbers, and so attempts of a worker.
_ATTEMPTS_MAX: Final = 62
#: When all have ended, so long is waited for what may still be under way somewhere.
_SETTLING_SECONDS: Final = 120.0
_PAUSE_SECONDS: Final = 0.2
_OPERATOR: Final = "operator"


@dataclass(frozen=True, slots=True)
class AsynchronousTraining:
    """A training run of independent workers.

    ps, workers    tasks of either job
    attempts       updates of each worker
    faults         how many there are
    """

    ps: int = 2
    workers: int = 3
    attempts: int = 20
    faults: int = 4

    @property
    def jobs(self) -> dict[str, int]:
        return {"ps": self.ps, "worker": self.workers}

    def random_faults(self, seed: object) -> list[Fault]:
        """The faults of a seed: none kills a PS task."""
        hosts = [f"{job}{number}" for job, count in self.jobs.items() for number in range(count)]
        clients = [f"client{number}" for number in range(self.workers)]
        found = random_faults(generator(seed, "faults"), [*hosts, *clients], self.faults)
        return [fault for fault in found if not (fault.kind in DEADLY and fault.host.startswith("ps"))]

    def graph(self, worker: int) -> fe.Graph:
        """`init`, `add` (which takes `bit:0`), and `masksN:0`, what PS task N holds of all workers."""
        g = fe.Graph()
        ops = g.ops
        inits, added = [], []
        bit = g.placeholder("int64", [], name="bit")
        with g.device(f"/job:worker/task:{worker}"):
            mine = ops.OneHot(
                g.constant(np.int64(worker)), g.constant(np.int32(self.workers)), bit, ops.ZerosLike(bit)
            )
        for number in range(self.ps):
            with g.device(f"/job:ps/task:{number}"):
                masks = ops.VariableV2(shape=[self.workers], dtype="int64", name=f"masks{number}")
                inits.append(ops.Assign(masks, g.constant(np.zeros(self.workers, np.int64))))
            with g.device(f"/job:worker/task:{worker}"), g.control_dependencies([masks]):
                update = ops.Identity(mine)
            with g.device(f"/job:ps/task:{number}"):
                added.append(ops.AssignAdd(masks, update))
        with g.control_dependencies(inits):
            ops.NoOp(name="init")
        with g.device(f"/job:worker/task:{worker}"), g.control_dependencies(added):
            ops.NoOp(name="add")
        return g


class _WorkerProgram:
    """One worker's program; what it knows outlives it, as a notebook would."""

    def __init__(self, world: World, model: AsynchronousTraining, worker: int) -> None:
        self._world = world
        self._model = model
        self._worker = worker
        self._name = f"client{worker}"
        self.attempted = 0
        self.told = 0

    async def run(self) -> None:
        log = self._world.log
        async with self._world.session(
            self._model.graph(self._worker), f"/job:worker/task:{self._worker}"
        ) as session:
            while self.attempted < self._model.attempts:
                number = self.attempted
                self.attempted += 1
                try:
                    await session.run([], {"bit:0": np.int64(1 << number)}, targets=["add"])
                except OpError as error:
                    log.add(self._name, f"update {number} meets {type(error).__name__}: {error.message}")
                    await trio.sleep(_PAUSE_SECONDS)
                else:
                    self.told |= 1 << number
                    log.add(self._name, f"update {number}")

    def check(self, place: str, found: int) -> None:
        """Raises Divergence unless what is there may be."""
        lost, made_up = self.told & ~found, found & ~((1 << self.attempted) - 1)
        if lost or made_up:
            raise Divergence(f"{place} has {found:b} of {self._name}, which was told of {self.told:b}")


async def _until(world: World, graph: fe.Graph, fetches: Any, target: str = "") -> Any:
    """Run a step at the first worker's master until it succeeds."""
    async with world.session(graph, "/job:worker/task:0") as session:
        while True:
            try:
                return await session.run(fetches, targets=[target] if target else [])
            except OpError:
                await trio.sleep(_PAUSE_SECONDS)


def play_asynchronous(
    seed: object,
    model: AsynchronousTraining | None = None,
    faults: Sequence[Fault] | None = None,
    **options: Any,
) -> ScenarioOutcome:
    """Train under faults, by default the seed's own.

    Raises Divergence where an update was lost, made twice or made up, and Hang where training does not end.
    """
    model = model if model is not None else AsynchronousTraining()
    if model.attempts > _ATTEMPTS_MAX:
        raise ValueError(f"a worker makes at most {_ATTEMPTS_MAX} attempts, not {model.attempts}")
    chosen = model.random_faults(seed) if faults is None else list(faults)
    seconds: list[float] = []

    async def main(world: World) -> None:
        programs = [_WorkerProgram(world, model, worker) for worker in range(model.workers)]
        graph, found = model.graph(0), []

        async def initialize() -> None:
            await _until(world, graph, [], "init")

        async def look() -> None:
            found.extend(await _until(world, graph, [f"masks{number}:0" for number in range(model.ps)]))

        await world.run_client(_OPERATOR, initialize)
        for worker in range(model.workers):
            world.add_host(f"client{worker}")
        begun = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(make_faults, world, chosen)
            async with trio.open_nursery() as clients:
                for worker, program in enumerate(programs):
                    clients.start_soon(world.run_client, f"client{worker}", program.run)
            seconds.append(trio.current_time() - begun)
            nursery.cancel_scope.cancel()
        world.end_faults()
        for task in world.tasks:
            await world.restart(task)
        await trio.sleep(_SETTLING_SECONDS)
        await world.run_client(_OPERATOR, look)
        world.log.add(_OPERATOR, f"finds {[masks.tolist() for masks in found]}")
        for number, masks in enumerate(found):
            for worker, program in enumerate(programs):
                program.check(f"ps{number}", int(masks[worker]))

    options.setdefault("model", LINKS)
    options.setdefault("seconds_max", SECONDS_MAX)
    world = simulate(main, seed=seed, jobs=model.jobs, **options)
    return ScenarioOutcome(world.log, seconds[0])


__all__ = ["AsynchronousTraining", "play_asynchronous"]
