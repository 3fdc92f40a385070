"""Rates that placement expects of a card before anything has run there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.cluster.devices import described, offer_of
from flowengine.core.names import DeviceName
from flowengine.devices.cuda_device import CudaDevice
from flowengine.devices.device import DeviceRegistry, RatedDevice
from flowengine.devices.launch_record import LaunchRecord
from flowengine.devices.load import DEVICES
from flowengine.devices.rates import card_rates
from flowengine.kernels.load import registry as kernels
from flowengine.passes.place.costs import CostModel
from flowengine.passes.place.device_profiles import BUS_BYTES_A_MICROSECOND, Offer, UsualLinks
from flowengine.passes.place.place import place
from flowengine.runtime.planning.placing import offers_of
from tests.devices.fake_cupy import FakeCupy
from tests.tools.simulated_gpu import simulated_gpus

NAME = "/job:localhost/replica:0/task:0/device:GPU:0"


def test_rates_of_a_card_are_those_of_its_memory_and_its_bus() -> None:
    device: Any = CudaDevice(NAME, FakeCupy())
    assert isinstance(device, RatedDevice)
    # 3.35 terabytes a second, of which a core has eight thousandths.
    assert device.rates == card_rates(memory_kilohertz=2_619_000, bus_bits=5120, capability=9)
    assert 400 < device.rates.speed < 440
    assert device.rates.bus_bytes_a_microsecond == 48_000
    small = card_rates(memory_kilohertz=0, bus_bits=0, capability=5)
    assert (small.speed, small.bus_bytes_a_microsecond) == (10, 12_000)


def test_offers_say_it_and_so_do_tasks_to_each_other() -> None:
    registry = DeviceRegistry(parent=DEVICES)
    registry.register("GPU", lambda name, limit: CudaDevice(name, FakeCupy(), limit), lambda: 1)
    host, card = offers_of(registry.make())
    assert (host.speed, host.launch_microseconds, host.bus_bytes_a_microsecond) == (1.0, 0.0, None)
    assert card.launch_microseconds == 3.0
    for offer in (host, card):
        assert offer_of(described(offer)) == offer
    assert set(described(host)) == {"name", "type", "memory_limit"}


def test_a_bus_is_as_fast_as_the_slower_end_says() -> None:
    host, *cards = [
        Offer(DeviceName.parse(NAME.replace("GPU:0", end)), bus_bytes_a_microsecond=bus)
        for end, bus in (("CPU:0", None), ("GPU:0", 48_000.0), ("GPU:1", 12_000.0), ("GPU:2", None))
    ]
    links = UsualLinks()
    assert [links.bandwidth(host, card) for card in cards] == [48_000, 12_000, BUS_BYTES_A_MICROSECOND]
    assert links.bandwidth(cards[0], cards[1]) == 12_000


@pytest.mark.parametrize(("elements", "types"), [(4_000_000, {"GPU"}), (8, {"CPU"})])
async def test_what_is_worth_a_card_goes_there_by_itself(elements: int, types: set[str]) -> None:
    """A long chain over much; over little, launches and the way there cost more than they are good for."""
    registry = DeviceRegistry(parent=DEVICES)
    registry.register("GPU", lambda name, limit: CudaDevice(name, FakeCupy(), limit), lambda: 1)
    g = fe.Graph()
    with g.device("/device:CPU:0"):
        y = g.ops.Identity(g.placeholder("float32", [elements], name="x"))
    chain = []
    for number in range(12):
        y = g.ops.Exp(g.ops.Neg(y), name=f"exp{number}")
        chain.append(f"exp{number}")
    async with fe.Session(g, config=fe.Config(device_count={"GPU": 1}), devices=registry) as session:
        found = place(session.graph, offers_of(session.devices), kernels=kernels()).device_of
    assert {DeviceName.parse(found[name]).type for name in chain} == types


async def test_what_a_node_takes_there_is_told_by_the_devices_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call of a kernel only launches it: how long that takes is nothing that placement may go by."""
    registry = DeviceRegistry(parent=DEVICES)
    registry.register("GPU", simulated_gpus(3), lambda: 1)
    g = fe.Graph()
    x = g.placeholder("float32", [1000], name="x")
    with g.device("/device:GPU:0"):
        y = g.ops.Tanh(g.ops.Exp(x, name="first"), name="second")
    with g.device("/device:CPU:0"):
        z = g.ops.Neg(x, name="near")
    # Where something may be put anywhere, steps are measured.
    free = g.ops.Abs(x)
    told: list[tuple[str, float]] = []
    record = CostModel.record

    def noted(self: CostModel, node: str, device: str, microseconds: float, *more: Any) -> None:
        told.append((node, microseconds))
        record(self, node, device, microseconds, *more)

    monkeypatch.setattr(CostModel, "record", noted)
    seconds = {"first": 3.0, "second": 0.5}

    def note(launches: list[LaunchRecord] | None, node: str) -> None:
        if launches is not None and node in seconds:
            launches.append(LaunchRecord(node, "work", NAME, "compute", 1.0, 1.0 + seconds[node]))

    config = fe.Config(worker_threads=False, compile_hot_plans=False)
    async with fe.Session(g, config=config, devices=registry) as session:
        gpu: Any = session.devices.matching("/device:GPU:0")[0]
        monkeypatch.setattr(gpu, "note", note)
        for _ in range(4):
            await session.run([y, z, free], {x: np.ones(1000, np.float32)})
    found = dict(told)
    assert {name: found[name] for name in seconds} == {name: 1e6 * time for name, time in seconds.items()}
    assert 0 < found["near"] < 1e6
