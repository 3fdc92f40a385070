"""Devices: names, limits and types of a session's devices, and the ledger of what their memory holds."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest

from flowengine.core.errors import InvalidArgumentError, NotFoundError, ResourceExhaustedError
from flowengine.devices.allocation import Ledger
from flowengine.devices.cpu import CpuDevice
from flowengine.devices.device import LOCAL_TASK, DeviceRegistry, DeviceSet
from flowengine.devices.load import DEVICES


def test_there_is_one_cpu_unless_more_are_asked_for() -> None:
    assert DEVICES.make().names == (f"{LOCAL_TASK}/device:CPU:0",)
    four = DEVICES.make({"CPU": 4})
    assert [name[-5:] for name in four.names] == ["CPU:0", "CPU:1", "CPU:2", "CPU:3"]
    assert four.default is four[f"{LOCAL_TASK}/device:CPU:0"]
    assert len(set(four.incarnations.values())) == 4


def test_partial_names_find_their_devices() -> None:
    devices = DEVICES.make({"CPU": 3})
    assert len(devices.matching("")) == len(devices.matching("/cpu:*")) == 3
    assert [d.name[-5:] for d in devices.matching("/device:CPU:2")] == ["CPU:2"]
    assert [d.name[-5:] for d in devices.matching("/job:localhost/task:0/cpu:1")] == ["CPU:1"]
    assert devices.matching("/job:worker") == devices.matching("/gpu:0") == []
    with pytest.raises(NotFoundError, match="CPU:0"):
        devices["/cpu:0"]


@pytest.mark.parametrize("counts", [{"TPU": 1}, {"CPU": 0}, {"CPU": -1}])
def test_impossible_counts_are_refused(counts: dict[str, int]) -> None:
    with pytest.raises(InvalidArgumentError, match="device_count"):
        DEVICES.make(counts)


def test_the_most_precise_memory_limit_counts() -> None:
    limits = {"CPU": 100, "CPU:1": 200, "/job:localhost/device:CPU:2": 300}
    devices = DEVICES.make({"CPU": 3}, limits)
    assert [device.ledger.limit_bytes for device in devices] == [100, 200, 300]


def test_a_type_is_a_word_in_capitals_and_names_are_unique() -> None:
    with pytest.raises(InvalidArgumentError, match="device type"):
        DeviceRegistry().register("my device", CpuDevice)
    name = f"{LOCAL_TASK}/device:CPU:0"
    with pytest.raises(InvalidArgumentError, match="same name"):
        DeviceSet([CpuDevice(name), CpuDevice(name)])
    with pytest.raises(InvalidArgumentError, match="at least one CPU"):
        DeviceSet([])


def test_a_ledger_counts_memory_until_its_last_reference_goes() -> None:
    device = CpuDevice(f"{LOCAL_TASK}/device:CPU:0")
    array = np.zeros(1000, np.uint8)
    view = array[100:].reshape(30, 30)

    def hold(value: np.ndarray[Any, Any]) -> None:
        owned = device.owner_of(value)
        assert owned is not None
        device.ledger.hold(*owned, "a")

    hold(array)
    hold(view)
    assert device.ledger.statistics().bytes_in_use == 1000
    del array
    gc.collect()
    assert device.ledger.live == 1000, "a view keeps its memory"
    del view
    gc.collect()
    statistics = device.ledger.statistics()
    assert (statistics.bytes_in_use, statistics.peak_bytes_in_use) == (0, 1000)
    assert (statistics.num_allocations, statistics.largest_allocation) == (1, 1000)
    device.ledger.reset_peak()
    assert device.ledger.peak == 0
    assert device.owner_of(np.float32(1)) is None
    over_text = np.frombuffer(b"abc", np.uint8)
    found = device.owner_of(over_text)
    assert found is not None
    assert (found[0] is over_text, found[1]) == (True, sys.getsizeof(b"abc")), "it keeps the text"


def test_a_ledger_names_its_largest_holders() -> None:
    ledger = Ledger(1000, "the limit")
    kept = [np.zeros(size, np.uint8) for size in (100, 300, 250)]
    for name, array in zip(("a", "b", "a"), kept, strict=True):
        ledger.hold(array, array.nbytes, name)
    ledger.check(350)
    with pytest.raises(ResourceExhaustedError, match=r"351 bytes are wanted.*'a' holds 350; 'b' holds 300"):
        ledger.check(351)
