"""A step that fails or is cancelled has what it still waited for in its trace: marked, up to its end."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.core import errors
from flowengine.resources.variable import Variable
from flowengine.runtime.tracing.critical_path import critical_path
from flowengine.runtime.tracing.events import TraceEvent
from flowengine.runtime.tracing.timeline import read_timeline

LEVELS = pytest.mark.parametrize("level", ["blocks", "nodes"])


@contextlib.asynccontextmanager
async def cancelled(
    session: fe.Session, fetches: Any, metadata: fe.RunMetadata, level: Any = "nodes", feeds: Any = None
) -> AsyncIterator[None]:
    """Begin a step, which is cancelled at the end of the block."""
    options = fe.RunOptions(trace=level)
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            await session.run(fetches, feeds, options=options, run_metadata=metadata)

        nursery.start_soon(run)
        yield
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


def unfinished(metadata: fe.RunMetadata, *kinds: str) -> dict[str, TraceEvent]:
    """{name: event} of what had not ended; each of it ends with the step."""
    found = {event.name: event for event in metadata.events if "unfinished" in event.detail}
    end = max(event.ended for event in metadata.events)
    for event in found.values():
        assert end - event.ended < 0.02, event
        assert event.detail["unfinished"] is True
    return {name: event for name, event in found.items() if event.kind in kinds}


def dequeue(graph: fe.Graph, name: str = "take") -> fe.Tensor:
    queue = graph.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], name=f"{name}_queue")
    found: fe.Tensor = graph.ops.QueueDequeueV2(queue, component_types=["float32"], name=name)[0]
    return found


@LEVELS
async def test_a_dequeue(level: Any) -> None:
    g = fe.Graph()
    y = fe.negative(dequeue(g), name="y")
    metadata = fe.RunMetadata()
    async with fe.Session(g) as session, cancelled(session, y, metadata, level):
        pass
    (event,) = unfinished(metadata, "async").values()
    assert event.name == "take"
    assert event.detail["waits_for"] == "fifoqueue 'take_queue' (QueueDequeueV2 'take')"
    (wait,) = unfinished(metadata, "wait").values()
    assert wait.name == event.detail["waits_for"]
    last = critical_path(metadata.events)[-1]
    assert (last.kind, last.name) == ("wait", event.detail["waits_for"])
    again = [each for each in read_timeline(metadata.timeline()) if each.name == "take"]
    assert [each.detail["unfinished"] for each in again] == [True]


async def test_a_step_that_ends_well_leaves_nothing(autojump_clock: trio.testing.MockClock) -> None:
    g = fe.Graph()
    y = fe.negative(dequeue(g), name="y")
    g.ops.QueueEnqueueV2(g.operation("take_queue").outputs[0], [g.constant(1.0)], name="put")
    metadata = fe.RunMetadata()
    async with fe.Session(g) as session, trio.open_nursery() as nursery:

        async def run() -> None:
            options = fe.RunOptions(trace="nodes")
            await session.run(y, options=options, run_metadata=metadata)

        nursery.start_soon(run)
        await trio.testing.wait_all_tasks_blocked()
        await session.run("put")
    assert metadata.events
    assert not unfinished(metadata, "wait", "async")


async def test_the_error_of_one_node_is_not_that_of_another_that_waits() -> None:
    g = fe.Graph()
    takes = [dequeue(g, name) for name in ("closed", "hangs")]
    g.ops.QueueCloseV2(g.operation("closed_queue").outputs[0], name="close")
    metadata = fe.RunMetadata()
    async with fe.Session(g) as session, trio.open_nursery() as nursery:

        async def run() -> None:
            options = fe.RunOptions(trace="nodes")
            with pytest.raises(errors.OutOfRangeError):
                await session.run(takes, options=options, run_metadata=metadata)

        nursery.start_soon(run)
        await trio.testing.wait_all_tasks_blocked()
        await session.run("close")
    found = {event.name: event for event in metadata.events if event.kind == "async"}
    assert "closed" in found["closed"].detail["error"]
    assert "unfinished" not in found["closed"].detail
    assert "error" not in found["hangs"].detail
    assert [*unfinished(metadata, "async")] == ["hangs"]


async def test_a_node_that_fails_before_another_has_begun_to_wait() -> None:
    """The step has no nursery yet: the dequeue has only been tried."""
    g = fe.Graph()
    taken = dequeue(g)
    bad = g.ops.Reshape(g.placeholder("float32", None, name="x"), [7], name="bad")
    metadata = fe.RunMetadata()
    async with fe.Session(g, config=fe.Config(compile_hot_plans=False)) as session:
        with pytest.raises(errors.InvalidArgumentError, match="bad"):
            await session.run(
                [taken, bad],
                {"x:0": [1, 2, 3]},
                options=fe.RunOptions(trace="nodes"),
                run_metadata=metadata,
            )
    found = [event.name for event in metadata.events if "error" in event.detail]
    assert found == ["bad"]
    names = {event.name for event in metadata.events if event.kind == "async"}
    assert names == {*unfinished(metadata, "async")}


async def test_a_dequeue_that_fails_at_once_has_ended() -> None:
    g = fe.Graph()
    taken = dequeue(g)
    g.ops.QueueCloseV2(g.operation("take_queue").outputs[0], name="close")
    metadata = fe.RunMetadata()
    async with fe.Session(g) as session:
        await session.run("close")
        with pytest.raises(errors.OutOfRangeError):
            await session.run(taken, options=fe.RunOptions(trace="nodes"), run_metadata=metadata)
    assert not unfinished(metadata, "async")
    assert len([event for event in metadata.events if "error" in event.detail]) == 1


async def test_a_dequeue_that_did_not_wait_has_ended() -> None:
    g = fe.Graph()
    queue = g.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], name="q")
    (first,) = g.ops.QueueDequeueV2(queue, component_types=["float32"], name="first")
    with g.control_dependencies([first]):
        (second,) = g.ops.QueueDequeueV2(queue, component_types=["float32"], name="second")
    g.ops.QueueEnqueueV2(queue, [g.constant(1.0)], name="put")
    metadata = fe.RunMetadata()
    async with fe.Session(g) as session:
        await session.run([], targets=["put"])
        async with cancelled(session, second, metadata):
            pass
    assert [*unfinished(metadata, "async")] == ["second"]
    assert [name for name in unfinished(metadata, "wait") if "first" in name] == []


async def test_a_compiled_call_that_fails_has_ended() -> None:
    g = fe.Graph()

    @fe.function(g, ["float32"])
    def body(x: fe.Tensor) -> fe.Tensor:
        return x.graph.ops.Reshape(fe.tanh(x), [7], name="bad")

    y = body(g.placeholder("float32", None, name="x"), name="outer")
    metadata = fe.RunMetadata()
    config = fe.Config(open_calls=False)
    async with fe.Session(g, config=config) as session:
        for _ in range(6):
            await session.run(y, {"x:0": np.ones(7)})
        with pytest.raises(errors.InvalidArgumentError, match="bad"):
            await session.run(
                y, {"x:0": [1, 2, 3]}, options=fe.RunOptions(trace="nodes"), run_metadata=metadata
            )
    assert not unfinished(metadata, "call")
    assert [event.name for event in metadata.events if "error" in event.detail] == ["outer"]


@LEVELS
async def test_a_call_and_the_dequeue_in_it(level: Any) -> None:
    g = fe.Graph()

    @fe.function(g, ["float32"])
    def body(x: fe.Tensor) -> fe.Tensor:
        return fe.negative(fe.tanh(x, name="before") + dequeue(x.graph), name="after")

    y = body(g.placeholder("float32", [], name="x"), name="outer")
    metadata = fe.RunMetadata()
    async with (
        fe.Session(g, config=fe.Config(open_calls=False)) as session,
        cancelled(session, y, metadata, level, {"x:0": 1.0}),
    ):
        pass
    (call,) = unfinished(metadata, "call").values()
    assert call.name == "outer"
    (taken,) = unfinished(metadata, "async").values()
    assert taken.name.endswith("take")
    assert call.began <= taken.began
    ran = {event.name.rpartition("/")[2] for event in metadata.events if event.kind in ("kernel", "node")}
    assert "before" in ran
    assert "after" not in ran


async def test_a_call_whose_body_fails_has_not_ended() -> None:
    g = fe.Graph()

    @fe.function(g, ["float32"])
    def body(x: fe.Tensor) -> fe.Tensor:
        return x.graph.ops.Reshape(fe.tanh(x), [7], name="bad")

    y = body(g.placeholder("float32", [3], name="x"), name="outer")
    metadata = fe.RunMetadata()
    config = fe.Config(open_calls=False, compile_hot_plans=False)
    async with fe.Session(g, config=config) as session:
        with pytest.raises(errors.InvalidArgumentError, match="bad"):
            await session.run(
                y, {"x:0": [1, 2, 3]}, options=fe.RunOptions(trace="nodes"), run_metadata=metadata
            )
    assert [*unfinished(metadata, "call")] == ["outer"]
    assert [event.name.rpartition("/")[2] for event in metadata.events if "error" in event.detail] == ["bad"]


async def test_a_dequeue_in_a_loop_has_its_iteration() -> None:
    g = fe.Graph()
    queue = g.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], name="q")

    def more(i: fe.Tensor, total: fe.Tensor) -> list[fe.Tensor]:
        (taken,) = g.ops.QueueDequeueV2(queue, component_types=["float32"], name="take")
        return [i + 1, total + taken]

    _, total = g.while_loop(lambda i, _: i < 5, more, [g.constant(0), g.constant(0.0)], parallel_iterations=1)
    g.ops.QueueEnqueueManyV2(queue, [g.constant([1.0, 2.0])], name="put")
    metadata = fe.RunMetadata()
    async with fe.Session(g) as session:
        await session.run([], targets=["put"])
        async with cancelled(session, total, metadata):
            pass
    (event,) = unfinished(metadata, "async").values()
    assert event.tag[-1][1] == 2


async def test_a_variable_that_another_step_writes() -> None:
    g = fe.Graph()
    v = g.variable(np.ones(2, np.float32), name="weights")
    y = g.ops.Neg(v.value(), name="y")
    metadata = fe.RunMetadata()
    async with fe.Session(g) as session:
        await session.run(v.initializer)
        await session.run(y)
        (variable,) = session.resources.held(Variable)
        assert variable.acquire("another step")
        async with cancelled(session, y, metadata):
            pass
        variable.release()
    waits = [event for event in metadata.events if event.kind == "wait" and event.detail.get("node")]
    assert [event.name for event in waits] == ["variable 'weights', which another step writes"]
    assert waits[0].detail["unfinished"] is True


async def test_a_recv_from_a_device_that_waits_itself() -> None:
    """The path goes on to what the sender waited for."""
    g = fe.Graph()
    with g.device("/cpu:0"):
        taken = fe.negative(dequeue(g), name="late")
    with g.device("/cpu:1"):
        passed = fe.negative(taken, name="passed")
    with g.device("/cpu:2"):
        y = fe.negative(passed, name="y")
    metadata = fe.RunMetadata()
    async with (
        fe.Session(g, config=fe.Config(device_count={"CPU": 3})) as session,
        cancelled(session, y, metadata),
    ):
        pass
    received = unfinished(metadata, "recv")
    assert len(received) == 2
    for event in received.values():
        assert event.detail["waits_for"] == f"Recv of {event.detail['edge']} from {event.detail['from']}"
    by_edge = {event.detail["edge"]: event for event in received.values()}
    assert by_edge["late:0"].detail["from"].endswith("CPU:0")
    assert by_edge["passed:0"].detail["to"].endswith("CPU:2")
    assert [*unfinished(metadata, "async")] == ["take"]
    path = critical_path([event for event in metadata.events if event.kind != "wait"])
    assert any("take_queue" in part.name and part.kind == "wait" for part in path)
    assert '"ph": "f"' not in metadata.timeline()


@pytest.mark.parametrize("end", ["cancel", "timeout", "close"])
async def test_a_step_that_was_never_admitted(autojump_clock: trio.testing.MockClock, end: str) -> None:
    g = fe.Graph()
    taken, x = dequeue(g), g.placeholder("float32", [], name="x")
    y = fe.negative(x, name="y")
    metadata = fe.RunMetadata()
    session = fe.Session(g, config=fe.Config(max_steps=1))
    await session.__aenter__()
    async with trio.open_nursery() as nursery:

        async def hold() -> None:
            with contextlib.suppress(errors.CancelledError):
                await session.run(taken)

        async def wait() -> None:
            options = fe.RunOptions(trace="nodes", timeout_seconds=3.0 if end == "timeout" else None)
            with contextlib.suppress(errors.CancelledError, errors.DeadlineExceededError):
                await session.run(y, {"x:0": 1.0}, options=options, run_metadata=metadata)

        nursery.start_soon(hold)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(wait)
        await trio.sleep(5)
        if end == "close":
            await session.close()
        nursery.cancel_scope.cancel()
    await session.close()
    (event,) = metadata.events
    assert (event.kind, event.name, event.detail) == (
        "wait",
        "admission: other steps run",
        {"unfinished": True},
    )
    assert event.seconds == pytest.approx(3.0 if end == "timeout" else 5.0)
    assert metadata.admission_seconds == pytest.approx(event.seconds)


async def test_a_step_whose_turn_never_came(monkeypatch: pytest.MonkeyPatch) -> None:
    g = fe.Graph()
    y = fe.negative(g.placeholder("float32", [], name="x"), name="y")
    metadata = fe.RunMetadata()
    async with fe.Session(g) as session:
        await session.run(y, {"x:0": 1.0})
        turns: Any = SimpleNamespace(begin=trio.sleep_forever, line=SimpleNamespace(begins_until=-1.0))
        monkeypatch.setattr(session._runner, "_turns", turns)
        async with cancelled(session, y, metadata, feeds={"x:0": 1.0}):
            pass
    assert [*unfinished(metadata, "wait")] == ["turn to begin"]


async def test_a_step_whose_turn_came_late_has_waited_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    g = fe.Graph()
    y = fe.negative(g.placeholder("float32", [], name="x"), name="y")
    metadata, options = fe.RunMetadata(), fe.RunOptions(trace="nodes")
    async with fe.Session(g) as session:
        await session.run(y, {"x:0": 1.0})
        monkeypatch.setattr(session._runner.turns.line, "begins_until", -1.0)
        await session.run(y, {"x:0": 1.0}, options=options, run_metadata=metadata)
    (wait,) = [event for event in metadata.events if event.name == "turn to begin"]
    assert "unfinished" not in wait.detail
