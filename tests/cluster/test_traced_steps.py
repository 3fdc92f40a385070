"""Steps over several tasks that are traced, or run under the guard, with clocks that show other times."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np
import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core import errors
from flowengine.ir.proto.step_stats_pb2 import RunMetadata as StepStatsProto
from flowengine.resources.variable import Variable
from flowengine.runtime.tracing.critical_path import critical_path
from flowengine.runtime.tracing.events import TraceEvent
from flowengine.runtime.tracing.joint_trace import JointTrace
from flowengine.runtime.tracing.timeline import read_timeline
from flowengine.testing.strategies import GraphCase, graphs
from tests.cluster.test_sessions import cluster
from tests.effort import examples
from tests.runtime.test_against_reference import check
from tests.tools.clusters import scatter

LEVELS = pytest.mark.parametrize("level", ["blocks", "nodes"])
Level = Literal["blocks", "nodes"]
TASKS = ["/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0", "/job:worker/task:1"]
#: By the order of the tasks: what their clocks show more than this process's.
OFFSETS = [12.5, -3.0, 1e4, 0.0]


def _shifted(offset: float) -> float:
    return perf_counter() + offset


@contextlib.asynccontextmanager
async def four_tasks(tmp_path: Path) -> AsyncIterator[tuple[dict[str, fe.Server], str]]:
    """Two parameter servers and two workers with clocks that are off, and a target of the first worker."""
    async with cluster(tmp_path, ps=2, worker=2) as (servers, query):
        for task, offset in zip(TASKS, OFFSETS, strict=True):
            servers[task].worker.followed.clock = partial(_shifted, offset)
        yield servers, servers["/job:worker/task:0"].target + query


def training_graph() -> fe.Graph:
    """Each worker multiplies by both variables; a parameter server adds what they have."""
    g = fe.Graph()
    x = g.placeholder("float32", [None, 8], name="x")
    weights = []
    for task in range(2):
        with g.device(f"/job:ps/task:{task}"):
            w = g.ops.VariableV2(shape=[8, 8], dtype="float32", name=f"w{task}")
            g.ops.Assign(w, g.constant(np.full((8, 8), 0.1 * (task + 1), np.float32)), name=f"init{task}")
            weights.append(w)
    made = []
    for task in range(2):
        with g.device(f"/job:worker/task:{task}"):
            hidden = g.ops.Tanh(g.ops.MatMul(x, weights[0]))
            made.append(g.ops.MatMul(hidden, weights[1], name=f"made{task}"))
    with g.device("/job:ps/task:1"):
        g.ops.Add(made[0], made[1], name="y")
    return g


X = {"x:0": np.ones((2, 8), np.float32)}


async def traced(
    session: fe.Session, fetches: Any, feeds: Any = None, level: Level = "nodes", **rest: Any
) -> tuple[Any, fe.RunMetadata]:
    metadata = fe.RunMetadata()
    options = fe.RunOptions(trace=level, **rest)
    return await session.run(fetches, feeds, options=options, run_metadata=metadata), metadata


def task_of(event: TraceEvent) -> str:
    return event.device.replace("/replica:0", "").partition("/device")[0]


def hold_together(metadata: fe.RunMetadata) -> None:
    """Slices of a thread nest, and each Recv ends after its Send, within the stated errors."""
    events, tasks = metadata.events, metadata.traced_tasks
    around: dict[tuple[str, str], list[TraceEvent]] = {}
    for event in events:
        assert 0 <= event.began <= event.ended
        if event.kind in {"turn", "kernel", "block", "body", "node"}:
            still = around.setdefault((event.device, event.thread), [])
            while still and still[-1].ended <= event.began + 1e-9:
                still.pop()
            assert not still or event.ended <= still[-1].ended + 1e-9, (event, still[-1])
            still.append(event)
    sends = {
        (each.detail["edge"], each.detail["to"], each.tag): each for each in events if each.kind == "send"
    }
    receives = [each for each in events if each.kind == "recv"]
    for each in receives:
        sent = sends[each.detail["edge"], each.device, each.tag]
        assert sent.detail["step"] == each.detail["step"]
        error = tasks[task_of(each)].clock_error + tasks[task_of(sent)].clock_error
        assert each.ended >= sent.began - error
    rows = json.loads(metadata.timeline())["traceEvents"]
    assert sum(1 for row in rows if row["ph"] == "f") == len(receives)


@LEVELS
async def test_a_step_over_two_parameter_servers_and_two_workers(tmp_path: Path, level: Level) -> None:
    async with (
        four_tasks(tmp_path) as (servers, target),
        fe.Session(training_graph(), target=target) as session,
    ):
        await session.run([], targets=["init0", "init1"])
        plain = await session.run("y:0", X)
        metadata = fe.RunMetadata()
        for _ in range(3):
            value, metadata = await traced(session, "y:0", X, level)
            assert np.array_equal(value, plain)
        hold_together(metadata)
        assert {task_of(event) for event in metadata.events} == set(TASKS)
        assert {each.outcome for each in metadata.traced_tasks.values()} == {"ended"}
        for task, offset in zip(TASKS, OFFSETS, strict=True):
            found = metadata.traced_tasks[task]
            assert abs(found.clock_offset - offset) <= found.clock_error + 1e-6
            assert found.events == sum(1 for event in metadata.events if task_of(event) == task)
            assert not servers[task].worker.followed
        assert sum(1 for event in metadata.events if event.kind == "recv") == 8
        assert {"Add", "block" if level == "blocks" else "Tanh"} <= {
            entry.name for entry in metadata.profile().entries
        }
        path = critical_path(metadata.events)
        end = max(event.ended for event in metadata.events)
        assert sum(part.seconds for part in path) == pytest.approx(end, rel=0.03)
        assert path[-1].device.startswith("/job:ps/replica:0/task:1") or path[-2].name == "y"
        assert any(part.name.startswith("Recv of") and " from /job:worker" in part.name for part in path)
        stats = StepStatsProto.FromString(metadata.step_stats())
        assert {each.device for each in stats.step_stats.dev_stats} == {e.device for e in metadata.events}
        text = metadata.timeline()
        assert json.loads(text)["otherData"]["tasks"].keys() == set(TASKS)
        assert len(read_timeline(text)) == len(metadata.events)
        assert metadata.items
        assert metadata.details.keys() == set(TASKS)


@pytest.mark.parametrize("offset", [-50.0, 50.0])
async def test_a_step_begins_by_the_clock_of_its_caller(tmp_path: Path, offset: float) -> None:
    """Whatever the clock of the master shows."""
    async with (
        four_tasks(tmp_path) as (servers, target),
        fe.Session(training_graph(), target=target) as session,
    ):
        servers["/job:worker/task:0"].worker.followed.clock = partial(_shifted, offset)
        await session.run([], targets=["init0", "init1"])
        before = perf_counter()
        _, metadata = await traced(session, "y:0", X)
        after = perf_counter()
        trace = metadata.trace
        assert isinstance(trace, JointTrace)
        assert max(event.ended for event in metadata.events) < after - before + 0.1
        assert before - 0.1 < trace.began < after


async def test_random_graphs_give_their_bits_and_nothing_is_left(tmp_path: Path) -> None:
    """The property runs within one cluster, because starting one for each graph would take a second."""
    async with four_tasks(tmp_path) as (servers, target):

        async def play(case: GraphCase, level: Level, seed: int) -> list[list[Any]]:
            graph = scatter(case.graph, [f"{task}/device:CPU:0" for task in TASKS], seed)
            found = []
            async with fe.Session(graph, target=target) as session:
                await session.run([], targets=case.setup)
                for fetches, feeds in case.runs:
                    metadata = fe.RunMetadata()
                    values = await session.run(
                        list(fetches),
                        feeds,
                        targets=case.targets,
                        options=fe.RunOptions(trace=level),
                        run_metadata=metadata,
                    )
                    found.append(list(values))
                    hold_together(metadata)
                await session.reset([])
            return found

        @settings(max_examples=examples(100))
        @given(case=graphs(), level=st.sampled_from(["blocks", "nodes"]), seed=st.integers(0, 9))
        def each(case: GraphCase, level: Level, seed: int) -> None:
            check(case, trio.from_thread.run(play, case, level, seed))

        await trio.to_thread.run_sync(each)
        assert not any(server.worker.followed for server in servers.values())


async def test_a_failed_step_has_the_part_that_ran(tmp_path: Path) -> None:
    g = fe.Graph()
    x = g.placeholder("int32", [], name="x")
    with g.device("/job:worker/task:1"):
        y = g.ops.Neg(x, name="y")
    with g.device("/job:ps/task:0"):
        g.ops.FloorDiv(g.constant(np.int32(1)), y, name="quotient")
    async with four_tasks(tmp_path) as (servers, target), fe.Session(g, target=target) as session:
        metadata = fe.RunMetadata()
        with pytest.raises(errors.InvalidArgumentError, match="quotient"):
            await session.run(
                "quotient:0", {"x:0": 0}, options=fe.RunOptions(trace="nodes"), run_metadata=metadata
            )
        tasks = metadata.traced_tasks
        assert tasks["/job:ps/task:0"].outcome.startswith("failed: ")
        assert tasks["/job:worker/task:1"].outcome == "ended"
        by_name = {event.name: event for event in metadata.events if event.kind == "kernel"}
        assert by_name["y"].device.startswith("/job:worker")
        assert by_name["quotient"].detail["error"]
        assert not any(server.worker.followed for server in servers.values())


def waiting_graph() -> fe.Graph:
    """`late` adds what a queue at a parameter server gives to what a worker has."""
    g = fe.Graph()
    with g.device("/job:ps/task:1"):
        queue = g.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], name="slow", shared_name="slow")
        g.ops.QueueEnqueueV2(queue, [g.placeholder("float32", [], name="put")], name="enqueue")
        item = g.ops.QueueDequeueV2(queue, component_types=["float32"], name="item")[0]
    with g.device("/job:worker/task:1"):
        quick = g.ops.Neg(g.placeholder("float32", [], name="x"), name="quick")
        g.ops.Add(item, quick, name="late")
    return g


@pytest.mark.parametrize("ends_by", ["cancel", "timeout"])
async def test_a_cancelled_step_has_the_part_that_ran(tmp_path: Path, ends_by: str) -> None:
    async with (
        four_tasks(tmp_path) as (servers, target),
        fe.Session(waiting_graph(), target=target) as session,
    ):
        metadata = fe.RunMetadata()
        began = trio.Event()

        async def step(seconds: float | None) -> None:
            options = fe.RunOptions(trace="blocks", timeout_seconds=seconds)
            began.set()
            await session.run("late:0", {"x:0": 1.0}, options=options, run_metadata=metadata)

        if ends_by == "timeout":
            with pytest.raises(errors.DeadlineExceededError):
                await step(0.5)
        else:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(step, None)
                await began.wait()
                while not servers["/job:ps/task:1"].worker.steps_running:
                    await trio.lowlevel.checkpoint()
                await trio.testing.wait_all_tasks_blocked(0.01)
                nursery.cancel_scope.cancel()
        outcomes = {task: part.outcome for task, part in metadata.traced_tasks.items()}
        assert outcomes == dict.fromkeys(["/job:ps/task:1", "/job:worker/task:1"], "cancelled")
        assert "quick" in {event.name for event in metadata.events if event.kind == "kernel"}
        waits = [event for event in metadata.events if event.kind in {"wait", "async"}]
        assert any("slow" in event.name + str(event.detail) for event in waits)
        unfinished = {event.name: event for event in metadata.events if "unfinished" in event.detail}
        (received,) = (event for event in unfinished.values() if event.kind == "recv")
        assert received.device.startswith("/job:worker/replica:0/task:1")
        assert received.detail["waits_for"] == "Recv of item:0 from /job:ps/replica:0/task:1/device:CPU:0"
        assert "slow" in unfinished["item"].detail["waits_for"]
        longest = max(critical_path(metadata.events), key=lambda part: part.seconds)
        assert longest.kind == "wait"
        assert "slow" in longest.name or "Recv of item:0" in longest.name
        assert not any(server.worker.followed for server in servers.values())


async def test_a_slow_queue_at_another_task_is_the_reason(tmp_path: Path) -> None:
    async with four_tasks(tmp_path) as (_, target), fe.Session(waiting_graph(), target=target) as session:
        for _ in range(2):
            await session.run([], {"put:0": 1.0}, targets=["enqueue"])
            await session.run("late:0", {"x:0": 1.0})
        found: list[fe.RunMetadata] = []

        async def late() -> None:
            found.append((await traced(session, "late:0", {"x:0": 1.0}, "blocks"))[1])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(late)
            await trio.sleep(0.2)
            await session.run([], {"put:0": 1.0}, targets=["enqueue"])
        longest = max(critical_path(found[0].events), key=lambda part: part.seconds)
        assert longest.seconds > 0.1
        assert longest.kind == "wait"
        assert "'slow'" in longest.name
        assert longest.device.startswith("/job:ps/replica:0/task:1")


async def test_a_held_variable_at_another_task_is_the_reason(tmp_path: Path) -> None:
    async with (
        four_tasks(tmp_path) as (servers, target),
        fe.Session(training_graph(), target=target) as session,
    ):
        await session.run([], targets=["init0", "init1"])
        for _ in range(3):
            await session.run("y:0", X)
        (held,) = servers["/job:ps/task:1"].worker.resources.held(Variable)
        assert held.acquire("another step")
        found: list[fe.RunMetadata] = []

        async def late() -> None:
            found.append((await traced(session, "y:0", X))[1])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(late)
            await trio.sleep(0.2)
            held.release()
        longest = max(critical_path(found[0].events), key=lambda part: part.seconds)
        assert longest.seconds > 0.1
        assert (longest.kind, longest.name) == ("wait", "variable 'w1', which another step writes")
        assert longest.device.startswith("/job:ps/replica:0/task:1")


async def test_a_late_task_is_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        four_tasks(tmp_path) as (servers, target),
        fe.Session(training_graph(), target=target) as session,
    ):
        await session.run([], targets=["init0", "init1"])
        for _ in range(3):
            await session.run("y:0", X)
        late = servers["/job:worker/task:1"].worker
        begin = late.begin

        class Later:
            def cancel(self) -> None:
                return

        def begin_late(*arguments: Any) -> Any:
            async def wait() -> None:
                await trio.sleep(0.2)
                begin(*arguments)

            assert late.parts.nursery is not None
            late.parts.nursery.start_soon(wait)
            return Later()

        monkeypatch.setattr(late, "begin", begin_late)
        _, metadata = await traced(session, "y:0", X)
        longest = max(critical_path(metadata.events), key=lambda part: part.seconds)
        assert longest.seconds > 0.1
        assert longest.name == "before the first node" or "/job:worker/replica:0/task:1" in longest.device
        assert longest.device.startswith("/job:worker/replica:0/task:1")


async def test_events_beyond_the_bound_are_counted(tmp_path: Path) -> None:
    async with four_tasks(tmp_path) as (_, target), fe.Session(training_graph(), target=target) as session:
        await session.run([], targets=["init0", "init1"])
        _, whole = await traced(session, "y:0", X)
        _, metadata = await traced(session, "y:0", X, trace_events=10)
        assert len(metadata.events) == 10
        assert metadata.dropped_events
        assert len(whole.events) > 10
        with pytest.raises(errors.InvalidArgumentError, match=r"run_metadata=fe\.RunMetadata"):
            await session.run("y:0", X, options=fe.RunOptions(trace="nodes"))


async def test_a_step_of_nothing_is_the_first(tmp_path: Path) -> None:
    """No task takes part in it, so none needs to hear of its end."""
    async with four_tasks(tmp_path) as (_, target), fe.Session(training_graph(), target=target) as session:
        assert await session.run([]) == []
        _, metadata = await traced(session, [])
        assert metadata.events == ()


async def test_lines_are_those_of_the_client(tmp_path: Path) -> None:
    async with four_tasks(tmp_path) as (_, target), fe.Session(training_graph(), target=target) as session:
        await session.run([], targets=["init0", "init1"])
        _, metadata = await traced(session, "y:0", X)
        (line,) = {event.line for event in metadata.events if event.name == "Tanh_1"}
        assert "test_traced_steps.py" in line
        assert line in {entry.name for entry in metadata.profile("line").entries}


async def test_a_lost_task_says_so(tmp_path: Path) -> None:
    async with (
        four_tasks(tmp_path) as (servers, target),
        fe.Session(waiting_graph(), target=target) as session,
    ):
        metadata = fe.RunMetadata()
        lost = servers["/job:ps/task:1"]

        async def lose() -> None:
            while not (lost.worker.steps_running and servers["/job:worker/task:1"].worker.steps_running):
                await trio.lowlevel.checkpoint()
            await trio.testing.wait_all_tasks_blocked(0.01)
            for peer in [lost.links.open_peer(task) for task in TASKS]:
                if peer is not None:
                    await peer.aclose()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(lose)
            options = fe.RunOptions(trace="nodes")
            with pytest.raises(errors.UnavailableError):
                await session.run("late:0", {"x:0": 1.0}, options=options, run_metadata=metadata)
        assert metadata.traced_tasks["/job:ps/task:1"].outcome.startswith("lost: ")
        assert metadata.traced_tasks["/job:worker/task:1"].events
        assert "quick" in {event.name for event in metadata.events}
        # The task forgets the part when it learns that its master is gone.
        assert not lost.worker.followed
