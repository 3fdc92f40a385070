"""One `fe.asyncio.Session` under several event loops: in turn, at once, and one that ends early."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

import flowengine as fe


def graph() -> fe.Graph:
    """`y` doubles x; `take` waits for what `put` puts; `count` adds one to a variable."""
    g = fe.Graph()
    x = g.placeholder("float32", [2], name="x")
    g.ops.AddV2(x, x, name="y")
    queue = g.ops.FIFOQueueV2(component_types=["float32"], name="queue")
    g.ops.QueueDequeueV2(queue, component_types=["float32"], name="take")
    g.ops.QueueEnqueueV2(queue, [x], name="put")
    v = g.ops.VariableV2(shape=[], dtype="float32", name="v")
    g.group(g.ops.Assign(v, 0.0), name="init")
    g.ops.AssignAdd(v, 1.0, name="count")
    return g


FED = {"x:0": np.array([1.0, 2.0], np.float32)}


async def doubled(session: fe.asyncio.Session, times: int = 20) -> None:
    for _ in range(times):
        np.testing.assert_array_equal(await session.run("y:0", FED), [2, 4])


def test_one_loop_after_another() -> None:
    session = fe.asyncio.Session(graph())
    for _ in range(3):
        asyncio.run(doubled(session))
    asyncio.run(session.close())


def test_two_loops_at_once() -> None:
    session = fe.asyncio.Session(graph())
    failed: list[BaseException] = []

    async def count() -> None:
        for _ in range(200):
            await session.run("count:0")
        await doubled(session)

    def elsewhere() -> None:
        try:
            asyncio.run(count())
        except BaseException as error:
            failed.append(error)

    async def main() -> Any:
        await session.run([], targets=["init"])
        thread = threading.Thread(target=elsewhere)
        thread.start()
        await count()
        await asyncio.to_thread(thread.join)
        found = await session.run("v:0")
        await session.close()
        return found

    assert asyncio.run(main()) == 400
    assert not failed


def test_a_step_of_one_loop_wakes_a_step_of_another() -> None:
    session = fe.asyncio.Session(graph())
    waits = threading.Event()
    found: list[Any] = []

    async def take() -> None:
        step = asyncio.ensure_future(session.run("take:0"))
        await doubled(session, 1)  # the step has been handed to the session by then
        waits.set()
        found.append(await step)

    thread = threading.Thread(target=lambda: asyncio.run(take()))
    thread.start()
    assert waits.wait(30)

    async def put() -> None:
        await session.run([], FED, targets=["put"])
        await asyncio.to_thread(thread.join)
        await session.close()

    asyncio.run(put())
    np.testing.assert_array_equal(found[0], [1, 2])


@pytest.mark.parametrize("count", [1, 50])
def test_a_loop_that_ends_early_ends_its_waiting_steps(count: int) -> None:
    session = fe.asyncio.Session(graph())

    async def leave() -> list[asyncio.Task[Any]]:
        tasks = [asyncio.create_task(session.run("take:0")) for _ in range(count)]
        await doubled(session)
        assert not any(task.done() for task in tasks)
        return tasks  # the loop cancels them

    tasks = asyncio.run(leave())
    assert all(task.cancelled() for task in tasks)

    async def go_on() -> None:
        # No step that was left takes the element.
        await session.run([], FED, targets=["put"])
        np.testing.assert_array_equal(await session.run("take:0"), [1, 2])
        await doubled(session)
        assert session.statistics().running_steps == 0
        await session.close()

    asyncio.run(go_on())
