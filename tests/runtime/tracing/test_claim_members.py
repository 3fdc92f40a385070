"""A trace of nodes has a time for each member of a claim, or names it with those that one call computes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.ir.graph import Node
from flowengine.ir.proto.step_stats_pb2 import RunMetadata as StepStatsProto
from flowengine.kernels.load import load_all
from flowengine.kernels.member_times import MEMBER_TIMES, MemberTime, add_shares
from flowengine.kernels.registry import KernelRegistry
from flowengine.runtime import lanes
from flowengine.runtime.planning import signatures
from flowengine.runtime.tracing.events import TraceEvent
from flowengine.runtime.tracing.profile import undivided
from tests.runtime.claims_of_cold_plans import claim_at_once
from tests.runtime.test_against_reference import opened
from tests.runtime.test_offloaded_runs import force
from tests.runtime.tracing.test_traced_steps import hold_together, traced

SIDE = 512


def chain(g: fe.Graph, x: fe.Tensor, scope: str = "") -> fe.Tensor:
    moved = g.ops.Sub(x, np.float32(1), name=f"{scope}moved")
    found: fe.Tensor = g.ops.Tanh(g.ops.Exp(moved, name=f"{scope}grown"), name=f"{scope}y")
    return found


def layers(g: fe.Graph, x: fe.Tensor, count: int = 3) -> fe.Tensor:
    filters = np.full((3, 3, 8, 8), 0.1, np.float32)
    for number in range(count):
        y = g.ops.Conv2D(x, filters, strides=[1, 1, 1, 1], padding="SAME", name=f"conv_{number}")
        y = g.ops.BiasAdd(y, np.ones(8, np.float32), name=f"bias_{number}")
        x = g.ops.Relu(y, name=f"relu_{number}")
    found: fe.Tensor = g.ops.MaxPool(x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME", name="pool")
    return found


def members(metadata: fe.RunMetadata) -> list[TraceEvent]:
    return [event for event in metadata.events if "claim" in event.detail]


def claims(metadata: fe.RunMetadata) -> list[TraceEvent]:
    return [
        event
        for event in metadata.events
        if event.members and event.kind in ("kernel", "node", "body") and "claim" not in event.detail
    ]


def named(events: list[TraceEvent]) -> set[str]:
    return {name for event in events for name in event.members or (event.name,)}


def check_members(metadata: fe.RunMetadata) -> None:
    """All members of each claim are named, once, within its time, and count instead of it."""
    hold_together(metadata)
    events = members(metadata)
    for claim in claims(metadata):
        mine = [
            event
            for event in events
            if claim.began <= event.began and event.ended <= claim.ended and event.thread == claim.thread
        ]
        if claim.kind != "body":
            assert named(mine) == set(claim.members)
        names = [name for event in mine for name in event.members or (event.name,)]
        assert len(names) == len(set(names))
        assert {event.detail["block"] for event in mine} == {claim.name}
        assert sum(event.seconds for event in mine) <= claim.seconds
        assert all(event.tag == claim.tag for event in mine)
    counted = [*undivided(metadata.events)]
    assert not set(map(id, counted)).intersection(map(id, claims(metadata)))
    assert {id(event) for event in events} <= set(map(id, counted))
    json.loads(metadata.timeline())
    proto = StepStatsProto.FromString(metadata.step_stats())
    nodes = [node.node_name for each in proto.step_stats.dev_stats for node in each.node_stats]
    assert named(events) <= set(nodes)


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@pytest.mark.parametrize("side", [4, SIDE], ids=["whole", "in blocks"])
async def test_the_steps_of_a_chain(monkeypatch: pytest.MonkeyPatch, side: int, tier: str) -> None:
    claim_at_once(monkeypatch)
    g = fe.Graph()
    chain(g, g.placeholder("float32", [side, side], name="x"))
    feeds = {"x:0": np.full((side, side), 0.5, np.float32)}
    async with opened(g, tier) as session:
        plain = await session.run("y:0", feeds)
        value, metadata = await traced(session, "y:0", feeds)
        _, blocks = await traced(session, "y:0", feeds, "blocks")
    np.testing.assert_array_equal(value, plain)
    check_members(metadata)
    assert [event.name for event in members(metadata)] == ["moved", "grown", "y"]
    assert [event.op for event in members(metadata)] == ["Sub", "Exp", "Tanh"]
    assert all(__file__ in event.line for event in members(metadata))
    assert [entry.name for entry in metadata.profile("op").entries if entry.name.startswith("_")] == []
    assert not members(blocks)
    if side == SIDE:
        (claim,) = claims(metadata)
        assert sum(event.seconds for event in members(metadata)) > 0.5 * claim.seconds
        assert all(event.seconds for event in members(metadata))


async def test_a_product_and_its_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    claim_at_once(monkeypatch)
    g = fe.Graph()
    x = g.placeholder("float32", [SIDE, SIDE], name="x")
    chain(g, g.ops.MatMul(x, x, name="product"))
    feeds = {"x:0": np.full((SIDE, SIDE), 1e-3, np.float32)}
    async with fe.Session(g, config=fe.Config(compile_hot_plans=False)) as session:
        _, metadata = await traced(session, "y:0", feeds)
    check_members(metadata)
    assert [event.name for event in members(metadata)] == ["product", "moved", "grown", "y"]
    assert members(metadata)[-1].outputs == (("float32", (SIDE, SIDE), 4 * SIDE * SIDE),)


@pytest.mark.parametrize("threads", [False, True])
async def test_the_layers_of_a_sequence(monkeypatch: pytest.MonkeyPatch, threads: bool) -> None:
    """Claims among its nodes have their members; layers that a library joins have shares of one time."""
    claim_at_once(monkeypatch, sequences=True)
    if threads:
        monkeypatch.setattr(lanes, "HEAVY_MICROSECONDS", -1.0)
        monkeypatch.setattr(signatures, "INLINE_BYTES", -1)
        monkeypatch.setattr(signatures, "ESTIMATE_BYTES", -1)
    g = fe.Graph()
    layers(g, g.placeholder("float32", [4, 32, 32, 8], name="x"))
    feeds = {"x:0": np.ones((4, 32, 32, 8), np.float32)}
    config = fe.Config(compile_hot_plans=False, worker_threads=threads)
    async with fe.Session(g, config=config) as session:
        plain = await session.run("pool:0", feeds)
        for _ in range(6):
            value, metadata = await traced(session, "pool:0", feeds)
            check_members(metadata)
            names = named(members(metadata))
            assert {f"{kind}_{number}" for kind in ("conv", "bias", "relu") for number in range(3)} <= names
            assert len(members(metadata)) >= 3
            assert all(event.seconds for event in members(metadata)), "each layer has a time"
            np.testing.assert_array_equal(value, plain)


async def test_a_product_that_takes_a_part_of_its_chain_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library computes the bias and the Relu with the convolution, and the rest is a chain."""
    claim_at_once(monkeypatch)
    g = fe.Graph()
    x = g.placeholder("float32", [4, 32, 32, 8], name="x")
    filters = np.full((3, 3, 8, 8), 0.1, np.float32)
    y = g.ops.Conv2D(x, filters, strides=[1, 1, 1, 1], padding="SAME", name="conv")
    y = g.ops.Relu(g.ops.BiasAdd(y, np.ones(8, np.float32), name="bias"), name="relu")
    g.ops.Log1p(g.ops.Sqrt(y, name="root"), name="y")
    feeds = {"x:0": np.ones((4, 32, 32, 8), np.float32)}
    async with fe.Session(g, config=fe.Config(compile_hot_plans=False)) as session:
        _, metadata = await traced(session, "y:0", feeds)
    check_members(metadata)
    assert named(members(metadata)) == {"conv", "bias", "relu", "root", "y"}
    assert [event.name for event in members(metadata)][-2:] == ["root", "y"]


