"""A step may be cancelled anywhere: nothing is lost but what was in the air, and the next step is right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.testing.control import while_loop
from flowengine.testing.strategies import GraphCase, graphs

ELEMENTS = 6


def transfer_graph() -> fe.Graph:
    """Moves numbers from one queue to another, one an iteration, and counts in two variables."""
    g = fe.Graph()
    ops = g.ops
    source = ops.FIFOQueueV2(component_types=["int32"], shapes=[[]], shared_name="source", name="source")
    sink = ops.FIFOQueueV2(
        component_types=["int32"], shapes=[[]], capacity=100, shared_name="sink", name="sink"
    )
    ops.QueueEnqueueManyV2(source, [g.placeholder("int32", [None], name="numbers")], name="fill")
    ops.QueueSizeV2(source, name="source_size")
    ops.QueueSizeV2(sink, name="sink_size")
    ops.QueueDequeueUpToV2(
        sink, g.placeholder("int32", [], name="many"), component_types=["int32"], name="drain"
    )
    begun = ops.VariableV2(dtype="int32", shape=[], name="begun")
    ended = ops.VariableV2(dtype="int32", shape=[], name="ended")
    with g.name_scope("init"):
        g.group(ops.Assign(begun, 0), ops.Assign(ended, 0), name="all")
    ops.Identity(begun, name="begun/read")
    ops.Identity(ended, name="ended/read")
    start = ops.Identity(ops.AssignAdd(begun, 1))
    with g.control_dependencies([start]):
        zero = g.constant(0)
    count = g.placeholder("int32", [], name="count")

    def body(i: Any, total: Any, source: Any, sink: Any, _: Any) -> list[Any]:
        number = ops.QueueDequeueV2(source, component_types=["int32"])[0]
        with g.control_dependencies([ops.QueueEnqueueV2(sink, [number])]):
            return [ops.Add(i, 1), ops.Add(total, number)]

    _, total = while_loop(
        g, lambda i, *rest: ops.Less(i, rest[-1]), body, [zero, zero], invariants=[source, sink, count]
    )
    with g.control_dependencies([total]):
        ops.AssignAdd(ended, 1, name="finish")
    ops.Identity(total, name="total")
    return g


async def cancelled_after(checkpoints: int, step: Any) -> bool:
    """Run a coroutine function and cancel it when the host has been scheduled so often. Whether it was."""
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def cancel() -> None:
                for _ in range(checkpoints):
                    await trio.lowlevel.checkpoint()
                scope.cancel()

            nursery.start_soon(cancel)
            await step()
            nursery.cancel_scope.cancel()
    return scope.cancelled_caught


async def play_transfer(checkpoints: int) -> bool:
    async with fe.Session(transfer_graph()) as session:
        await session.run([], targets=["init/all"])
        numbers = np.arange(ELEMENTS, dtype=np.int32)

        async def feed() -> None:
            # One at a time, so that the step waits again and again.
            for number in numbers:
                await session.run([], {"numbers:0": [number]}, targets=["fill"])
                for _ in range(3):
                    await trio.lowlevel.checkpoint()

        async def step() -> None:
            await session.run("total:0", {"count:0": ELEMENTS}, targets=["finish"])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(feed)
            was_cancelled = await cancelled_after(checkpoints, step)

        left, moved, begun, ended = await session.run(
            ["source_size:0", "sink_size:0", "begun/read:0", "ended/read:0"]
        )
        assert ended == (0 if was_cancelled else 1)
        assert begun in ((0, 1) if was_cancelled else (1,))
        # A number that a Dequeue had taken when the step ended may be gone, no other.
        assert ELEMENTS - 1 <= left + moved <= ELEMENTS
        assert list(await session.run("drain:0", {"many:0": moved})) == list(range(moved))

        rest = list(range(ELEMENTS - left, ELEMENTS))
        total = await session.run("total:0", {"count:0": left}, targets=["finish"])
        assert total == sum(rest)
        assert list(await session.run("drain:0", {"many:0": left})) == rest
        assert await session.run("ended/read:0") == ended + 1
        return was_cancelled


async def test_a_step_that_waits_on_queues_can_be_cancelled_at_every_checkpoint() -> None:
    checkpoints = 0
    while await play_transfer(checkpoints):
        checkpoints += 1
    assert checkpoints > 2 * ELEMENTS, "the step ended before it could be cancelled in the middle"


def heavy_graph() -> fe.Graph:
    """A step with kernels on worker threads, one of which writes a variable."""
    g = fe.Graph()
    ops = g.ops
    w = ops.VariableV2(dtype="float32", shape=[300, 300], name="w")
    ops.Assign(w, np.eye(300, dtype=np.float32), name="init")
    ops.Identity(w, name="read")
    x = g.placeholder("float32", [300, 300], name="x")
    product = x
    for _ in range(6):
        product = ops.MatMul(product, w)
    ops.Identity(ops.AssignAdd(w, product), name="update")
    return g


async def test_a_step_with_work_on_threads_can_be_cancelled_at_every_checkpoint() -> None:
    ones = np.ones((300, 300), np.float32)
    async with fe.Session(heavy_graph()) as session:
        for checkpoints in range(60):
            await session.run([], targets=["init"])

            async def step() -> None:
                await session.run("update:0", {"x:0": ones})

            was_cancelled = await cancelled_after(checkpoints, step)
            after = await session.run("read:0")
            untouched = np.eye(300, dtype=np.float32)
            if was_cancelled:
                # All or nothing: a kernel that has begun to write is waited for.
                assert np.array_equal(after, untouched) or np.array_equal(after, untouched + 1)
            else:
                assert np.array_equal(after, untouched + 1)
            await session.run([], targets=["init"])
            assert np.array_equal(await session.run("update:0", {"x:0": ones}), untouched + 1)


@given(graphs(runs=1), st.integers(0, 4))
def test_random_graphs_give_the_same_after_a_cancelled_step(case: GraphCase, checkpoints: int) -> None:
    """Cancelling a step changes nothing but by its effects, which the setup undoes before the next step."""

    async def main() -> None:
        fetches, feeds = case.runs[0]
        async with fe.Session(case.graph) as session:
            await session.run([], targets=case.setup)
            want = await session.run(list(fetches), feeds, targets=case.targets)
            await session.run([], targets=case.setup)

            async def step() -> None:
                await trio.lowlevel.checkpoint()
                await session.run(list(fetches), feeds, targets=case.targets)

            await cancelled_after(checkpoints, step)
            await session.run([], targets=case.setup)
            got = await session.run(list(fetches), feeds, targets=case.targets)
            for a, b in zip(got, want, strict=True):
                np.testing.assert_array_equal(a, b)

    trio.run(main)


async def test_close_ends_running_steps_with_cancelled_error() -> None:
    session = fe.Session(transfer_graph())
    await session.run([], targets=["init/all"])

    async def wait_for_numbers() -> None:
        with pytest.raises(fe.errors.CancelledError):
            await session.run("total:0", {"count:0": 3})

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(wait_for_numbers)
        await trio.testing.wait_all_tasks_blocked()
        await session.close()


@pytest.mark.parametrize("devices", [1, 2])
async def test_a_step_that_the_end_of_its_session_overtakes_is_told_whatever_the_moment(devices: int) -> None:
    """While it is planned, waits for its turn, is in several parts, or waits for what nobody brings."""
    g = fe.Graph()
    queue = g.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], name="queue")
    waited = g.ops.QueueDequeueV2(queue, component_types=["float32"], name="get")[0]
    with g.device(f"/device:CPU:{devices - 1}"):
        g.ops.Neg(waited, name="y")
    told: list[str] = []

    async def step(session: fe.Session) -> None:
        try:
            await session.run("y:0")
        except fe.errors.OpError as error:
            told.append(f"{type(error).__name__}: {error.message}")

    for turns in [*range(12), 100] * 3:
        session = fe.Session(g, config=fe.Config(device_count={"CPU": devices}))
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(step, session)
                for _ in range(turns):
                    await trio.lowlevel.checkpoint()
                await session.close()
        assert session.statistics().running_steps == 0
    closed = "CancelledError: the session was closed while this step was running"
    assert len(told) == 3 * 3 * 13
    assert closed in told
    assert set(told) <= {closed, "FailedPreconditionError: this session is closed: open another"}
