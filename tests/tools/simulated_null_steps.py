"""Null steps over PS tasks and workers (OSDI'16, 6.2) in simulated time: what coordination alone costs.

In a step each worker fetches what every PS task holds, does next to nothing with it, and adds a number to a
counter on each. Steps are synchronous: all begin together, and one is over when its last worker is.

Masters, workers, messages and bytes are the engine's; what a message costs a processor and what a network
carries are the model's. A dense shard travels as a small tensor whose bytes count as many.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import Any, Final

import numpy as np
import trio

import flowengine as fe
from flowengine.testing.simulation.network import PLAIN_BYTES, LinkModel
from flowengine.testing.simulation.world import CONFIG, World, simulate

#: A data centre: 10-gigabit interfaces, and 45 us of Python for a message on either side, as measured.
DATA_CENTRE: Final = LinkModel(
    latency_seconds=50e-6, jitter_seconds=20e-6, bytes_per_second=1e9, piece_seconds=45e-6
)
#: Real bytes of a shard beyond what counts as it is.
_SHARD_BYTES: Final = 2048


def _graph(ps: int, worker: int, shard_floats: int) -> fe.Graph:
    """`init` and `step` of one worker."""
    g = fe.Graph()
    shape = [shard_floats] if shard_floats else []
    inits, reads, updates = [], [], []
    for number in range(ps):
        with g.device(f"/job:ps/task:{number}"):
            shard = g.ops.VariableV2(shape=shape, dtype="float32", name=f"shard{number}")
            inits.append(g.ops.Assign(shard, g.constant(np.zeros(shape, np.float32))))
            counter = g.ops.VariableV2(shape=[], dtype="float32", name=f"counter{number}")
            inits.append(g.ops.Assign(counter, g.constant(np.float32(0))))
            read = g.ops.Identity(shard)
        with g.device(f"/job:worker/task:{worker}"):
            reads.append(g.ops.Identity(read))
            with g.control_dependencies([reads[-1]]):
                update = g.constant(np.float32(1))
        with g.device(f"/job:ps/task:{number}"):
            updates.append(g.ops.AssignAdd(counter, update))
    with g.device(f"/job:worker/task:{worker}"):
        with g.control_dependencies([*reads, *updates]):
            g.ops.NoOp(name="step")
        with g.control_dependencies(inits):
            g.ops.NoOp(name="init")
    return g


def null_step_seconds(
    workers: int, *, ps: int = 16, model_bytes: float = 0, rounds: int = 5, seed: object = 0
) -> float:
    """The median simulated step.

    model_bytes   what the PS tasks hold in all, split evenly; 0 for a number on each
    """
    links = DATA_CENTRE
    floats = 0
    if model_bytes:
        floats = (PLAIN_BYTES + _SHARD_BYTES) // 4
        # Beyond the plain bytes there are those of the shard and a few of its header.
        links = replace(links, bytes_scale=(model_bytes / ps - PLAIN_BYTES) / _SHARD_BYTES)
    tasks = [f"/job:ps/task:{number}" for number in range(ps)]
    # As with device filters: a worker knows the PS tasks and itself, and a PS task whoever comes to it.
    reach = {task: set(tasks) for task in tasks}
    reach |= {f"/job:worker/task:{number}": set(tasks) for number in range(workers)}
    seconds: list[float] = []

    async def main(world: World) -> None:
        world.network.logs_pieces = False
        sessions: list[Any] = []

        async def work(worker: int) -> None:
            task = f"/job:worker/task:{worker}"

            async def body() -> None:
                if len(sessions) <= worker:
                    sessions.append(world.session(_graph(ps, worker, floats), task))
                    if not worker:
                        await sessions[worker].run([], targets=["init"])
                await sessions[worker].run([], targets=["step"])

            await world.on(task, body)

        for worker in range(workers):
            await work(worker)
        for _ in range(rounds + 1):
            begun = trio.current_time()
            async with trio.open_nursery() as nursery:
                for worker in range(workers):
                    nursery.start_soon(work, worker)
            seconds.append(trio.current_time() - begun)
        for session in sessions:
            await session.close()

    simulate(
        main,
        seed=seed,
        jobs={"ps": ps, "worker": workers},
        model=links,
        reach=reach,
        config=replace(CONFIG, silence_seconds=10_000.0),
        seconds_max=1e6,
    )
    # The first round wakes connections that have stood still.
    return median(seconds[1:])


__all__ = ["DATA_CENTRE", "null_step_seconds"]
