"""Devices that take time on trio's clock: real steps of real sessions, as long as a test says.

    devices = MockDevices(kernels, cost=lambda node, device: 120.0)
    async with devices.session(graph, count=4, placer=placer) as session: ...

Each device runs one kernel at a time, of those that are ready the one constructed first, and every kernel
computes what it computes after it has slept for its cost. A tensor for another device is under way for as
long as the links say. Under `trio.testing.MockClock(autojump_threshold=0)` an hour passes in a moment, so
a placement can be executed on devices of any speed. What a test pays is about 0.1 ms a kernel.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from heapq import heappop, heappush
from typing import Any
from unittest import mock

import trio
import trio.testing

from flowengine.core.arrays import Value
from flowengine.core.config import Config
from flowengine.core.names import DeviceName
from flowengine.core.rendezvous import Received, RendezvousKey
from flowengine.ir.graph import Node, NodeGraph
from flowengine.ir.names import TRANSFER_OPS
from flowengine.kernels.registry import Kernel, KernelRegistry
from flowengine.passes.place.device_profiles import DeviceLinks, EvenLinks, Offer
from flowengine.runtime import partitions
from flowengine.runtime.planning.placing import Placer
from flowengine.runtime.receives import Group
from flowengine.session import Session
from flowengine.transport.tensors.rendezvous import LocalRendezvous

#: Microseconds of one execution of a node on a device (its complete name).
Cost = Callable[[Node, str], float]


class MockDevices(KernelRegistry):
    """Kernels that take time, and the rendezvous between the devices that they run on.

    spent   {(node name, device): [microseconds, times]} of what ran since it was last cleared
    """

    def __init__(self, kernels: KernelRegistry, cost: Cost, links: DeviceLinks | None = None) -> None:
        super().__init__(parent=kernels)
        self.spent: dict[tuple[str, str], list[float]] = {}
        self.source = kernels
        self._cost = cost
        self._links = links if links is not None else EvenLinks()
        self._queues: dict[str, _Queue] = {}
        self._order: dict[str, int] = {}
        self._nursery: trio.Nursery | None = None
        self._group: _PatientGroup | None = None
        #: Tensors that are under way.
        self.in_flight = 0

    @asynccontextmanager
    async def session(
        self, graph: NodeGraph, count: int, placer: Placer, config: Config | None = None
    ) -> AsyncIterator[Session]:
        """A session on so many of these devices."""
        base = config if config is not None else Config(compile_hot_plans=False, worker_threads=False)
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._order = {name: index for index, name in enumerate(graph.nodes)}
            self._queues.clear()
            with (
                mock.patch.object(partitions, "Group", self._new_group),
                mock.patch("flowengine.session.LocalRendezvous", self._new_rendezvous),
            ):
                async with Session(
                    graph, config=replace(base, device_count={"CPU": count}), kernels=self, placer=placer
                ) as session:
                    yield session
            nursery.cancel_scope.cancel()

    def _new_rendezvous(self) -> _Delayed:
        return _Delayed(self)

    def _new_group(self) -> Group:
        self._group = _PatientGroup(self)
        return self._group

    # -- kernels ------------------------------------------------------------------------------------

    def candidates(self, op: str, device: str = "CPU") -> Sequence[Kernel]:
        return self.source.candidates(op, device)

    def __iter__(self) -> Iterator[Kernel]:
        return iter(self.source)

    def find(self, node: Node, device: str = "CPU") -> Kernel:
        return self.slow(self.source.find(node, device), node, None)

    def inside(self, call: Node) -> KernelRegistry:
        return _Within(self, call)

    def slow(self, kernel: Kernel, node: Node, call: Node | None) -> Kernel:
        """A kernel that takes its time on its device, on account of the call that runs it, if one does."""
        if node.op in TRANSFER_OPS or kernel.is_async:
            return kernel
        account = (node if call is None else call).name

        async def run(*values: Any, ctx: Any, **keywords: Any) -> Any:
            if kernel.takes_context:
                keywords["ctx"] = ctx
            cost = self._cost(node, ctx.device)
            await self._queue(ctx.device).run(self._order.get(account, len(self._order)), cost * 1e-6)
            found = self.spent.setdefault((account, ctx.device), [0.0, 0])
            found[0] += cost
            found[1] = 1 if call is not None else found[1] + 1
            return kernel.function(*values, **keywords)

        return replace(kernel, function=run, inline=None, nowait=None, is_async=True, takes_context=True)

    def _queue(self, device: str) -> _Queue:
        queue = self._queues.get(device)
        if queue is None:
            assert self._nursery is not None
            queue = self._queues[device] = _Queue()
            self._nursery.start_soon(queue.serve)
        return queue

    # -- transfers ----------------------------------------------------------------------------------

    def deliver(self, inner: LocalRendezvous, key: RendezvousKey, value: Value, is_dead: bool) -> None:
        """Hand a value over when its time has come."""
        source, target = _offer(key.source_device), _offer(key.target_device)
        size = 0 if is_dead else int(getattr(value, "nbytes", 0))
        way = self._links.latency(source, target) + size / self._links.bandwidth(source, target)

        async def arrive() -> None:
            await trio.sleep(way * 1e-6)
            self.in_flight -= 1
            inner.send(key, value, is_dead)
            if self._group is not None:
                self._group.arrived()

        self.in_flight += 1
        assert self._nursery is not None
        self._nursery.start_soon(arrive)


class _Within(KernelRegistry):
    """The kernels of what a function call runs on mock devices."""

    def __init__(self, devices: MockDevices, call: Node) -> None:
        super().__init__(parent=devices)
        self._devices = devices
        self._call = call

    def find(self, node: Node, device: str = "CPU") -> Kernel:
        return self._devices.slow(self._devices.source.find(node, device), node, self._call)

    def inside(self, call: Node) -> KernelRegistry:
        return self


class _Queue:
    """A queue of work that waits for a device, and the task that serves it one after another."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, float, trio.Event]] = []
        self._count = 0
        self._wanted = trio.Event()

    async def run(self, order: int, seconds: float) -> None:
        """Have the device for so long."""
        done = trio.Event()
        self._count += 1
        heappush(self._waiting, (order, self._count, seconds, done))
        self._wanted.set()
        await done.wait()

    async def serve(self) -> None:
        while True:
            # What the last kernel has made ready may come before what has waited since.
            await trio.testing.wait_all_tasks_blocked()
            if not self._waiting:
                self._wanted = trio.Event()
                await self._wanted.wait()
                continue
            _, _, seconds, done = heappop(self._waiting)
            await trio.sleep(seconds)
            done.set()


class _PatientGroup(Group):
    """Partitions that all wait are not stuck while something is on its way to one of them."""

    def __init__(self, devices: MockDevices) -> None:
        super().__init__()
        self._devices = devices

    def _give_up(self) -> None:
        if not self._devices.in_flight:
            super()._give_up()

    def arrived(self) -> None:
        """Look again, if what has come has woken nobody."""
        if self._members and self._asleep >= self._members:
            self._give_up()


class _Delayed:
    """A rendezvous whose values arrive late."""

    def __init__(self, devices: MockDevices) -> None:
        self._devices = devices
        self._inner = LocalRendezvous()

    def send(self, key: RendezvousKey, value: Value, is_dead: bool) -> None:
        self._devices.deliver(self._inner, key, value, is_dead)

    async def wait_received(self, key: RendezvousKey) -> tuple[Value, bool]:
        return await self._inner.wait_received(key)

    def receive(self, key: RendezvousKey, done: Received) -> None:
        self._inner.receive(key, done)

    def abort(self, error: Exception) -> None:
        self._inner.abort(error)

    def forget(self) -> None:
        self._inner.forget()


def _offer(name: str) -> Offer:
    return Offer(DeviceName.parse(name))


__all__ = ["Cost", "MockDevices"]
