"""A request's plan: what is asked of tasks, and what need not be told between them."""

from __future__ import annotations

import gc
import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.cluster.local import free_ports
from flowengine.cluster.master.planning import ClusterPlanner
from flowengine.cluster.master.plans import without_gathering
from flowengine.core.names import DeviceName
from flowengine.kernels.load import registry
from flowengine.passes.context import PassContext
from flowengine.passes.place.device_profiles import Offer
from flowengine.transport.wire.identity import new_key


def asked(g: fe.Graph, *targets: str) -> tuple[set[str], tuple[str, ...]]:
    """The names of the nodes and of the targets that are left."""
    found, context = without_gathering(g.snapshot(), PassContext(targets=targets))
    return {node.name for node in found}, context.targets


def grouped() -> fe.Graph:
    g = fe.Graph()
    x = g.constant(np.float32(1), name="x")
    y = g.ops.Neg(x, name="y")
    with g.control_dependencies([x, y]):
        inner = g.ops.NoOp(name="inner")
    with g.control_dependencies([inner, y]):
        outer = g.ops.NoOp(name="outer")
    with g.control_dependencies([outer]):
        g.ops.Exp(x, name="z")
    g.ops.NoOp(name="alone")
    return g


def test_targets_that_gather_are_what_they_gather() -> None:
    g = grouped()
    assert asked(g, "outer") == ({"x", "y"}, ("x", "y"))
    assert asked(g, "alone", "inner") == ({"alone", "x", "y"}, ("alone", "x", "y"))
    # One that others wait for stays, for them.
    assert asked(g, "outer", "z") == ({"x", "y", "inner", "outer", "z"}, ("x", "y", "z"))


def test_other_targets_are_left_as_they_are() -> None:
    g = grouped().snapshot()
    context = PassContext(targets=("z", "alone"))
    assert without_gathering(g, context) == (g, context)


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_what_may_be_anywhere_is_on_the_task_that_is_asked(order: tuple[str, ...]) -> None:
    """In whatever order its master has come to know of tasks: here it costs no message."""
    offers = {f"/job:{each}/task:0": [Offer(DeviceName(each, 0, 0, "CPU", 0))] for each in order}
    members: Any = SimpleNamespace(
        known={task: (1, listed) for task, listed in offers.items()},
        identity=SimpleNamespace(task="/job:b/task:0"),
    )
    notices: Any = None
    planner = ClusterPlanner(members, notices, registry(), lambda task: None)
    settings = SimpleNamespace(place=[], allow_soft_placement=False, log_device_placement=False)
    session: Any = SimpleNamespace(placer=None, settings=settings)
    g = fe.Graph()
    g.ops.Neg(g.constant(1.0), name="y")
    found = planner._placer(session).place(g.snapshot(), g)
    assert found.device_of["y"] == str(offers["/job:b/task:0"][0].name)


async def test_updates_that_are_gathered_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWENGINE_CLUSTER_KEY", new_key().hex())
    addresses = [f"127.0.0.1:{port}" for port in free_ports(3)]
    spec = fe.ClusterSpec.of({"ps": addresses[:2], "worker": addresses[2:]})
    g = fe.Graph()
    inits, updates = [], []
    for number in range(2):
        with g.device(f"/job:ps/task:{number}"):
            total = g.ops.VariableV2(shape=[], dtype="float32", name=f"total{number}")
            inits.append(g.ops.Assign(total, g.constant(np.float32(0))))
            updates.append(g.ops.AssignAdd(total, g.constant(np.float32(1))))
    with g.device("/job:worker/task:0"):
        with g.control_dependencies(inits):
            g.ops.NoOp(name="init")
        with g.control_dependencies(updates):
            g.ops.NoOp(name="step")
    async with (
        fe.Server(spec, "ps", 0) as first,
        fe.Server(spec, "ps", 1) as second,
        fe.Server(spec, "worker", 0) as worker,
        fe.Session(g, target=worker.target) as session,
    ):
        await session.run([], targets=["init"])
        for _ in range(5):
            with trio.fail_after(120):
                await session.run([], targets=["step"])
        assert await session.run(["total0:0", "total1:0"]) == [5, 5]
        for ps in (first, second):
            peer = ps.links.open_peer("/job:worker/task:0")
            assert peer is not None
            assert peer.statistics().tensors_pushed == 0


async def test_a_step_leaves_nothing_to_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWENGINE_CLUSTER_KEY", new_key().hex())
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    spec = fe.ClusterSpec.of({"ps": addresses[:1], "worker": addresses[1:]})
    g = fe.Graph()
    with g.device("/job:ps/task:0"):
        total = g.ops.VariableV2(shape=[], dtype="float32", name="total")
        g.ops.Assign(total, g.constant(np.float32(0)), name="init")
    with g.device("/job:worker/task:0"):
        more = g.ops.Neg(g.ops.Identity(total))
    with g.device("/job:ps/task:0"):
        g.ops.AssignAdd(total, more, name="add")
    async with (
        fe.Server(spec, "ps", 0),
        fe.Server(spec, "worker", 0) as worker,
        fe.Session(g, target=worker.target) as session,
    ):
        await session.run([], targets=["init"])
        step = session.make_callable([], targets=["add"])
        for _ in range(20):
            await step()
        gc.collect()
        gc.disable()
        try:
            for _ in range(50):
                await step()
            left = gc.collect()
        finally:
            gc.enable()
    # What else a second brings is allowed for: a heartbeat, a look at the clock.
    assert left < 50
