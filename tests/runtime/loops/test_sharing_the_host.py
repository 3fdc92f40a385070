"""Compiled loops share the host: turns, pauses, cancellation between rounds, threads for what is heavy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.resources.variable import Variable
from flowengine.runtime import blocks, ready_loop, resumable_blocks, turns
from flowengine.runtime.planning import tiers
from flowengine.runtime.planning.tiers import TieredPlan
from flowengine.testing.control import while_loop
from tests.runtime.loops.written import counting, loops_written


@pytest.mark.parametrize("turns", [0, 1, 6])
async def test_a_cancelled_loop_has_had_its_effects_in_order(turns: int) -> None:
    g = fe.Graph()
    counting(g)
    assert loops_written(g, ["while/Exit:0"], ["n:0"]) == 1
    async with fe.Session(g) as session:
        await session.run([], targets=["init"])
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.run, "while/Exit:0", {"n:0": np.int32(2**30)})
                counted = session.resources.lookup("localhost", "first", Variable)
                while not counted.read():
                    await trio.lowlevel.checkpoint()
                for _ in range(turns):
                    await trio.lowlevel.checkpoint()
                scope.cancel()
        a, b = await session.run(["a:0", "b:0"])
        assert a == b > 0, "a compiled loop is left between two iterations"
        assert await session.run("while/Exit:0", {"n:0": np.int32(3)}) == 3
        assert await session.run(["a:0", "b:0"]) == [a + 3, b + 3]


async def test_a_paused_loop_waits_while_a_thread_writes_its_variable() -> None:
    g = fe.Graph()
    counting(g)
    ended = trio.Event()
    async with fe.Session(g) as session:
        await session.run([], targets=["init"])

        async def count() -> None:
            await session.run("while/Exit:0", {"n:0": np.int32(40_000)})
            ended.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(count)
            await trio.lowlevel.checkpoint()
            assert not ended.is_set()
            variable = session.resources.lookup("localhost", "second", Variable)
            assert variable.acquire(object())
            await trio.testing.wait_all_tasks_blocked()
            before = int(variable.read())
            await trio.testing.wait_all_tasks_blocked()
            assert not ended.is_set()
            assert int(variable.read()) == before
            variable.release()
        assert await session.run(["a:0", "b:0"]) == [40_000, 40_000]


class Clock:
    """Tells a millisecond more at each look: so many looks, so many milliseconds."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return self.looks * 0.001


async def turns_of_host(run: Callable[[], Any]) -> int:
    turns = 0

    async def host() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(host)
        await run()
        nursery.cancel_scope.cancel()
    return turns


@pytest.mark.parametrize("form", ["nested", "long body"])
async def test_nested_loops_and_long_bodies_yield(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock by which every look is late, each look gives the host a turn."""
    g = fe.Graph()
    if form == "nested":

        def inner(i: Any, n: Any) -> list[Any]:
            (j,) = while_loop(
                g,
                lambda j, n: g.ops.Less(j, n),
                lambda j, n: [g.ops.Add(j, 1)],
                [g.constant(0)],
                invariants=[n],
                name="inner",
            )
            return [g.ops.Add(i, g.ops.Sign(j))]

        n = g.placeholder("int32", [], name="n")
        while_loop(g, lambda i, n: g.ops.Less(i, n), inner, [g.constant(0)], invariants=[n])
        least = 10 * 10
    else:
        counting(g, long_body=500)
        least = 10 * 500 // 64
    clock = Clock()
    for module in (ready_loop, blocks, resumable_blocks, turns):
        monkeypatch.setattr(module, "perf_counter", clock)
    async with fe.Session(g) as session:
        await session.run([], targets=["init"] if form == "long body" else [])
        assert loops_written(g, ["while/Exit:0"], ["n:0"]) == (2 if form == "nested" else 1)
        _, before, given = [
            await turns_of_host(partial(session.run, "while/Exit:0", {"n:0": np.int32(n)}))
            for n in (0, 0, 10)
        ]
    # The first run plans; what a step gives that goes no round is no turn of the loop.
    assert given - before >= least


async def test_a_loop_that_grows_heavy_goes_back_to_worker_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The feeds stay as small as they were: only the loop itself shows that it has become slow."""
    monkeypatch.setattr(tiers, "HOT_RUNS", 2)
    g = fe.Graph()
    ops = g.ops
    size = g.placeholder("int32", [], name="size")

    def body(i: Any, total: Any, size: Any) -> list[Any]:
        matrix = ops.Fill(ops.Pack([size, size]), 0.5)
        return [ops.Add(i, 1), ops.Add(total, ops.Sum(ops.MatMul(matrix, matrix), [0, 1]))]

    while_loop(
        g,
        lambda i, total, size: ops.Less(i, 20),
        body,
        [g.constant(0), g.constant(0.0)],
        invariants=[size],
    )
    async with fe.Session(g) as session:
        for _ in range(4):
            await session.run("while/Exit_1:0", {"size:0": np.int32(2)})
        plan = next(iter(session._plans.values())).plan
        assert isinstance(plan, TieredPlan)
        assert "while True:" in "".join(plan.sources())
        monkeypatch.setattr(resumable_blocks, "_SLOW_ITERATION_SECONDS", 0.001)
        heavy = False
        for _ in range(12):
            await session.run("while/Exit_1:0", {"size:0": np.int32(700)})
            heavy = heavy or any(item.times.was_heavy for item in plan.interpreted.items)
            if "while True:" not in "".join(plan.sources()):
                break
        else:
            pytest.fail("the loop stayed a region")
        assert heavy
