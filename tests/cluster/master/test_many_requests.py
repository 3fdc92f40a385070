"""Requests without end: master and client keep the newest, agree on which, and prepare the others again."""

from __future__ import annotations

import os

import numpy as np
import pytest

import flowengine as fe
from flowengine.cluster import messages as m
from flowengine.cluster.local import free_ports
from flowengine.transport.wire.identity import new_key


def _graph() -> fe.Graph:
    g = fe.Graph()
    x = g.placeholder("float32", [], name="x")
    for number in range(6):
        g.ops.Add(x, g.constant(np.float32(number)), name=f"y{number}")
    return g


async def test_plans_that_nobody_asks_for_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(m, "REQUESTS_MAX", 3)
    monkeypatch.setitem(os.environ, "FLOWENGINE_CLUSTER_KEY", new_key().hex())
    spec = fe.ClusterSpec.of({"worker": [f"127.0.0.1:{free_ports(1)[0]}"]})
    async with fe.Server(spec, "worker", 0) as server, fe.Session(_graph(), target=server.target) as session:
        for _ in range(3):
            for number in range(6):
                # The first is asked for all the time and prepared once.
                assert await session.run("y0:0", {"x:0": 1}) == 1
                assert await session.run(f"y{number}:0", {"x:0": 1}) == 1 + number
                assert server.master.statistics()["requests"] <= 3
        assert server.master.statistics()["sent_register_graph"] == 1 + 3 * 5
        # What goes at the master goes at its worker, with the next thing that is told.
        await server.master.notices.notify(server.name)
        assert len(server.worker.graphs) == 3


async def test_a_request_that_the_master_dropped_is_prepared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "FLOWENGINE_CLUSTER_KEY", new_key().hex())
    spec = fe.ClusterSpec.of({"worker": [f"127.0.0.1:{free_ports(1)[0]}"]})
    async with fe.Server(spec, "worker", 0) as server:
        monkeypatch.setattr(m, "REQUESTS_MAX", 2)
        session = fe.Session(_graph(), target=server.target)
        call = session.make_callable("y0:0", ["x:0"])
        # A client that keeps more than the master.
        assert await call(1) == 1
        monkeypatch.setattr(m, "REQUESTS_MAX", 512)
        for number in range(1, 6):
            assert await session.run(f"y{number}:0", {"x:0": 1}) == 1 + number
        (held,) = server.master._sessions.values()
        for _ in range(2):
            for old in [number for number in range(1, 40) if number in held.prepared]:
                assert held.prepared.pop(old) is not None
            for number in range(6):
                assert await session.run(f"y{number}:0", {"x:0": 2}) == 2 + number
            assert await call(3) == 3
        await session.close()
