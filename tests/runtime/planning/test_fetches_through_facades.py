"""Structures of fetches keep their plan through what stands in front of a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import flowengine as fe
from flowengine.cluster.remote import RemoteSession
from flowengine.cluster.target import Target
from flowengine.sandbox.requests import AskedNames
from flowengine.sandbox.session import BoxSession
from tests.runtime.planning.fetching import noted, same, squares


def test_the_blocking_session_keeps_the_plan(plannings: list[Any]) -> None:
    graph, x, y = squares()
    with fe.blocking.Session(graph) as session:
        assert [session.run({"k": y}, {x: 3.0}) for _ in range(3)] == [{"k": 9}] * 3
    assert len(plannings) == 1


@pytest.mark.parametrize("kind", ["asyncio", "anyio"])
def test_sessions_of_other_loops_keep_the_plan(plannings: list[Any], kind: str) -> None:
    import asyncio

    graph, x, y = squares()

    async def main() -> list[Any]:
        async with getattr(fe, kind).Session(graph) as session:
            return [await session.run({"k": y}, {x: 3.0}) for _ in range(3)]

    assert asyncio.run(main()) == [{"k": 9}] * 3
    assert len(plannings) == 1


async def test_a_training_loop_keeps_the_plan(plannings: list[Any]) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [], name="x")
    v = graph.variable(1.0, name="v")
    loss = fe.square(v - x)
    step = fe.optimizers.SGD(0.1).minimize(loss)
    async with fe.Session(graph) as session:
        await session.initialize()
        plannings.clear()
        await fe.train.loop(session, step, steps=4, feeds=lambda number: {x: 0.0}, fetches={"loss": loss})
        assert len(plannings) == 1


async def test_calls_of_signatures_keep_the_plan(plannings: list[Any], tmp_path: Path) -> None:
    graph, _, _ = squares()
    async with fe.Session(graph) as session:
        signatures = {"serving_default": ({"x": "x"}, {"y": "y:0", "x": "x:0"})}
        await fe.saved_model.save(session, tmp_path / "m", signatures=signatures)
    async with await fe.saved_model.load(tmp_path / "m") as model:
        plannings.clear()
        for _ in range(3):
            assert await model(x=3.0) == {"y": 9, "x": 3}
            assert await model.signature.call({"x": 2.0}) == {"y": 4, "x": 2}
        assert len(plannings) == 1


async def test_a_session_at_a_target_reads_a_structure_once(
    monkeypatch: pytest.MonkeyPatch, readings: list[Any]
) -> None:
    graph, x, y = squares()

    async def step(self: RemoteSession, asked: Any, *rest: Any) -> list[Any]:
        return [9]

    monkeypatch.setattr(RemoteSession, "_step", step)
    session = RemoteSession(Target("tcp://h:1"), graph, fe.Config())
    for fetches, expected in (({"k": y}, {"k": 9}), ([y], [9]), (y, 9), (noted({"k": y}), noted({"k": 9}))):
        assert same(await session.run(fetches, {x: 3.0}), expected)
    assert readings == [(y,)]
    call = session.make_callable({"k": "y"}, [x])
    assert await call(3.0) == {"k": 9}


async def test_a_sandboxed_session_reads_a_structure_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []

    class Counted(AskedNames):
        def __init__(self, graph: Any, leaves: Any, *rest: Any, **options: Any) -> None:
            read.append(leaves)
            super().__init__(graph, leaves, *rest, **options)

    async def step(self: BoxSession, asked: AskedNames, *rest: Any) -> list[Any]:
        return [None if each < 0 else 9 for each in asked.slots]

    monkeypatch.setattr("flowengine.sandbox.session.AskedNames", Counted)
    monkeypatch.setattr(BoxSession, "_step", step)
    graph, x, y = squares()
    session = BoxSession(
        "sandbox://", graph, fe.Config.sandbox(memory_bytes=10**8, seconds=1.0, trusted_graph=True)
    )
    for fetches, expected in (({"k": y, "l": None}, {"k": 9, "l": None}), ([y, None], [9, None])):
        for _ in range(2):
            assert same(await session.run(fetches, {x: 3.0}), expected)
    assert read == [(y, None)]
