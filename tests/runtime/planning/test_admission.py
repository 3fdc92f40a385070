"""How many steps of a session run, and how many wait."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

import flowengine as fe


def _waiting_graph() -> fe.Graph:
    """`get` waits for what `put` brings."""
    g = fe.Graph()
    queue = g.ops.FIFOQueueV2(component_types=["int32"], capacity=-1, name="queue")
    g.ops.QueueEnqueueV2(queue, [g.placeholder("int32", [], name="x")], name="put")
    g.ops.QueueDequeueV2(queue, component_types=["int32"], name="get")
    return g


async def test_more_than_may_run_wait_in_order_and_more_than_may_wait_are_refused() -> None:
    g = _waiting_graph()
    got: list[tuple[int, int]] = []
    async with fe.Session(g, config=fe.Config(max_steps=2, max_waiting_steps=2)) as session:
        other = fe.Session(g, resources=session.resources)

        async def step(number: int) -> None:
            got.append((number, int(await session.run("get:0"))))

        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(step, number)
                await wait_all_tasks_blocked()
            statistics = session.statistics()
            assert (statistics.running_steps, statistics.waiting_steps, statistics.refused) == (2, 2, 0)
            with pytest.raises(fe.errors.ResourceExhaustedError, match="max_steps=2, max_waiting_steps=2"):
                await session.run("get:0")
            call = session.make_callable("get")
            with pytest.raises(fe.errors.ResourceExhaustedError):
                await call()
            assert session.statistics().refused == 2
            for value in range(4):
                await other.run("put", {"x:0": value})
                await wait_all_tasks_blocked()
        assert got == [(number, number) for number in range(4)]
        assert (session.statistics().running_steps, session.statistics().waiting_steps) == (0, 0)
        await other.close()


async def test_waiting_counts_against_the_timeout_and_may_be_cancelled(autojump_clock: Any) -> None:
    async with fe.Session(_waiting_graph(), config=fe.Config(max_steps=1, worker_threads=False)) as session:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.run, "get:0")
            await wait_all_tasks_blocked()
            with pytest.raises(fe.errors.DeadlineExceededError, match=r"within 3 s"):
                await session.run("get:0", options=fe.RunOptions(timeout_seconds=3))
            with trio.move_on_after(1) as scope:
                await session.run("get:0")
            assert scope.cancelled_caught
            assert session.statistics().waiting_steps == 0
            nursery.cancel_scope.cancel()
        assert session.statistics().running_steps == 0
        began = trio.current_time()
        async with trio.open_nursery() as nursery:

            async def first() -> None:
                with trio.move_on_after(2):
                    await session.run("get:0")

            nursery.start_soon(first)
            await wait_all_tasks_blocked()
            with pytest.raises(fe.errors.DeadlineExceededError):
                await session.run("get:0", options=fe.RunOptions(timeout_seconds=5))
            assert trio.current_time() - began == pytest.approx(5), "waiting and running together"


async def test_who_waits_is_told_that_the_session_was_closed() -> None:
    session = fe.Session(_waiting_graph(), config=fe.Config(max_steps=1))
    async with trio.open_nursery() as nursery:

        async def step() -> None:
            with pytest.raises(fe.errors.CancelledError, match="was closed"):
                await session.run("get:0")

        nursery.start_soon(step)
        nursery.start_soon(step)
        await wait_all_tasks_blocked()
        await session.close()


def test_a_line_needs_an_end_of_the_steps_before_it() -> None:
    with pytest.raises(fe.errors.InvalidArgumentError, match="max_waiting_steps needs max_steps"):
        fe.Session(fe.Graph(), config=fe.Config(max_waiting_steps=3))
    for config in (fe.Config(max_steps=0), fe.Config(session_memory_bytes=0)):
        with pytest.raises(fe.errors.InvalidArgumentError, match="is 0: it must be a positive whole number"):
            fe.Session(fe.Graph(), config=config)


def test_statistics_of_a_blocking_session() -> None:
    g = fe.Graph()
    g.ops.Neg(g.placeholder("float32", [], name="y"), name="x")
    with fe.blocking.Session(g, config=fe.Config(count_allocations=True)) as session:
        session.run("x:0", {"y:0": 1.0})
        statistics = session.statistics()
        assert statistics.plans == 1
        assert statistics.limit_bytes is None
        assert (statistics.used_bytes or 0) > 0
    with fe.blocking.Session(g) as session:
        assert session.statistics().used_bytes is None, "nobody counts"
