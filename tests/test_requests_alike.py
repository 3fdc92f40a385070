"""Requests that differ in a single part have different plans, in sessions here, at a master and in a box."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import flowengine as fe
from flowengine.sandbox import confine
from tests.cluster.test_sessions import cluster

Open = Callable[[fe.Graph, Path], AbstractAsyncContextManager[fe.Session]]


@asynccontextmanager
async def here(graph: fe.Graph, folder: Path) -> AsyncIterator[fe.Session]:
    async with fe.Session(graph) as session:
        yield session


@asynccontextmanager
async def at_a_master(graph: fe.Graph, folder: Path) -> AsyncIterator[fe.Session]:
    async with cluster(folder, ps=1, worker=1) as (servers, query):
        target = servers["/job:worker/task:0"].target + query
        async with fe.Session(graph, target=target) as session:
            yield session


@asynccontextmanager
async def in_a_box(graph: fe.Graph, folder: Path) -> AsyncIterator[fe.Session]:
    content = fe.GraphBytes(graph.to_graph_def().SerializeToString())
    config = fe.Config.sandbox(memory_bytes=200_000_000, seconds=20.0, spare=False)
    async with fe.Session(content, config=config) as session:
        yield session


@pytest.mark.parametrize(
    "opened",
    [
        here,
        at_a_master,
        pytest.param(
            in_a_box, marks=pytest.mark.skipif(bool(confine.missing()), reason=f"no box: {confine.missing()}")
        ),
    ],
)
async def test_requests_that_differ_in_one_part(opened: Open, tmp_path: Path) -> None:
    graph = fe.Graph()
    x, y = (graph.placeholder("float32", [], name=name) for name in "xy")
    graph.ops.Sub(x, y, name="difference")
    graph.ops.Add(x, y, name="sum")
    for name in "ab":
        counter = graph.variable(0, name=name, dtype=fe.dtypes.int32)
        counter.assign_add_op(1, name=f"more_{name}")
        graph.group(counter.initializer, name=f"init_{name}")
    async with opened(graph, tmp_path) as session:

        async def run(fetches: Any, feeds: Any = None, targets: Any = ()) -> Any:
            return await session.run(fetches, feeds, targets=targets)

        await run([], targets=["init_a", "init_b"])
        for _ in range(2):
            await run([], targets=["more_a"])
            await run([], targets=["more_b"])
            await run([], targets=["more_b"])
            assert await run("difference:0", {"x:0": 5.0, "y:0": 2.0}) == 3.0
            assert await run("difference:0", {"y:0": 5.0, "x:0": 2.0}) == -3.0
            assert await run("sum:0", {"y:0": 5.0, "x:0": 2.0}) == 7.0
            assert await run(["sum:0", "difference:0"], {"x:0": 1.0, "y:0": 2.0}) == [3.0, -1.0]
            assert await run(["difference:0", "sum:0"], {"x:0": 1.0, "y:0": 2.0}) == [-1.0, 3.0]
        assert await run(["a:0", "b:0"]) == [2, 4]
