"""Recvs that wait until what they bring is soon used."""

from __future__ import annotations

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.names import DeviceName
from flowengine.ir.graph import Node, OutputPort
from flowengine.passes.context import PassContext
from flowengine.passes.cut.partition import partition
from flowengine.passes.cut.schedule_recv import schedule_receives

A, B = (f"/job:localhost/replica:0/task:0/device:CPU:{index}" for index in range(2))


def receives(g: fe.Graph, far: set[str]) -> dict[str, tuple[str, ...]]:
    """{edge: control inputs of its Recv} after scheduling; nodes of `far` are on one device."""
    context = PassContext(feeds=(OutputPort("x", 0),))
    parts = partition(g, context, {n.name: B if n.name in far else A for n in g}, {A: 1, B: 2})
    found: list[Node] = [
        node
        for part in schedule_receives(parts, context).partitions
        for node in part.graph
        if node.op == "_Recv"
    ]
    return {node.attrs["tensor_name"].decode(): node.control_inputs for node in found}


def chain(g: fe.Graph, length: int) -> fe.Graph:
    x = g.placeholder("float32", [4], name="x")
    big = g.ops.Exp(x, name="big")
    value = x
    for number in range(length):
        value = g.ops.Neg(value, name=f"n{number}")
    g.ops.Mul(value, big, name="use")
    return g


def test_a_recv_waits_for_what_its_consumers_wait_for() -> None:
    assert receives(chain(fe.Graph(), 6), {"big"}) == {"big:0": ("n4",)}


@pytest.mark.parametrize("first", ["a", "b"])
def test_of_equally_late_nodes_the_first_by_name_is_waited_for(first: str) -> None:
    """Whichever was constructed first, in every process: tasks must make the same plans."""
    g = fe.Graph()
    x = g.placeholder("float32", [4], name="x")
    big = g.ops.Exp(x, name="big")
    ends = {}
    for letter in (first, "b" if first == "a" else "a"):
        ends[letter] = x
        for number in range(6):
            ends[letter] = g.ops.Neg(ends[letter], name=f"{letter}{number}")
    both = g.ops.Add(ends["a"], ends["b"])
    g.ops.Mul(both, big, name="use")
    assert receives(g, {"big"}) == {"big:0": ("a5",)}


def test_a_recv_that_is_used_at_once_does_not_wait() -> None:
    g = chain(fe.Graph(), 6)
    g.ops.Neg(g.operation("big").outputs[0], name="early")
    assert receives(g, {"big"}) == {"big:0": ()}


def test_a_recv_of_a_merge_does_not_wait() -> None:
    g = fe.Graph()
    x = g.placeholder("bool", [], name="x")
    sides = g.ops.Switch(x, x, name="switch")
    near = sides[0]
    for number in range(5):
        near = g.ops.LogicalNot(near, name=f"n{number}")
    g.ops.Merge([near, g.ops.LogicalNot(sides[1], name="far")])
    found = receives(g, {"far"})
    assert found["far:0"] == ()


@pytest.mark.parametrize("scheduled", [True, False])
async def test_a_late_recv_lowers_the_peak(scheduled: bool) -> None:
    """Eight tensors made at once on one device, used one after another on the other."""
    g = fe.Graph()
    x = g.placeholder("float32", [100_000], name="x")
    with g.device("/cpu:0"):
        made = [g.ops.Add(x, g.constant(float(number))) for number in range(8)]
    with g.device("/cpu:1"):
        total = g.ops.Sum(x, g.constant([0]))
        for number, tensor in enumerate(made):
            for _ in range(4):
                total = g.ops.Neg(total)
            scaled = g.ops.Mul(tensor, g.ops.Tanh(total))
            total = g.ops.Sum(scaled, g.constant([0]), name=f"total{number}")
    config = fe.Config(
        device_count={"CPU": 2}, count_allocations=True, schedule_receives=scheduled, worker_threads=False
    )
    async with fe.Session(g, config=config) as session:
        metadata = fe.RunMetadata()
        value = await session.run(total, {x: np.full(100_000, 1e-3, np.float32)}, run_metadata=metadata)
        assert np.isfinite(value)
        peak = next(p for name, p in metadata.devices.items() if DeviceName.parse(name).index == 1)
        assert peak is not None
        if scheduled:
            assert peak < 3 * 400_000, "one received tensor and what is made of it"
        else:
            assert peak > 8 * 400_000, "all of them at once"
