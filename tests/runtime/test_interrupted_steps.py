"""Steps that are not compiled: cancelled between kernels, slow, failing, or held up by a variable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.resources.variable import Variable
from flowengine.runtime import turn_queue

PLAIN = fe.Config(compile_hot_plans=False)


def ladder(rungs: int) -> fe.Graph:
    g = fe.Graph()
    value = g.placeholder("float32", [], name="x")
    for number in range(rungs):
        value = g.ops.Add(g.ops.Neg(value), g.constant(np.float32(1)), name=f"rung{number}")
    return g


async def test_a_long_step_gives_the_host_its_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_queue, "SLICE_SECONDS", 0.0)
    rounds = 0
    async with fe.Session(ladder(100), config=PLAIN) as session, trio.open_nursery() as nursery:

        async def count() -> None:
            nonlocal rounds
            while True:
                await trio.lowlevel.checkpoint()
                rounds += 1

        nursery.start_soon(count)
        assert await session.run("rung99:0", {"x:0": 3.0}) == 3.0
        nursery.cancel_scope.cancel()
    assert rounds >= 5


async def test_a_cancelled_step_has_had_the_effects_of_the_kernels_that_ran(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turn_queue, "SLICE_SECONDS", 0.0)
    g = fe.Graph()
    v = g.ops.VariableV2(shape=[], dtype="float32", name="v")
    g.ops.Assign(v, g.constant(np.float32(0)), name="init")
    last: Any = None
    for _ in range(200):
        with g.control_dependencies([] if last is None else [last]):
            last = g.ops.AssignAdd(v, g.constant(np.float32(1)))
    g.group(last.op, name="count")
    seen = set()
    async with fe.Session(g, config=PLAIN) as session:
        await session.run([], targets=["init"])
        await session.run([], targets=["count"])
        assert await session.run("v:0") == 200
        for checkpoints in range(12):
            await session.run([], targets=["init"])
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(lambda: session.run([], targets=["count"]))
                    for _ in range(checkpoints):
                        await trio.lowlevel.checkpoint()
                    scope.cancel()
            seen.add(int(await session.run("v:0")))
        assert len(seen) > 3
        # Nothing of a cancelled step is left in the tables that the plan hands to its next step.
        await session.run([], targets=["init"])
        await session.run([], targets=["count"])
        assert await session.run("v:0") == 200
        assert not session._runner.running


async def test_a_step_waits_for_a_variable_that_a_thread_writes() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [], name="x")
    v = g.ops.VariableV2(shape=[], dtype="float32", name="v")
    g.ops.Assign(v, g.constant(np.float32(5)), name="init")
    g.ops.Add(g.ops.Mul(x, x), g.ops.Identity(v), name="y")
    async with fe.Session(g, config=PLAIN) as session:
        await session.run([], targets=["init"])
        for _ in range(2):
            assert await session.run("y:0", {"x:0": 2.0}) == 9
        variable = session.resources.lookup("", "v", Variable)
        found: list[Any] = []

        async def step() -> None:
            found.append(await session.run("y:0", {"x:0": 3.0}))

        async with trio.open_nursery() as nursery:
            assert variable.acquire(object())
            nursery.start_soon(step)
            await trio.testing.wait_all_tasks_blocked()
            assert not found
            variable.release()
        assert found == [14]


async def test_a_step_after_one_that_failed_begins_clean() -> None:
    g = fe.Graph()
    x = g.placeholder("int32", [], name="x")
    bad = g.ops.FloorDiv(g.constant(np.int32(6)), x, name="bad")
    g.ops.Add(g.ops.Neg(bad), g.ops.Square(x), name="y")
    async with fe.Session(g, config=PLAIN) as session:
        for _ in range(3):
            assert await session.run("y:0", {"x:0": 2}) == 1
            with pytest.raises(fe.errors.InvalidArgumentError) as raised:
                await session.run("y:0", {"x:0": 0})
            assert raised.value.node_name == "bad"
            assert raised.value.input_shapes == ("int32[]", "int32[]")
