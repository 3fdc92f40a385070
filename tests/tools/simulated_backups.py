"""Synchronous replicas with backup workers (OSDI'16, 4.4 and 6.3) in simulated time: the first m of n count.

Each replica has a session at its own master. For a step it fetches the parameters from all PS tasks, computes
(which here is to let simulated time pass), hands its gradient in to the accumulators there and takes a token
of the next step. The chief applies the average of the first m gradients and hands out n tokens. A replica
that finds its token out of date takes the next one: what it would compute would be thrown away.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import Final

import numpy as np
import trio

import flowengine as fe
from flowengine.testing.simulation.network import PLAIN_BYTES, LinkModel
from flowengine.testing.simulation.world import CONFIG, World, simulate
from tests.tools.simulated_null_steps import DATA_CENTRE

_SHARD_FLOATS: Final = (PLAIN_BYTES + 2048) // 4
_CHIEF: Final = "/job:worker/task:0"


@dataclass(frozen=True, slots=True)
class ComputeTime:
    """How long a replica takes for a gradient, drawn anew for each: a log-normal time, sometimes far longer.

    seconds            the median
    spread             of the logarithm
    straggler_share    how often it takes up to `straggler_factor` as long
    """

    seconds: float = 1.6
    spread: float = 0.06
    straggler_share: float = 0.04
    straggler_factor: float = 1.5

    def draw(self, chance: random.Random) -> float:
        seconds = self.seconds * chance.lognormvariate(0, self.spread)
        if chance.random() < self.straggler_share:
            seconds *= chance.uniform(1, self.straggler_factor)
        return seconds


@dataclass(frozen=True, slots=True)
class BackupReplicas:
    """A model and who trains it.

    required      gradients that make a step
    backups       replicas beyond these
    ps            tasks that share the parameters, with interfaces of 20 gigabits
    model_bytes   of the parameters, as the network sees them
    """

    required: int = 50
    backups: int = 0
    ps: int = 8
    model_bytes: float = 95e6
    compute: ComputeTime = field(default_factory=ComputeTime)

    @property
    def replicas(self) -> int:
        return self.required + self.backups

    @property
    def links(self) -> LinkModel:
        scale = (self.model_bytes / self.ps - PLAIN_BYTES) / (4 * _SHARD_FLOATS - PLAIN_BYTES)
        return replace(DATA_CENTRE, bytes_per_second=2e9, bytes_scale=scale)

    def graph(self, worker: int) -> fe.Graph:
        """One replica's graph: `init`, `chief`, `fetch`, `hand_in` and `next`, which give token and step."""
        g = fe.Graph()
        ops = g.ops
        shape = [_SHARD_FLOATS]
        local_step = g.placeholder("int64", [], name="local_step")
        with g.device("/job:ps/task:0"):
            step = ops.VariableV2(shape=[], dtype="int64", name="global_step")
            tokens = ops.FIFOQueueV2(
                component_types=["int64"], shapes=[[]], capacity=-1, shared_name="tokens"
            )
            inits = [ops.Assign(step, g.constant(np.int64(0)))]
        here, applied, handed_in = [], [], []
        with g.device(f"/job:worker/task:{worker}"):
            gradient = ops.Fill(g.constant(np.array(shape, np.int32)), g.constant(np.float32(1)))
        for number in range(self.ps):
            with g.device(f"/job:ps/task:{number}"):
                shard = ops.VariableV2(shape=shape, dtype="float32", name=f"shard{number}")
                inits.append(ops.Assign(shard, g.constant(np.zeros(shape, np.float32))))
                accumulator = ops.ConditionalAccumulator(
                    dtype="float32", shape=shape, shared_name=f"accumulator{number}"
                )
                average = ops.AccumulatorTakeGradient(
                    accumulator, g.constant(np.int32(self.required)), dtype="float32"
                )
                applied.append(ops.ApplyGradientDescent(shard, g.constant(np.float32(0.125)), average))
                handed_in.append(ops.AccumulatorApplyGradient(accumulator, local_step, gradient))
                read = ops.Identity(shard)
            with g.device(f"/job:worker/task:{worker}"):
                here.append(ops.Identity(read))
        with g.device(f"/job:worker/task:{worker}"), g.control_dependencies(here):
            ops.NoOp(name="fetch")
        with g.device("/job:ps/task:0"):
            with g.control_dependencies(inits):
                ops.NoOp(name="init")
            with g.control_dependencies(applied):
                advanced = ops.AssignAdd(step, g.constant(np.int64(1)))
            new = ops.Fill(g.constant(np.array([self.replicas], np.int32)), advanced)
            ops.QueueEnqueueManyV2(tokens, [new], name="chief")
            for name, after in (("hand_in", handed_in), ("next", [])):
                with g.control_dependencies(after):
                    token = ops.QueueDequeueV2(tokens, component_types=["int64"], name=name)
                with g.control_dependencies(token):
                    ops.Identity(step, name=f"{name}_step")
        return g


@dataclass(frozen=True, slots=True)
class BackupResult:
    """The result of a training: the seconds of each step, and how far the parameters went for each step."""

    seconds: list[float]
    moved: float

    @property
    def median(self) -> float:
        return median(self.seconds)


def train_replicas(model: BackupReplicas, *, steps: int = 20, seed: object = 0) -> BackupResult:
    """Train so many steps and two more before, which are not counted."""
    tasks = [f"/job:ps/task:{number}" for number in range(model.ps)]
    reach = {task: set(tasks) for task in tasks}
    reach |= {f"/job:worker/task:{number}": set(tasks) for number in range(model.replicas)}
    begun: list[float] = []
    moved: list[float] = []

    async def main(world: World) -> None:
        world.network.logs_pieces = False
        initialized = trio.Event()

        async def replica(worker: int) -> None:
            task, chance = f"/job:worker/task:{worker}", world.random("replica", worker)

            async def body() -> None:
                await initialized.wait()
                async with world.session(model.graph(worker), task) as session:
                    step = 0
                    while True:
                        await session.run([], targets=["fetch"])
                        await trio.sleep(model.compute.draw(chance))
                        feeds = {"local_step:0": np.int64(step)}
                        token, now = await session.run(["hand_in:0", "hand_in_step:0"], feeds)
                        while token < now:
                            token, now = await session.run(["next:0", "next_step:0"])
                        step = int(token)

            await world.on(task, body)

        async def chief() -> None:
            async with world.session(model.graph(0), _CHIEF) as session:
                await session.run([], targets=["init"])
                initialized.set()
                for _ in range(steps + 2):
                    await session.run([], targets=["chief"])
                    begun.append(trio.current_time())
                moved.append(float((await session.run("shard0:0"))[0]) / len(begun))

        async with trio.open_nursery() as nursery:
            for worker in range(model.replicas):
                nursery.start_soon(replica, worker)
            await world.on(_CHIEF, chief)
            nursery.cancel_scope.cancel()

    simulate(
        main,
        seed=seed,
        jobs={"ps": model.ps, "worker": model.replicas},
        model=model.links,
        reach=reach,
        config=replace(CONFIG, silence_seconds=1000.0),
        seconds_max=1e6,
    )
    return BackupResult([after - before for before, after in pairwise(begun[1:])], moved[0])


def normalised_speedups(seconds: dict[int, float], required: int) -> dict[int, float]:
    """{backups: how much faster a step is than without any, for the same work of all replicas}."""
    return {b: seconds[0] / each * required / (required + b) for b, each in seconds.items()}


__all__ = ["BackupReplicas", "BackupResult", "ComputeTime", "normalised_speedups", "train_replicas"]
