"""Targets of sessions, as text; and what a session with one reads of its graph."""

from __future__ import annotations

from typing import Any

import pytest

import flowengine as fe
from flowengine.cluster.remote import RemoteSession
from flowengine.cluster.target import Target
from flowengine.core.errors import InvalidArgumentError
from flowengine.runtime.planning.requests import Requests


def test_all_that_a_target_says() -> None:
    target = Target.parse("flow+tls://h:1/?cluster=c&key_file=k&client=me&tls=t&certificate=mine")
    assert target == Target("tls://h:1", "c", "k", "me", "t", "mine")
    assert Target.parse("flow://h:1") == Target("tcp://h:1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("flow://", "'flow://' has no address: write flow://host:port"),
        ("flow://?cluster=c", "has no address"),
        ("flow", "has no address"),
        ("flow://h:1?clusters=c", "clusters is not understood; there are certificate, client, cluster"),
        ("flow://h:1?tls=t", r"is a target without TLS: write flow\+tls://h:1\?tls=t"),
    ],
)
def test_what_is_no_target_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Target.parse(text)


async def test_a_request_is_read_once_as_long_as_the_graph_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [], name="x")
    session = RemoteSession(Target("tcp://h:1"), graph, fe.Config())
    read: list[Any] = []
    reading = Requests.read

    def counted(self: Requests, fetches: Any, feeds: Any, targets: Any) -> Any:
        read.append(fetches)
        return reading(self, fetches, feeds, targets)

    async def step(self: RemoteSession, asked: Any, *rest: Any) -> Any:
        return asked.names

    monkeypatch.setattr(Requests, "read", counted)
    monkeypatch.setattr(RemoteSession, "_step", step)
    for _ in range(3):
        assert await session.run(("x:0",) * 3, {"x:0": 1}) == (("x:0",), ("x:0",), ())
    assert read == [("x:0",) * 3]
    graph.ops.Neg(x, name="y")
    for _ in range(3):
        assert await session.run(("x:0",) * 3, {"x:0": 1}) == (("x:0",), ("x:0",), ())
        assert await session.run(("y:0",) * 3, {"x:0": 1}) == (("x:0",), ("y:0",), ())
    assert read == [("x:0",) * 3, ("x:0",) * 3, ("y:0",) * 3]
