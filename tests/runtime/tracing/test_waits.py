"""The trace of a step names what it waited for: a queue, a variable, another device, a thread, a turn."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.kernels.load import load_all
from flowengine.kernels.registry import KernelRegistry
from flowengine.resources.variable import Variable
from flowengine.runtime import lanes
from flowengine.runtime.planning import signatures
from flowengine.runtime.tracing import waits
from flowengine.runtime.tracing.events import TraceEvent
from flowengine.runtime.tracing.recorder import Recorder
from tests.runtime.test_against_reference import opened

OPTIONS = fe.RunOptions(trace="nodes")


def longest_wait(metadata: fe.RunMetadata) -> TraceEvent:
    return max((event for event in metadata.events if event.kind == "wait"), key=lambda event: event.seconds)


async def test_a_slow_queue(autojump_clock: trio.testing.MockClock) -> None:
    g = fe.Graph()
    q = g.ops.FIFOQueueV2(component_types=["float32"], name="slow")
    (taken,) = g.ops.QueueDequeueV2(q, component_types=["float32"], name="take")
    y = g.ops.Neg(taken, name="y")
    g.ops.QueueEnqueueV2(q, [g.constant(1.0)], name="put")
    metadata = fe.RunMetadata()
    async with fe.Session(g) as session, trio.open_nursery() as nursery:

        async def take() -> None:
            await session.run(y, options=OPTIONS, run_metadata=metadata)

        nursery.start_soon(take)
        await trio.testing.wait_all_tasks_blocked()
        await session.run("put")
    (waited,) = [event for event in metadata.events if event.kind == "async"]
    assert waited.name == "take"
    assert waited.detail["waits_for"] == "fifoqueue 'slow' (QueueDequeueV2 'take')"
    assert "fifoqueue 'slow'" in longest_wait(metadata).name


async def test_a_variable_that_another_step_writes() -> None:
    g = fe.Graph()
    v = g.variable(np.ones(2, np.float32), name="weights")
    y = g.ops.Neg(v.value(), name="y")
    metadata = fe.RunMetadata()
    async with fe.Session(g) as session, trio.open_nursery() as nursery:
        await session.run(v.initializer)
        await session.run(y)
        (variable,) = session.resources.held(Variable)
        assert variable.acquire("another step")

        async def read() -> None:
            await session.run(y, options=OPTIONS, run_metadata=metadata)

        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        variable.release()
    found = [event for event in metadata.events if event.kind == "wait" and event.detail.get("node")]
    assert [event.name for event in found] == ["variable 'weights', which another step writes"]
    assert "variable 'weights'" in longest_wait(metadata).name


async def test_a_variable_that_is_free_again_is_no_reason_any_more() -> None:
    g = fe.Graph()
    v = g.variable(np.ones(2, np.float32), name="weights")
    q = g.ops.FIFOQueueV2(component_types=["float32"], name="slow")
    read = g.ops.Neg(v.value(), name="read")
    with g.control_dependencies([read]):
        (taken,) = g.ops.QueueDequeueV2(q, component_types=["float32"], name="take")
    g.ops.QueueEnqueueV2(q, [g.constant(1.0)], name="put")
    metadata = fe.RunMetadata()
    async with fe.Session(g) as session, trio.open_nursery() as nursery:
        await session.run(v.initializer)
        await session.run(read)
        (variable,) = session.resources.held(Variable)
        assert variable.acquire("another step")

        async def take() -> None:
            await session.run(taken, options=OPTIONS, run_metadata=metadata)

        nursery.start_soon(take)
        await trio.testing.wait_all_tasks_blocked()
        variable.release()
        await trio.testing.wait_all_tasks_blocked()
        await session.run("put")
    waits_of_step = [
        event.name for event in metadata.events if event.kind == "wait" and not event.detail.get("node")
    ]
    assert [name for name in waits_of_step if "weights" in name] == [
        "variable 'weights', which another step writes"
    ]
    assert [name for name in waits_of_step if "slow" in name] == ["fifoqueue 'slow' (QueueDequeueV2 'take')"]


async def test_a_kernel_on_a_busy_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "HEAVY_MICROSECONDS", -1.0)
    monkeypatch.setattr(signatures, "INLINE_BYTES", -1)
    monkeypatch.setattr(signatures, "ESTIMATE_BYTES", -1)
    token = trio.lowlevel.current_trio_token()
    reached, let = trio.Event(), threading.Event()
    kernels = KernelRegistry(parent=load_all())

    def product(a: Any, b: Any) -> Any:
        token.run_sync_soon(reached.set)
        assert let.wait(30)
        return a @ b

    kernels.kernel("MatMul", heavy=lambda a, b: 50_000.0)(product)
    g = fe.Graph()
    x = g.placeholder("float32", [8, 8], name="x")
    first, second = g.ops.MatMul(x, x, name="first"), g.ops.MatMul(x, x, name="second")
    y = g.ops.AddN([first, second], name="y")
    metadata = fe.RunMetadata()
    config = fe.Config(compile_hot_plans=False, merge_common_subexpressions=False)
    async with fe.Session(g, config=config, kernels=kernels) as session, trio.open_nursery() as nursery:

        async def run() -> None:
            await session.run(y, {"x:0": np.eye(8)}, options=OPTIONS, run_metadata=metadata)

        nursery.start_soon(run)
        await reached.wait()
        let.set()
    on_threads = [event for event in metadata.events if event.kind == "kernel" and event.op == "MatMul"]
    assert {event.name for event in on_threads} == {"first", "second"}
    assert all(event.thread.startswith("flowengine-") for event in on_threads)
    reasons = {event.name for event in metadata.events if event.kind == "wait"}
    assert any("'first'" in reason and "thread" in reason for reason in reasons), reasons
    lanes_of = [event for event in metadata.events if event.name.startswith("lane: ")]
    assert {(event.name, event.detail.get("node")) for event in lanes_of} == {
        ("lane: 'first' for a thread", "first"),
        ("lane: 'second' for a thread", "second"),
    }


async def test_a_kernel_that_has_left_its_thread_is_no_reason_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HEAVY_MICROSECONDS", "ALONE_MICROSECONDS"):
        monkeypatch.setattr(lanes, name, -1.0)
    monkeypatch.setattr(signatures, "INLINE_BYTES", -1)
    monkeypatch.setattr(signatures, "ESTIMATE_BYTES", -1)
    token = trio.lowlevel.current_trio_token()
    reached, let = trio.Event(), threading.Event()
    kernels = KernelRegistry(parent=load_all())

    def product(a: Any, b: Any) -> Any:
        if a[0, 0] == 2:
            token.run_sync_soon(reached.set)
            assert let.wait(30)
        return a + b

    kernels.kernel("MatMul", heavy=lambda a, b: 50_000.0)(product)
    g = fe.Graph()
    x = g.placeholder("float32", [8, 8], name="x")
    second = g.ops.MatMul(g.ops.MatMul(x, x, name="first"), x, name="second")
    metadata = fe.RunMetadata()
    config = fe.Config(compile_hot_plans=False)
    async with fe.Session(g, config=config, kernels=kernels) as session, trio.open_nursery() as nursery:

        async def run() -> None:
            await session.run(second, {"x:0": np.ones((8, 8))}, options=OPTIONS, run_metadata=metadata)

        nursery.start_soon(run)
        await reached.wait()
        await trio.testing.wait_all_tasks_blocked()
        let.set()
    reasons = {
        event.name for event in metadata.events if event.kind == "wait" and not event.detail.get("node")
    }
    assert {name for name in reasons if "second" in name} == {"kernel 'second' on a thread"}


async def test_a_value_from_another_device() -> None:
    g = fe.Graph()
    with g.device("/cpu:0"):
        a = g.ops.Tanh(g.placeholder("float32", [2], name="x"), name="a")
    with g.device("/cpu:1"):
        g.ops.Neg(a, name="b")
    async with fe.Session(g, config=fe.Config(device_count={"CPU": 2})) as session:
        metadata = fe.RunMetadata()
        await session.run("b:0", {"x:0": [1.0, 2.0]}, options=OPTIONS, run_metadata=metadata)
        assert not session._runner.recorders
    assert isinstance(metadata.trace, Recorder)
    before = len(metadata.events)
    metadata.trace.wait("too late", "", 0.0, 1.0)
    assert (len(metadata.events), metadata.dropped_events) == (before, 0)
    (sent,) = [event for event in metadata.events if event.kind == "send"]
    (received,) = [event for event in metadata.events if event.kind == "recv"]
    assert sent.detail["edge"] == received.detail["edge"] == "a:0"
    assert sent.device.endswith("CPU:0")
    assert received.device.endswith("CPU:1")
    assert received.ended >= sent.began
    assert received.outputs == (("float32", (2,), 8),)
    if received.began < sent.began:  # whichever partition is the first
        assert any("Recv of a:0" in event.name for event in metadata.events if event.kind == "wait")
    assert {event.device[-1] for event in metadata.events if event.kind == "kernel"} == {"0", "1"}


async def test_a_turn_that_other_steps_have(monkeypatch: pytest.MonkeyPatch) -> None:
    g = fe.Graph()
    (out,) = g.while_loop(
        lambda i: g.ops.Less(i, g.constant(20_000)),
        lambda i: [g.ops.AddV2(i, g.constant(1))],
        [g.constant(0)],
    )
    metadata = fe.RunMetadata()
    config = fe.Config(compile_hot_plans=False)
    async with fe.Session(g, config=config) as session, trio.open_nursery() as nursery:

        async def run() -> None:
            await session.run(out, options=fe.RunOptions(trace="blocks"), run_metadata=metadata)

        nursery.start_soon(run)
        nursery.start_soon(session.run, out)
    turns = [event for event in metadata.events if event.kind == "turn"]
    between = [event for event in metadata.events if event.name == "turn of other work"]
    assert len(turns) > 3
    assert len(between) > 3
    assert all(turn.detail["cpu_seconds"] <= turn.seconds + 1e-3 for turn in turns)


def test_where_the_machine_does_not_say_how_long_a_thread_waited(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(waits, "_SCHEDULE", str(tmp_path / "nothing"))
    assert waits.core_wait_seconds() is None
    (tmp_path / "odd").write_text("7")
    monkeypatch.setattr(waits, "_SCHEDULE", str(tmp_path / "odd"))
    assert waits.core_wait_seconds() is None
    (tmp_path / "right").write_text("7000 2000000000 3\n")
    monkeypatch.setattr(waits, "_SCHEDULE", str(tmp_path / "right"))
    assert waits.core_wait_seconds() == 2.0


async def test_no_node_of_a_compiled_loop_lasts_through_a_pause() -> None:
    g = fe.Graph()
    (out,) = g.while_loop(
        lambda i: g.ops.Less(i, g.constant(6_000)),
        lambda i: [g.ops.AddV2(i, g.constant(1))],
        [g.constant(0)],
    )
    metadata = fe.RunMetadata()
    async with opened(g, "compiled") as session, trio.open_nursery() as nursery:

        async def run() -> None:
            await session.run(out, options=OPTIONS, run_metadata=metadata)

        nursery.start_soon(run)
        nursery.start_soon(session.run, out)
        nursery.start_soon(session.run, out)
    pauses = [event for event in metadata.events if event.name == "turn of other work"]
    assert pauses
    for pause in pauses:
        assert not [
            event
            for event in metadata.events
            if event.kind == "node" and event.began < pause.began and event.ended > pause.ended
        ]
