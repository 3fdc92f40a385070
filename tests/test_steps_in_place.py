"""Steps that need no waiting run in the thread that calls a façade, and all others in the portal."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import trio
from hypothesis import given

import flowengine as fe
from flowengine.resources.variable import Variable
from flowengine.runtime.in_place import attempt
from flowengine.runtime.planning import tiers
from flowengine.testing.control import while_loop
from flowengine.testing.strategies import GraphCase, graphs
from tests.steps_in_place import ADD, INIT, SETTLED, counters, in_place, squares, starts

# -- which way a step goes --------------------------------------------------------------------------


def test_a_blocking_step_crosses_no_thread() -> None:
    with fe.blocking.Session(squares()) as session:
        call = session.make_callable("y", ["x"])
        for _ in range(SETTLED):
            session.run("y:0", {"x:0": 2.0})
            call(2.0)
        assert in_place(session, lambda: session.run("y:0", {"x:0": 3.0})) == 9
        assert in_place(session, lambda: session.run({"y": "y:0"}, {"x:0": 3.0})) == {"y": 9}
        assert in_place(session, lambda: call(4.0)) == 16


@pytest.mark.parametrize("door", [fe.asyncio.Session, fe.anyio.Session])
def test_an_asyncio_step_crosses_no_thread(door: Any) -> None:
    async def main() -> None:
        async with door(squares()) as session:
            call = session.make_callable("y", ["x"])
            for _ in range(SETTLED):
                await session.run("y:0", {"x:0": 2.0})
                await call(2.0)
            inner = session._session if door is fe.anyio.Session else session
            steps: list[tuple[Callable[[], Any], float]] = [
                (lambda: session.run("y:0", {"x:0": 3.0}), 9),
                (lambda: call(4.0), 16),
            ]
            for step, want in steps:
                for _ in range(200):
                    with starts(inner) as seen:
                        assert await step() == want
                    if not seen:
                        break
                else:
                    raise AssertionError("no step ran in place")

    asyncio.run(main())


def queue_size() -> fe.Graph:
    graph = fe.Graph()
    queue = graph.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], name="queue")
    graph.ops.QueueSizeV2(queue, name="y")
    return graph


def table_size() -> fe.Graph:
    graph = fe.Graph()
    table = graph.ops.MutableHashTableV2(key_dtype="int64", value_dtype="int64", name="table")
    graph.ops.LookupTableSizeV2(table, name="y")
    return graph


def host_function() -> fe.Graph:
    graph = fe.Graph()
    graph.ops.Identity(graph.call(lambda: np.float32(1), [], "float32"), name="y")
    return graph


def file_read() -> fe.Graph:
    graph = fe.Graph()
    graph.ops.MatchingFiles("/nonexistent/*", name="y")
    return graph


def iterator() -> fe.Graph:
    graph = fe.Graph()
    ops = graph.ops
    shapes: dict[str, Any] = {"output_types": ["int64"], "output_shapes": [[]]}
    made = ops.IteratorV2(shared_name="", container="", **shapes, name="y")
    assert made is not None
    return graph


def enqueued() -> fe.Graph:
    graph = fe.Graph()
    queue = graph.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], name="queue")
    with graph.control_dependencies([graph.ops.QueueEnqueueV2(queue, [graph.constant(1.0)])]):
        graph.ops.NoOp(name="y")
    return graph


@pytest.mark.parametrize("make", [queue_size, table_size, host_function, file_read, iterator, enqueued])
def test_what_may_wait_or_wake_others_runs_in_the_portal(make: Callable[[], fe.Graph]) -> None:
    with fe.blocking.Session(make()) as session:
        for _ in range(SETTLED):
            session.run([], targets=["y"])
        with starts(session) as seen:
            session.run([], targets=["y"])
        assert len(seen) == 1


def test_options_metadata_bounds_and_counting_go_to_the_portal() -> None:
    with fe.blocking.Session(squares()) as session:
        for _ in range(SETTLED):
            session.run("y:0", {"x:0": 2.0})
        with starts(session) as seen:
            session.run("y:0", {"x:0": 2.0}, options=fe.RunOptions(timeout_seconds=60))
            session.run("y:0", {"x:0": 2.0}, run_metadata=fe.RunMetadata())
        assert len(seen) == 2
    for config in (fe.Config(max_steps=1), fe.Config(count_allocations=True)):
        with fe.blocking.Session(squares(), config=config) as session:
            for _ in range(SETTLED):
                session.run("y:0", {"x:0": 2.0})
            with starts(session) as seen:
                session.run("y:0", {"x:0": 2.0})
            assert len(seen) == 1


# -- what goes on in the portal ---------------------------------------------------------------------


def test_a_step_that_takes_long_goes_on_in_the_portal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "STAY_SECONDS", 0.0)
    graph = fe.Graph()
    ops = graph.ops
    count = graph.placeholder("int32", [], name="count")
    zero = ops.Identity(ops.Sub(count, count))
    _, total = while_loop(
        graph,
        lambda i, t, n: ops.Less(i, n),
        lambda i, t, n: [ops.Add(i, 1), ops.Add(t, i)],
        [zero, zero],
        invariants=[count],
    )
    ops.Identity(total, name="total")
    with fe.blocking.Session(graph) as session:
        for _ in range(SETTLED):
            assert session.run("total:0", {"count:0": 10}) == 45
        assert in_place(session, lambda: session.run("total:0", {"count:0": 10})) == 45
        with starts(session) as seen:
            assert session.run("total:0", {"count:0": 40_000}) == sum(range(40_000))
        assert len(seen) == 1
        assert session.statistics().running_steps == 0


def test_a_heavy_kernel_goes_to_the_portal() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", None, name="x")
    graph.ops.MatMul(x, x, name="y")
    with fe.blocking.Session(graph) as session:
        small, large = np.eye(2, dtype=np.float32), np.eye(700, dtype=np.float32)
        for _ in range(SETTLED):
            session.run("y:0", {"x:0": large})
        for _ in range(3):
            np.testing.assert_array_equal(session.run("y:0", {"x:0": large}), large)
            np.testing.assert_array_equal(session.run("y:0", {"x:0": small}), small)
        assert session.statistics().running_steps == 0


def test_a_step_waits_in_the_portal_for_a_variable_that_a_thread_writes() -> None:
    with fe.blocking.Session(counters()) as session:
        session.run([], targets=INIT)
        for _ in range(SETTLED):
            session.run([], {"by:0": 1.0}, targets=ADD)
        (variable,) = [each for each in session._session.resources.held(Variable) if each.name == "a"]
        portal = session._portal
        assert portal is not None
        assert portal.call(trio.lowlevel.checkpoint) is None
        held, released = threading.Event(), threading.Event()

        def hold() -> None:
            assert variable.acquire("somebody")
            held.set()

        portal.post(hold)
        held.wait()
        got: list[Any] = []

        def add() -> None:
            got.append(session.run("a/add:0", {"by:0": 1.0}, targets=ADD))
            released.set()

        waiting = threading.Thread(target=add)
        # It begins in place or in the portal, finds the variable held, and waits there.
        waiting.start()
        while not variable._parked:
            pass
        assert not released.is_set()
        portal.post(variable.release)
        waiting.join(60)
        assert got == [SETTLED + 1]
        assert session.run("b/read:0") == SETTLED + 1


# -- many at a time ---------------------------------------------------------------------------------


def test_threads_and_event_loops_lose_no_update() -> None:
    each, loops = 150, 2
    interval = sys.getswitchinterval()
    failures: list[BaseException] = []
    with fe.blocking.Session(counters()) as session:
        session.run([], targets=INIT)
        other = fe.asyncio.Session(session.graph)
        other._session, other._portal, own = session._session, session._portal, other._portal

        def in_thread() -> None:
            try:
                for _ in range(each):
                    session.run([], {"by:0": 1.0}, targets=ADD)
            except BaseException as error:
                failures.append(error)

        async def task() -> None:
            for _ in range(each // 10):
                await other.run([], {"by:0": 1.0}, targets=ADD)

        async def tasks() -> None:
            await asyncio.gather(*(task() for _ in range(10)))

        def in_loop() -> None:
            try:
                asyncio.run(tasks())
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=in_thread) for _ in range(4)]
        threads += [threading.Thread(target=in_loop) for _ in range(loops)]
        sys.setswitchinterval(1e-6)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(120)
        finally:
            sys.setswitchinterval(interval)
        assert not failures
        assert not any(thread.is_alive() for thread in threads)
        total = 4 * each + loops * each
        assert session.run(["a/read:0", "b/read:0"]) == [total, total]
        assert session.statistics().running_steps == 0
        assert own is not None
        other._portal = None
        own.close()


def test_a_thousand_tasks_leave_the_loop_its_passes() -> None:
    """Of those that run steps for ever only a few do so between two passes of the loop."""

    async def main() -> list[int]:
        async with fe.asyncio.Session(squares()) as session:
            for _ in range(SETTLED):
                await session.run("y:0", {"x:0": 2.0})
            ran, is_over = 0, False

            async def quick() -> None:
                nonlocal ran
                while not is_over:
                    await session.run("y:0", {"x:0": 2.0})
                    ran += 1

            tasks = [asyncio.create_task(quick()) for _ in range(1000)]
            await asyncio.sleep(0)
            between: list[int] = []
            while ran < 3000:
                before = ran
                await asyncio.sleep(0)
                between.append(ran - before)
            is_over = True
            await asyncio.gather(*tasks)
            return between

    assert max(asyncio.run(main())) < 300


@given(graphs())
def test_random_graphs_give_the_same_through_each_door(case: GraphCase) -> None:
    config = fe.Config(compile_hot_plans=False)

    async def steps(session: Any) -> list[Any]:
        await session.run([], targets=case.setup)
        return [
            [await session.run(list(fetches), feeds, targets=case.targets) for _ in range(2)]
            for fetches, feeds in case.runs
        ]

    async def in_trio() -> list[Any]:
        async with fe.Session(case.graph, config=config) as session:
            return await steps(session)

    async def in_asyncio() -> list[Any]:
        async with fe.asyncio.Session(case.graph, config=config) as session:
            return await steps(session)

    with fe.blocking.Session(case.graph, config=config) as session:
        session.run([], targets=case.setup)
        blocking = [
            [session.run(list(fetches), feeds, targets=case.targets) for _ in range(2)]
            for fetches, feeds in case.runs
        ]
    want = trio.run(in_trio)
    np.testing.assert_equal(blocking, want)
    np.testing.assert_equal(asyncio.run(in_asyncio()), want)


assert tiers.HOT_RUNS < SETTLED
