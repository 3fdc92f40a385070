"""Work of a device with streams in a step, with times: kernels on the compute stream, copies on theirs."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.devices.launch_record import LaunchRecord
from flowengine.runtime.planning import tiers
from tests.devices.on_gpu import GPU, opened

NAME = f"/job:localhost/replica:0/task:0{GPU}"
X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def graph() -> tuple[fe.Graph, Any, list[Any]]:
    """(graph, what is fed, what is fetched): two products, of which the CPU wants one meanwhile."""
    g = fe.Graph()
    with g.device(GPU):
        x = g.placeholder("float32", [2, 3], name="x")
        first = g.ops.MatMul(x, x, transpose_b=True, name="first")
        second = g.ops.MatMul(first, first, name="second")
        last = g.ops.Neg(g.ops.Tanh(second, name="inner"), name="last")
    with g.device("/cpu:0"):
        near = g.ops.Exp(first, name="near")
    return g, x, [last, near]


def of_stream(launches: list[LaunchRecord], stream: str) -> list[tuple[str, str]]:
    return [(each.node, each.what) for each in launches if each.stream == stream]


@pytest.mark.parametrize("seed", range(6))
async def test_kernels_and_copies_are_on_their_streams_with_the_names_of_nodes(seed: int) -> None:
    g, x, fetches = graph()
    async with opened(g, seed) as (session, _):
        await session.run(fetches, {x: X})  # once, so that what is brought in once is there
        metadata = fe.RunMetadata(launches=[])
        await session.run(fetches, {x: X}, run_metadata=metadata)
        assert metadata.launches is not None
        launches = metadata.launches
    assert {each.device for each in launches} == {NAME}
    assert of_stream(launches, "copy in") == [("x/_to_device_0", "copy in")]
    assert of_stream(launches, "compute") == [
        ("first", "dot"),
        ("second", "dot"),
        ("inner", "tanh"),
        ("last", "negative"),
    ]
    assert sorted(of_stream(launches, "copy out")) == [
        ("first/_to_host_0", "copy out"),
        ("last:0", "copy out"),
    ]
    # What was copied is what is counted, name by name.
    assert metadata.transfers[f"x:0 -> {NAME}"] == (1, X.nbytes)
    assert ("first:0 -> /job:localhost/replica:0/task:0/device:CPU:0", (1, 16)) in metadata.transfers.items()


def when(launches: list[LaunchRecord], node: str) -> LaunchRecord:
    (found,) = (each for each in launches if each.node == node)
    return found


async def test_a_stream_does_one_thing_after_another_and_waits_for_what_it_needs() -> None:
    orders = set()
    for seed in range(24):
        g, x, fetches = graph()
        async with opened(g, seed) as (session, _):
            metadata = fe.RunMetadata(launches=[])
            await session.run(fetches, {x: X}, run_metadata=metadata)
            launches = metadata.launches
            assert launches is not None
        for stream in ("compute", "copy in", "copy out"):
            for one, other in pairwise(each for each in launches if each.stream == stream):
                assert one.began <= one.ended <= other.began
        assert when(launches, "x/_to_device_0").ended <= when(launches, "first").began
        assert when(launches, "first").ended <= when(launches, "first/_to_host_0").began
        assert when(launches, "last").ended <= when(launches, "last:0").began
        orders.add(when(launches, "first/_to_host_0").ended < when(launches, "second").began)
    assert orders == {False, True}, "a copy out and the next kernel wait for each other in no order"


async def test_a_chain_is_one_entry_and_what_nobody_asked_for_is_not_noted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tiers, "HOT_RUNS", 0)
    g, x, fetches = graph()
    async with opened(g, 3) as (session, _):
        noted = fe.RunMetadata(launches=[])
        await session.run(fetches, {x: X}, run_metadata=noted)
        assert noted.launches is not None
        count = len(noted.launches)
        assert ("last", "Tanh -> Neg") in of_stream(noted.launches, "compute")
        # Steps that did not ask go on without, and their work is not told to the one that did.
        plain = fe.RunMetadata()
        await session.run(fetches, {x: X}, run_metadata=plain)
        await session.run(fetches, {x: X})
        assert plain.launches is None
        assert len(noted.launches) == count
        assert json.loads(plain.timeline())["traceEvents"] == []


@pytest.mark.parametrize("threads", [False, True])
async def test_a_kernel_that_looks_is_noted_from_its_own_thread(threads: bool) -> None:
    g = fe.Graph()
    with g.device(GPU):
        x = g.placeholder("float32", [4], name="x")
        places = g.ops.Where(x > 0.0, name="places")
    async with opened(g, 2, worker_threads=threads) as (session, gpu):
        metadata = fe.RunMetadata(launches=[])
        await session.run(places, {x: np.array([1, -1, 2, 3], np.float32)}, run_metadata=metadata)
        assert metadata.launches is not None
        assert {each.node for each in metadata.launches if each.stream == "compute"} >= {"places"}
        gpu.xp.reads.clear()  # it has to look


async def test_the_timeline_has_a_thread_a_stream() -> None:
    g, x, fetches = graph()
    async with opened(g, 1) as (session, _):
        metadata = fe.RunMetadata(launches=[])
        await session.run(fetches, {x: X}, run_metadata=metadata)
    assert metadata.launches is not None
    events = json.loads(metadata.timeline())["traceEvents"]
    assert [e["args"]["name"] for e in events if e["name"] == "process_name"] == [
        NAME.partition("/device:")[0].strip("/").replace("/", " ")
    ]
    threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    device = NAME.partition("/device:")[2]
    assert sorted(threads.values()) == [f"{device} compute", f"{device} copy in", f"{device} copy out"]
    shown = [e for e in events if e["ph"] == "X"]
    assert [(e["name"], threads[e["tid"]]) for e in shown] == [
        (r.node, f"{device} {r.stream}") for r in metadata.launches
    ]
    assert min(e["ts"] for e in shown) == 0
    assert all(e["dur"] >= 0 for e in shown)
