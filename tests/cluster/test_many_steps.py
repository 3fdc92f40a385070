"""Many steps leave nothing behind: memory and descriptors of every process stay what they were."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.cluster.local import LocalCluster, local_cluster
from tests.effort import IS_NIGHTLY

pytestmark = pytest.mark.slow

_STEPS = 24_000 if IS_NIGHTLY else 1_500
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MIB = 1 << 20


def _graph() -> fe.Graph:
    g = fe.Graph()
    x = g.placeholder("float32", [None], name="x")
    with g.device("/job:ps/task:0"):
        v = g.ops.VariableV2(shape=[], dtype="float32", name="v")
        g.ops.Assign(v, g.constant(np.float32(0)), name="init")
    with g.device("/job:worker/task:0"):
        scaled = g.ops.Mul(x, v)
    with g.device("/job:worker/task:1"):
        total = g.ops.Sum(scaled, g.constant(np.array([0], np.int32)), name="y")
    with g.device("/job:ps/task:0"), g.control_dependencies([total]):
        g.ops.AssignAdd(v, g.constant(np.float32(1)), name="step")
    return g


def _sizes(cluster: LocalCluster) -> dict[str, tuple[int, int]]:
    """{task: (bytes in memory, descriptors)}."""
    found = {}
    for task, process in cluster.processes.items():
        folder = Path("/proc") / str(process.pid)
        resident = int((folder / "statm").read_text().split()[1]) * _PAGE
        found[task] = (resident, len(os.listdir(folder / "fd")))
    return found


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc to look into processes")
async def test_memory_and_descriptors_stay() -> None:
    feed = {"x:0": np.ones(1000, np.float32)}
    async with local_cluster({"ps": 1, "worker": 2}, options=["--log-level", "error"]) as cluster:
        async with fe.Session(_graph(), target=cluster.target("worker", 0)) as session:
            await session.run([], targets=["init"])
            for _ in range(_STEPS // 3):
                await session.run("y:0", feed, targets=["step"])
            before = _sizes(cluster)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_another_client, cluster)
                for _ in range(_STEPS // 3, _STEPS):
                    await session.run("y:0", feed, targets=["step"])
            assert await session.run("v:0") == _STEPS
        after = _sizes(cluster)
    for task, (size, descriptors) in before.items():
        # A session of another client may make an arena grow once.
        assert after[task][0] < size + 6 * _MIB, task
        assert after[task][1] <= descriptors + 2, task


async def _another_client(cluster: LocalCluster) -> None:
    """Reads what the first one writes."""
    async with fe.Session(_graph(), target=cluster.target("worker", 1)) as session:
        last = -1.0
        for _ in range(_STEPS // 10):
            value = float(await session.run("v:0"))
            assert value >= last
            last = value
