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
from flowengine.resources.data.one_shot import OneShot
from flowengine.transport.wire.identity import new_key
from tests.resources.data.test_iterators import RECORDED
from tests.resources.data.test_recorded_pipelines import graph_of

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


async def test_a_task_that_was_reset_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its containers are emptied; what they are given next works as before."""
    graph, begin, doubled = pipeline()
    async with cluster(monkeypatch) as (master, holder):
        services = holder.worker.resources.services
        async with fe.Session(graph, target=master.target) as session:
            for _ in range(2):
                await session.run([], targets=[begin])
                assert [int(await session.run(doubled)) for _ in range(3)] == [0, 2, 4]
                await session.reset([])
                assert services.count == 0
                with pytest.raises(FailedPreconditionError, match="has not been initialized"):
                    await session.run(doubled)


async def test_tasks_end_with_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, begin, doubled = pipeline()
    async with cluster(monkeypatch) as (master, holder):
        async with fe.Session(graph, target=master.target) as session:
            await session.run([], targets=[begin])
            await session.run(doubled)
        services = holder.worker.resources.services
        assert services.count == 2
    assert services.count == 0


def one_shot() -> fe.Graph:
    """A graph of TensorFlow's with a one-shot iterator over 5, 6, 7 ..., on a task."""
    graph_def = graph_of(next(case for case in RECORDED if case["name"] == "one_shot")).to_graph_def()
    for node in graph_def.node:
        node.device = WORKER
    return fe.Graph.from_graph_def(graph_def)


async def test_what_a_function_makes_belongs_to_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = one_shot()
    async with cluster(monkeypatch) as (master, holder):
        resources = holder.worker.resources
        async with fe.Session(graph, target=master.target) as first:
            assert int(await first.run("IteratorGetNext:0")) == 5
            async with fe.Session(graph, target=master.target) as second:
                assert int(await second.run("IteratorGetNext:0")) == 5
                assert int(await second.run("add:0")) == 7  # another request, the same iterator
                assert len(resources.held(OneShot)) == 2
            await master.master.notices.notify(WORKER)  # as it is within a second
            assert len(resources.held(OneShot)) == 1
            assert int(await first.run("IteratorGetNext:0")) == 6
        await master.master.notices.notify(WORKER)
        assert not resources.held(OneShot)
        await resources.ended()
        assert resources.services.count == 0


async def test_it_goes_with_the_master_that_asked_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = one_shot()
    async with (
        cluster(monkeypatch) as (master, holder),
        fe.Session(graph, target=master.target) as session,
    ):
        await session.run("IteratorGetNext:0")
        assert len(holder.worker.resources.held(OneShot)) == 1
        holder.worker.forget(master.worker.task, master.worker.incarnation)
        assert not holder.worker.resources.held(OneShot)
