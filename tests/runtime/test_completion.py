"""Values that leave a device with streams of its own are awaited: the event loop goes on meanwhile."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.devices.device import DeviceRegistry, StreamDevice
from flowengine.devices.load import DEVICES
from flowengine.devices.ordering import StreamEvent
from flowengine.runtime.streams.completion import wait_reached
from tests.tools.simulated_gpu import SimulatedGpu

NAME = "/job:localhost/replica:0/task:0/device:GPU:0"
#: Long after the test has failed.
_FOREVER_SECONDS = 60


class SlowGpu(SimulatedGpu):
    """A device whose work is not done before the event loop has gone on: whoever stands still on it fails."""

    def __init__(self, **options: Any) -> None:
        super().__init__(NAME, **options)
        self.may_end = threading.Event()
        self.waiters: set[str] = set()
        self.fails = False

    def is_done(self, event: StreamEvent) -> bool:
        return self.may_end.is_set() and super().is_done(event)

    def wait(self, event: StreamEvent) -> None:
        self.waiters.add(threading.current_thread().name)
        assert self.may_end.wait(_FOREVER_SECONDS), "the event loop stands still"
        if self.fails:
            raise fe.errors.InternalError("the device is gone")
        super().wait(event)


def opened(gpu: SimulatedGpu, graph: fe.Graph, *, threads: bool = True) -> fe.Session:
    devices = DeviceRegistry(parent=DEVICES)
    devices.register("GPU", lambda name, memory_limit: gpu, lambda: 1)
    return fe.Session(graph, config=fe.Config(worker_threads=threads), devices=devices)


def exponential() -> tuple[fe.Graph, Any, Any]:
    g = fe.Graph()
    x = g.placeholder("float32", [3], name="x")
    with g.device("/device:GPU:0"):
        y = g.ops.Exp(x, name="y")
    return g, x, y


async def let_it_end(gpu: SlowGpu) -> None:
    """Ticks, and then lets the device come to its end."""
    for _ in range(20):
        await trio.lowlevel.checkpoint()
    gpu.may_end.set()


@pytest.mark.parametrize("threads", [True, False])
async def test_the_loop_goes_on_while_a_fetch_is_copied(threads: bool) -> None:
    gpu = SlowGpu(seed=1)
    assert isinstance(gpu, StreamDevice)
    g, x, y = exponential()
    async with opened(gpu, g, threads=threads) as session, trio.open_nursery() as nursery:
        nursery.start_soon(let_it_end, gpu)
        assert (await session.run(y, {x: np.zeros(3, np.float32)})).tolist() == [1, 1, 1]
        assert (await session.run(y, {x: np.zeros(3, np.float32)})).tolist() == [1, 1, 1]
    gpu.check()
    assert gpu.stops == 0
    assert threading.current_thread().name not in gpu.waiters


@pytest.mark.parametrize("threads", [True, False])
async def test_a_step_without_fetches_ends_when_the_device_does(threads: bool) -> None:
    gpu = SlowGpu()
    g, x, _ = exponential()
    ended: list[str] = []
    async with opened(gpu, g, threads=threads) as session, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def run() -> None:
            await session.run([], {x: np.zeros(3, np.float32)}, targets=["y"])
            ended.append("step")

        for _ in range(20):
            await trio.lowlevel.checkpoint()
        ended.append("device")
        gpu.may_end.set()
    assert ended == ["device", "step"]


@pytest.mark.parametrize("threads", [True, False])
async def test_who_is_cancelled_while_waiting_leaves_a_session_that_goes_on(threads: bool) -> None:
    gpu = SlowGpu()
    g, x, y = exponential()
    async with opened(gpu, g, threads=threads) as session:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.run, y, {x: np.zeros(3, np.float32)})
            for _ in range(20):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        gpu.may_end.set()
        got = await session.run(y, {x: np.ones(3, np.float32)})
    np.testing.assert_allclose(got, np.full(3, np.e), rtol=1e-6)
    gpu.check()


async def test_what_the_device_raises_is_raised_where_it_is_awaited() -> None:
    gpu = SlowGpu()
    gpu.copy_in(np.zeros(3))
    gpu.fails = True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(let_it_end, gpu)
        with pytest.raises(fe.errors.InternalError, match="the device is gone"):
            await wait_reached(gpu, gpu.unfinished(), uses_threads=True)


async def test_what_is_over_is_not_handed_to_a_thread() -> None:
    gpu = SlowGpu()
    gpu.may_end.set()
    gpu.copy_in(np.zeros(3))
    await wait_reached(gpu, gpu.unfinished(), uses_threads=False)
    assert gpu.unfinished() == ()
    await wait_reached(gpu, gpu.unfinished(), uses_threads=True)
    assert gpu.waiters == set()
