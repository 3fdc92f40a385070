"""Tensors larger than the system's queues: sent from where they lie while what they are of is written on."""

from __future__ import annotations

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.cluster.local import free_ports
from flowengine.resources.variable import Variable
from flowengine.transport.wire.identity import new_key

PS = "/job:ps/task:0"
WORKER = "/job:worker/task:0"
FLOATS = 4_000_000


def read_and_written() -> fe.Graph:
    """`sum` and `first` of what the worker gets of a variable that PS adds 1 to as soon as it is read."""
    g = fe.Graph()
    with g.device(PS):
        table = g.ops.VariableV2(shape=[FLOATS], dtype="float32", name="table")
        zeros = g.ops.Fill(g.constant(np.array([FLOATS], np.int32)), g.constant(np.float32(0)))
        g.ops.Assign(table, zeros, name="init")
        ones = g.ops.Fill(g.constant(np.array([FLOATS], np.int32)), g.constant(np.float32(1)))
        g.ops.AssignAdd(table, ones, name="write")
        read = g.ops.Identity(table)
        with g.control_dependencies([read]):
            g.ops.AssignAdd(table, ones, name="written_behind")
    with g.device(WORKER):
        g.ops.Identity(read, name="got")
    return g


@pytest.mark.parametrize("behind", ["in the step", "after the step", "beside the step"])
async def test_what_is_sent_is_what_was_read(behind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWENGINE_CLUSTER_KEY", new_key().hex())
    ps, worker = (f"127.0.0.1:{port}" for port in free_ports(2))
    spec = fe.ClusterSpec.of({"ps": [ps], "worker": [worker]})
    graph = read_and_written()
    async with (
        fe.Server(spec, "ps", 0) as first,
        fe.Server(spec, "worker", 0) as second,
        fe.Session(graph, target=second.target) as session,
        fe.Session(graph, target=first.target) as other,
    ):
        await session.run([], targets=["init"])
        kept = []
        for step in range(6):
            if behind == "in the step":
                got = await session.run("got:0", targets=["written_behind"])
            elif behind == "after the step":
                got = await session.run("got:0")
                await other.run([], targets=["write"])
            else:
                async with trio.open_nursery() as nursery:
                    for _ in range(3):
                        nursery.start_soon(_write, other)
                    got = await session.run("got:0")
            assert got.min() == got.max()
            if behind != "beside the step":
                assert got[0] == step
            kept.append((got, float(got[0])))
        for got, value in kept:
            assert got.min() == got.max() == value
        if behind == "in the step":
            variable = first.worker.resources.lookup("", "table", Variable)
            assert variable.copies


async def _write(session: fe.Session) -> None:
    await session.run([], targets=["write"])
