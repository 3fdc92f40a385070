"""Variables are looked up once, and again when a resource was removed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.resources.container import ResourceManager
from flowengine.resources.variable import Variable


def counter() -> fe.Graph:
    g = fe.Graph()
    v = g.ops.VariableV2(dtype="float32", shape=[2], name="v")
    g.ops.Assign(v, np.zeros(2, np.float32), name="init")
    g.ops.AssignAdd(v, np.ones(2, np.float32), name="more")
    g.ops.Identity(v, name="read")
    return g


async def test_a_step_starts_with_the_variables_it_has_seen() -> None:
    async with fe.Session(counter()) as session:
        await session.run("init")
        for expected in (1, 2, 3, 4, 5, 6):
            assert (await session.run("more:0")).tolist() == [expected] * 2
        found: list[Any] = [prepared.plan for prepared in session._plans.values()]
        for plan in (each.interpreted for each in found):
            _, sources = plan.handles.start(plan.root, plan.sources, session.resources)
            assert sources != plan.sources


async def test_a_removed_variable_is_made_anew() -> None:
    async with fe.Session(counter()) as session:
        await session.run("init")
        for _ in range(3):
            await session.run("more")
        assert (await session.run("read:0")).tolist() == [3.0, 3.0]
        session.resources.clear()
        with pytest.raises(fe.errors.FailedPreconditionError, match="uninitialized"):
            await session.run("read:0")
        await session.run("init")
        assert (await session.run("more:0")).tolist() == [1.0, 1.0]


async def test_a_resource_handle_follows_what_was_destroyed() -> None:
    g = fe.Graph()
    handle = g.ops.VarHandleOp(dtype="float32", shape=[], shared_name="v", name="handle")
    g.ops.AssignVariableOp(handle, g.placeholder("float32", [], name="x"), name="set")
    g.ops.ReadVariableOp(handle, dtype="float32", name="read")
    g.ops.DestroyResourceOp(handle, name="destroy")
    async with fe.Session(g) as session:
        for value in (1.0, 2.0):
            await session.run("set", {"x:0": value})
            for _ in range(6):
                assert await session.run("read:0") == value
            await session.run("destroy")
            assert [v.is_initialized for v in session.resources.held(Variable)] == [False]
            with pytest.raises(fe.errors.OpError):
                await session.run("read:0")


async def test_two_sessions_with_one_manager_share_what_they_find() -> None:
    resources = ResourceManager()
    graph = counter()
    sessions: list[Any] = [fe.Session(graph, resources=resources) for _ in range(2)]
    await sessions[0].run("init")
    for turn in range(12):
        assert (await sessions[turn % 2].run("more:0"))[0] == turn + 1
    for session in sessions:
        await session.close()


async def test_what_only_waits_for_a_look_up_runs_in_each_step() -> None:
    g = fe.Graph()
    handle = g.ops.VarHandleOp(dtype="float32", shape=[], shared_name="v", name="handle")
    x = g.placeholder("float32", [], name="x")
    with g.control_dependencies([handle.op]):
        g.ops.Neg(x, name="after")
        g.ops.NoOp(name="nothing")
    with g.control_dependencies(["nothing"]):
        g.ops.Exp(x, name="behind")
    g.ops.VarIsInitializedOp(handle, name="is")
    async with fe.Session(g) as session:
        for _ in range(3):
            got = await session.run(["after:0", "behind:0", "is:0"], {"x:0": 0.0})
            assert got == [0, 1, False]


async def test_what_is_removed_while_a_step_runs_is_not_made_again_by_its_end() -> None:
    """A step remembers what it has looked up only if that is still what there is."""
    g = fe.Graph()
    handle = g.ops.VarHandleOp(dtype="float32", shape=[], shared_name="v", container="c", name="handle")
    queue = g.ops.FIFOQueueV2(component_types=["float32"], name="queue")
    x = g.placeholder("float32", [], name="x")
    g.ops.QueueEnqueueV2(queue, [x], name="put")
    taken = g.ops.QueueDequeueV2(queue, component_types=["float32"])[0]
    g.ops.AssignVariableOp(handle, taken, name="set")
    async with fe.Session(g) as session:
        for _ in range(3):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.run, "set")
                await trio.testing.wait_all_tasks_blocked()
                session.resources.clear("c")
                await session.run("put", {"x:0": 1.0})
            assert not session.resources.held(Variable)
