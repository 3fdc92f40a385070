"""Data-parallel training over a PS task and two workers, on graphs that TensorFlow wrote with devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.cluster.local import LocalCluster, local_cluster

pytestmark = pytest.mark.slow

_STEPS = 12
_SHAPES = {"W": (784, 100), "b": (100,), "V": (100, 10), "c": (10,)}


def _graph(name: str, worker: int = 0) -> fe.Graph:
    path = Path(__file__).parent / "graphs" / f"{name}.pb"
    graph_def = fe.Graph.from_graph_def(path.read_bytes()).to_graph_def()
    for node in graph_def.node:
        node.device = node.device.replace("/job:worker/task:0", f"/job:worker/task:{worker}")
    return fe.Graph.from_graph_def(graph_def)


def _start() -> dict[str, Any]:
    """Return the feeds that set the parameters."""
    random = np.random.default_rng(5)
    return {
        f"{name}_given:0": (random.standard_normal(shape) * 0.05).astype(np.float32)
        for name, shape in _SHAPES.items()
    }


def _batch(worker: int, step: int) -> tuple[Any, Any]:
    """Ten noisy patterns: something that can be learned."""
    patterns = np.random.default_rng(1).standard_normal((10, 784)).astype(np.float32)
    random = np.random.default_rng([worker, step])
    labels = random.integers(0, 10, 20)
    return patterns[labels] + random.standard_normal((20, 784)).astype(np.float32) / 2, labels


async def _initialize(session: fe.Session) -> None:
    await session.run([], _start(), targets=[f"{name}_set" for name in _SHAPES])
    await session.run([], targets=["step_set"])


async def _train_together(session: fe.Session) -> tuple[list[Any], list[Any]]:
    await _initialize(session)
    losses = []
    for step in range(_STEPS):
        feeds = {}
        for worker in range(2):
            feeds[f"x{worker}:0"], feeds[f"labels{worker}:0"] = _batch(worker, step)
        losses.append(await session.run(["loss0:0", "loss1:0"], feeds, targets=["train"]))
    return losses, await session.run([f"{name}:0" for name in _SHAPES])


async def test_synchronous_training_is_the_sequential_run_bit_for_bit() -> None:
    graph = _graph("synchronous")
    async with fe.Session(graph, config=fe.Config(allow_soft_placement=True)) as alone:
        losses_alone, parameters_alone = await _train_together(alone)
    async with (
        local_cluster({"ps": 1, "worker": 2}, options=["--log-level", "error"]) as cluster,
        fe.Session(graph, target=cluster.target("worker", 0)) as session,
    ):
        losses, parameters = await _train_together(session)
        assert await session.run("step:0") == _STEPS
    assert losses == losses_alone
    for found, expected in zip(parameters, parameters_alone, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert np.mean(losses[-1]) < np.mean(losses[0]) / 2


async def test_asynchronous_workers_share_their_parameters() -> None:
    async with local_cluster({"ps": 1, "worker": 2}, options=["--log-level", "error"]) as cluster:
        losses: dict[int, list[float]] = {0: [], 1: []}
        async with fe.Session(_graph("asynchronous"), target=cluster.target("worker", 0)) as session:
            await _initialize(session)
            async with trio.open_nursery() as nursery:
                for worker in range(2):
                    nursery.start_soon(_work, cluster, worker, losses[worker])
            assert await session.run("step:0") == 2 * _STEPS
    for each in losses.values():
        assert each[-1] < each[0] / 2


async def _work(cluster: LocalCluster, worker: int, losses: list[float]) -> None:
    async with fe.Session(_graph("asynchronous", worker), target=cluster.target("worker", worker)) as session:
        for step in range(_STEPS):
            x, labels = _batch(worker, step)
            feeds = {"x0:0": x, "labels0:0": labels}
            losses.append(float(await session.run("loss0:0", feeds, targets=["train"])))
