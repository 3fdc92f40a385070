"""A step that is one dequeue, cancelled at any moment, has its element or has left it: put = got + left."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
import trio
import trio.lowlevel
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe

_ELEMENTS = 40


def _graph(device: str = "") -> fe.Graph:
    g = fe.Graph()
    with g.device(device):
        queue = g.ops.FIFOQueueV2(
            component_types=["int32"], shapes=[[]], capacity=-1, shared_name="q", name="q"
        )
        g.ops.QueueEnqueueV2(queue, [g.placeholder("int32", [], name="x")], name="put")
        g.ops.QueueDequeueV2(queue, component_types=["int32"], name="get")
        g.ops.QueueDequeueManyV2(queue, 2, component_types=["int32"], name="get_two")
        g.ops.QueueSizeV2(queue, name="size")
    return g


async def _play(
    session: fe.Session, moments: Callable[[], int], take: Callable[[], Awaitable[Any]]
) -> list[int]:
    """Put elements, take them with a consumer that is cancelled again and again; what it got."""
    got: list[int] = []
    is_over = False

    async def produce() -> None:
        for number in range(_ELEMENTS):
            await session.run("put", {"x:0": number})
            for _ in range(moments()):
                await trio.lowlevel.checkpoint()

    async def consume() -> None:
        while not is_over:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:

                    async def cancel(scope: trio.CancelScope = scope) -> None:
                        for _ in range(moments()):
                            await trio.lowlevel.checkpoint()
                        scope.cancel()

                    nursery.start_soon(cancel)
                    taken = np.ravel(await take())
                    got.extend(int(each) for each in taken)
                    nursery.cancel_scope.cancel()
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(consume)
        await produce()
        for _ in range(20):
            await trio.lowlevel.checkpoint()
        is_over = True
        nursery.cancel_scope.cancel()
    return got


@given(st.integers(0, 2**32), st.sampled_from(["get:0", "get_two:0"]))
async def test_nothing_is_lost(seed: int, fetch: str) -> None:
    drawn = random.Random(seed)
    async with fe.Session(_graph()) as session:
        got = await _play(session, lambda: drawn.randrange(8), lambda: session.run(fetch))
        left = int(await session.run("size:0"))
        assert len(got) + left == _ELEMENTS
        assert got == list(range(len(got))), "and in order"


async def test_nothing_is_lost_on_two_devices() -> None:
    g = _graph("/cpu:1")
    drawn = random.Random(7)
    async with fe.Session(g, config=fe.Config(device_count={"CPU": 2})) as session:
        with g.device("/cpu:0"):
            g.ops.NoOp(name="elsewhere")

        def take() -> Awaitable[Any]:
            return session.run("get:0", targets=["elsewhere"])

        got = await _play(session, lambda: drawn.randrange(12), take)
        assert len(got) + int(await session.run("size:0")) == _ELEMENTS


async def test_nothing_is_lost_to_a_timeout(autojump_clock: Any) -> None:
    async with fe.Session(_graph(), config=fe.Config(worker_threads=False)) as session:
        got: list[int] = []

        async def consume() -> None:
            while True:
                try:
                    got.append(int(await session.run("get:0", options=fe.RunOptions(timeout_seconds=1.0))))
                except fe.errors.DeadlineExceededError:
                    await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(consume)
            for number in range(_ELEMENTS):
                await trio.sleep(0.5)  # each second one comes when the time of a dequeue is over
                await session.run("put", {"x:0": number})
            await trio.sleep(3)
            nursery.cancel_scope.cancel()
        assert len(got) + int(await session.run("size:0")) == _ELEMENTS


async def test_a_step_that_has_more_to_do_is_cancelled_all_the_same() -> None:
    g = _graph()
    first = g.ops.QueueDequeueV2(g.tensor("q:0"), component_types=["int32"], name="first")[0]
    with g.control_dependencies([first]):
        g.ops.QueueDequeueV2(g.tensor("q:0"), component_types=["int32"], name="second")
    async with fe.Session(g) as session:
        await session.run("put", {"x:0": 1})
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.run, "second:0")
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        assert scope.cancelled_caught
        assert await session.run("size:0") == 0


@pytest.mark.parametrize("postpones", [True, False])
def test_asyncio_gives_a_value_that_was_there_where_it_may(
    monkeypatch: pytest.MonkeyPatch, postpones: bool
) -> None:
    monkeypatch.setattr(fe.asyncio, "_POSTPONES", postpones)
    seen: list[Any] = []

    async def main() -> None:
        async with fe.asyncio.Session(_graph()) as session:

            async def take() -> None:
                seen.append(await session.run("get:0"))
                await asyncio.sleep(0)
                seen.append("went on")

            task = asyncio.create_task(take())
            await asyncio.sleep(0)
            # The loop stands from here on: the value has come when the cancellation does.
            portal = session._open()
            while not session.statistics().running_steps:
                portal.call(trio.lowlevel.checkpoint)
            portal.call(lambda: session._session.run("put", {"x:0": 5}))
            while session.statistics().running_steps:
                portal.call(trio.lowlevel.checkpoint)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()

    asyncio.run(main())
    assert seen == ([5] if postpones else [])