async def test_a_thread_keeps_no_list_after_a_traced_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else claims of other steps would add their times to a trace that nobody makes."""
    force(monkeypatch)
    found: list[bool] = []

    def product(a: Any, b: Any) -> Any:
        found.append(MEMBER_TIMES.get() is not None)
        return a @ b

    kernels = KernelRegistry(parent=load_all())
    kernels.kernel("MatMul", heavy=lambda a, b: 5000.0)(product)
    g = fe.Graph()
    x = g.placeholder("float32", [8, 8], name="x")
    y = g.ops.MatMul(g.ops.MatMul(x, x), x, name="y")
    feeds = {"x:0": np.eye(8, dtype=np.float32)}
    config = fe.Config(compile_hot_plans=False)
    async with fe.Session(g, config=config, kernels=kernels) as session:
        for _ in range(10):
            await traced(session, y, feeds)
            assert found == [True, True]
            found.clear()
            await session.run(y, feeds)
            assert found == [False, False]
            found.clear()


async def test_updates_that_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    claim_at_once(monkeypatch)
    g = fe.Graph()
    updates = []
    for number in range(4):
        v = g.ops.VariableV2(shape=[8], dtype="float32", name=f"v{number}")
        g.ops.Assign(v, np.ones(8, np.float32), name=f"init{number}")
        gradient = g.placeholder("float32", None, name=f"g{number}")
        updates.append(g.ops.ApplyGradientDescent(v, np.float32(1), gradient, name=f"update{number}"))
    with g.control_dependencies(updates):
        g.ops.NoOp(name="train")
    names = {f"update{number}" for number in range(4)}
    feeds = {f"g{number}:0": np.ones(8, np.float32) for number in range(4)}
    metadata, options = fe.RunMetadata(), fe.RunOptions(trace="nodes")
    async with fe.Session(g) as session:
        await session.run([], targets=[f"init{number}" for number in range(4)])
        await session.run([], feeds, targets=["train"], options=options, run_metadata=metadata)
        assert [event.members for event in members(metadata)] == [tuple(sorted(names))]
        check_members(metadata)
        # A gradient of another type is for each update by itself to refuse.
        metadata, feeds = fe.RunMetadata(), feeds | {"g0:0": np.ones((2, 8), np.float32)}
        with pytest.raises(fe.errors.OpError, match="update0"):
            await session.run([], feeds, targets=["train"], options=options, run_metadata=metadata)


async def test_a_claim_in_a_loop_has_its_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    claim_at_once(monkeypatch)
    g = fe.Graph()
    x = g.placeholder("float32", [SIDE, SIDE], name="x")
    _, y = g.while_loop(lambda i, _: i < 3, lambda i, v: [i + 1, chain(g, v)], [g.constant(0), x])
    feeds = {"x:0": np.full((SIDE, SIDE), 0.5, np.float32)}
    async with opened(g, "interpreted") as session:
        _, metadata = await traced(session, y, feeds)
    check_members(metadata)
    grown = [event for event in members(metadata) if event.name == "while/grown"]
    assert [event.tag[-1][1] for event in grown] == [0, 1, 2]


async def test_members_without_room_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    claim_at_once(monkeypatch)
    g = fe.Graph()
    x = g.placeholder("float32", [4, 4], name="x")
    for number in range(4):
        x = g.ops.Identity(chain(g, x, f"part{number}/"))
    fetches = [f"part{number}/y:0" for number in range(4)]
    async with fe.Session(g, config=fe.Config(compile_hot_plans=False)) as session:
        _, whole = await traced(session, fetches, {"x:0": np.ones((4, 4))})
        for most in range(1, 20):
            _, bounded = await traced(session, fetches, {"x:0": np.ones((4, 4))}, trace_events=most)
            assert len(bounded.events) <= most
            # Members are never kept without their claim, which would hide them.
            assert len(bounded.events) + bounded.dropped_events >= 4 + 12 + 1
    assert len(members(whole)) == 12
    assert MEMBER_TIMES.get() is None


def test_shares_add_up_to_the_time() -> None:
    rows: list[MemberTime] = []
    nodes = [Node(name, "Neg") for name in "abc"]
    add_shares(rows, nodes, [1.0, 3.0, 0.0], 10.0, 14.0)
    assert [(nodes[0].name, began, ended) for nodes, began, ended in rows] == [
        ("a", 10.0, 11.0),
        ("b", 11.0, 14.0),
        ("c", 14.0, 14.0),
    ]
    rows.clear()
    add_shares(rows, nodes, [0.0] * 3, 10.0, 14.0)
    assert [(began, ended) for _, began, ended in rows] == [(10.0, 14.0), (14.0, 14.0), (14.0, 14.0)]
