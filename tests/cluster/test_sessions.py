"""Sessions at a master: three tasks of a cluster in one trio program, over real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.transport.identity import new_key


@asynccontextmanager
async def cluster(tmp_path: Path, **jobs: int) -> AsyncIterator[tuple[dict[str, fe.Server], str]]:
    """({task: server}, what a target needs beside its address) of a cluster with so many tasks a job."""
    key = new_key()
    key_file = tmp_path / "cluster.key"
    key_file.write_text(key.hex())
    ports = await _free_ports(sum(jobs.values()))
    addresses = {job: [f"127.0.0.1:{ports.pop()}" for _ in range(count)] for job, count in jobs.items()}
    spec = fe.ClusterSpec.of(addresses, name="test", key_file=str(key_file))
    async with AsyncExitStack() as stack:
        servers = {}
        for job, count in jobs.items():
            for task in range(count):
                server = await stack.enter_async_context(fe.Server(spec, job, task))
                servers[server.name] = server
        yield servers, f"?cluster=test&key_file={key_file}"


async def _free_ports(count: int) -> list[int]:
    listeners = [(await trio.open_tcp_listeners(0, host="127.0.0.1"))[0] for _ in range(count)]
    ports = [listener.socket.getsockname()[1] for listener in listeners]
    for listener in listeners:
        await listener.aclose()
    return ports


async def test_a_step_over_three_tasks(tmp_path: Path) -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [None], name="x")
    with g.device("/job:ps/task:0"):
        w = g.ops.VariableV2(shape=[], dtype="float32", name="w")
        g.ops.Assign(w, g.constant(np.float32(3)), name="init")
    with g.device("/job:worker/task:0"):
        a = g.ops.Mul(x, w, name="a")
    with g.device("/job:worker/task:1"):
        g.ops.Sum(a, g.constant(np.array([0], np.int32)), name="y")
    async with cluster(tmp_path, ps=1, worker=2) as (servers, query):
        target = servers["/job:worker/task:0"].target + query
        async with fe.Session(g, target=target) as session:
            await session.run([], targets=["init"])
            for _ in range(3):
                y, a_value = await session.run(["y:0", "a:0"], {"x:0": np.array([1, 2], np.float32)})
                assert y == 9
                assert a_value.tolist() == [3, 6]
        master = servers["/job:worker/task:0"].master
        assert master.messages["run_graph"] == 1 + 3 * 3
