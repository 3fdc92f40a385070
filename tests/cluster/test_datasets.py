"""Input pipelines on a task: its iterators work ahead there, and end their tasks with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.cluster.local import free_ports
from flowengine.core.errors import FailedPreconditionError, OutOfRangeError
from flowengine.transport.wire.identity import new_key

WORKER = "/job:worker/task:1"
KINDS: dict[str, Any] = {"output_types": ["int64"], "output_shapes": [[]]}


@asynccontextmanager
async def cluster(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[fe.Server, fe.Server]]:
    """A task that clients ask, and the one that holds the pipeline."""
    monkeypatch.setenv("FLOWENGINE_CLUSTER_KEY", new_key().hex())
    first, second = (f"127.0.0.1:{port}" for port in free_ports(2))
    spec = fe.ClusterSpec.of({"worker": [first, second]})
    async with fe.Server(spec, "worker", 0) as master, fe.Server(spec, "worker", 1) as holder:
        yield master, holder


def pipeline() -> tuple[fe.Graph, Any, Any]:
    """Numbers that are prefetched on a task: (graph, what begins it, twice the next number, elsewhere)."""
    graph = fe.Graph()
    ops = graph.ops
    with graph.device(WORKER):
        numbers = ops.RangeDataset(*(np.int64(each) for each in (0, 20, 1)), **KINDS)
        ahead = ops.PrefetchDataset(numbers, np.int64(3), **KINDS)
        iterator = ops.IteratorV2(shared_name="numbers", container="", **KINDS)
        begin = ops.MakeIterator(ahead, iterator)
        (following,) = ops.IteratorGetNext(iterator, **KINDS)
    with graph.device("/job:worker/task:0"):
        doubled = ops.Mul(following, np.int64(2))
    return graph, begin, doubled


async def test_a_pipeline_on_another_task(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, begin, doubled = pipeline()
    async with cluster(monkeypatch) as (master, holder):
        services = holder.worker.resources.services
        async with fe.Session(graph, target=master.target) as session:
            with pytest.raises(FailedPreconditionError, match="has not been initialized"):
                await session.run(doubled)
            await session.run([], targets=[begin])
            assert services.count == 0  # nobody has asked for an element
            assert [int(await session.run(doubled)) for _ in range(3)] == [0, 2, 4]
            assert services.count == 2
            assert master.worker.resources.services.count == 0
        # The iterator is the task's, as its variables are: another client goes on with it.
        async with fe.Session(graph, target=master.target) as session:
            assert [int(await session.run(doubled)) for _ in range(17)] == list(range(6, 40, 2))
            with pytest.raises(OutOfRangeError, match="End of sequence"):
                await session.run(doubled)
            await session.run([], targets=[begin])
            assert services.count == 0  # those of the run before have ended
            assert int(await session.run(doubled)) == 0
            await session.reset([""])
            assert services.count == 0
    assert services.count == 0


async def test_tasks_end_with_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, begin, doubled = pipeline()
    async with cluster(monkeypatch) as (master, holder):
        async with fe.Session(graph, target=master.target) as session:
            await session.run([], targets=[begin])
            await session.run(doubled)
        services = holder.worker.resources.services
        assert services.count == 2
    assert services.count == 0
