"""Nothing of a step waits for the collector: what it held goes when it ends, however it ends."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

import flowengine as fe
from tests.garbage import no_garbage


def _graph(device: str) -> fe.Graph:
    g = fe.Graph()
    ops = g.ops
    queue = ops.FIFOQueueV2(component_types=["float32"], capacity=-1, name="queue", shared_name="q")
    ops.QueueEnqueueV2(queue, [g.placeholder("float32", [], name="e")], name="put")
    with g.device(device):
        x = ops.Fill([100_000], g.placeholder("float32", [], name="x"), name="fill")
        y = ops.Mul(x, 2.0)
    with g.control_dependencies([y]):
        late = ops.QueueDequeueV2(queue, component_types=["float32"], name="late")[0]
    ops.Add(y, late, name="sum")
    ops.Reshape(y, g.placeholder("int32", [None], name="shape"), name="bad")
    large = ops.Fill([300, 300], g.placeholder("float32", [], name="b"))
    product = large
    for _ in range(3):
        product = ops.MatMul(product, large)
    ops.Identity(product, name="product")
    ops.Reshape(product, g.tensor("shape:0"), name="bad_product")
    with g.control_dependencies([product]):
        ops.QueueDequeueV2(queue, component_types=["float32"], name="later")
    return g


async def _whole(session: fe.Session) -> None:
    await session.run("put", {"e:0": 1.0})
    await session.run("sum:0", {"x:0": 1.0})


async def _heavy(session: fe.Session) -> None:
    await session.run("product:0", {"b:0": 1.0})


async def _failed(session: fe.Session, fetch: str = "bad:0") -> None:
    try:
        await session.run(fetch, {"x:0": 1.0, "b:0": 1.0, "shape:0": [7]})
    except fe.errors.InvalidArgumentError:
        return
    raise AssertionError("it does not fail")


async def _cancelled(session: fe.Session, fetch: str = "sum:0") -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.run, fetch, {"x:0": 1.0, "b:0": 1.0})
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


_ENDS: dict[str, Callable[[fe.Session], Awaitable[None]]] = {
    "whole": _whole,
    "heavy": _heavy,
    "failed": _failed,
    "failed after a thread": partial(_failed, fetch="bad_product:0"),
    "cancelled": _cancelled,
    "cancelled with a thread": partial(_cancelled, fetch="later:0"),
}


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("end", _ENDS)
async def test_a_step_leaves_nothing(end: str, devices: int, counts: bool) -> None:
    config = fe.Config(
        device_count={"CPU": devices}, count_allocations=counts, compile_hot_plans=False, measure_costs=False
    )
    async with fe.Session(_graph(f"/cpu:{devices - 1}"), config=config) as session:
        await _ENDS[end](session)  # the plan is made, what is kept is there
        async with no_garbage():
            for _ in range(3):
                await _ENDS[end](session)


@pytest.mark.parametrize("devices", [1, 2])
async def test_a_step_that_is_late_leaves_nothing(devices: int, autojump_clock: Any) -> None:
    config = fe.Config(
        device_count={"CPU": devices}, worker_threads=False, compile_hot_plans=False, measure_costs=False
    )

    async def late(session: fe.Session) -> None:
        try:
            await session.run("sum:0", {"x:0": 1.0}, options=fe.RunOptions(timeout_seconds=1))
        except fe.errors.DeadlineExceededError:
            return
        raise AssertionError("it is not late")

    async with fe.Session(_graph(f"/cpu:{devices - 1}"), config=config) as session:
        await late(session)
        async with no_garbage():
            for _ in range(3):
                await late(session)


async def test_a_step_whose_session_is_closed_leaves_nothing_large() -> None:
    session = fe.Session(_graph(""), config=fe.Config(count_allocations=True))
    ledger: Any = session._runner.ledger

    async def step() -> None:
        try:
            await session.run("sum:0", {"x:0": 1.0})
        except fe.errors.CancelledError:
            return

    gc.disable()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(step)
            await trio.testing.wait_all_tasks_blocked()
            assert ledger.live >= 400_000
            await session.close()
        assert ledger.live < 100_000
    finally:
        gc.enable()
