"""A device type of its own array type, as a GPU would be: added here, used by a session.

It has one kernel of its own. All else that runs there are this package's kernels for any device.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.arrays import Value, to_array
from flowengine.core.dtypes import DType, bfloat16, string, variant
from flowengine.devices.allocation import Ledger
from flowengine.devices.cpu import CpuDevice
from flowengine.devices.device import DeviceRegistry
from flowengine.devices.load import DEVICES
from flowengine.kernels.load import registry
from flowengine.kernels.registry import KernelRegistry
from flowengine.runtime.planning.hardware import kernels_on


class Far:
    """An array in far memory: NumPy does not know it, and it counts who looks inside."""

    def __init__(self, data: Any) -> None:
        self.data = np.asarray(data)

    nbytes = property(lambda self: self.data.nbytes)
    shape = property(lambda self: self.data.shape)
    ndim = property(lambda self: self.data.ndim)
    dtype = property(lambda self: self.data.dtype)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("somebody took a far array for a near one")

    def __array_ufunc__(self, ufunc: Any, method: str, *arrays: Any, out: Any = (), **keywords: Any) -> Any:
        result = FarModule.apply(getattr(ufunc, method), *arrays, **keywords)
        for each in out:
            each.data[...] = result.data
        return out[0] if out else result

    def __bool__(self) -> bool:
        return bool(self.data)


class _FarModule:
    """The array module of that memory: NumPy's functions, of far arrays only."""

    @staticmethod
    def apply(function: Any, *arrays: Any, **keywords: Any) -> Far:
        assert all(isinstance(array, Far) for array in arrays), "a kernel got a near array"
        return Far(function(*(array.data for array in arrays), **keywords))

    def __getattr__(self, name: str) -> Any:
        function = getattr(np, name)
        return function if isinstance(function, np.ufunc) else partial(self.apply, function)


FarModule = _FarModule()


class FarDevice:
    """Keeps `flowengine.devices.device.Device`."""

    def __init__(self, name: str, memory_limit: int | None = None) -> None:
        self.name = name
        self.type = "FAR"
        self.incarnation = 7
        self.xp: Any = FarModule
        self.ledger = Ledger(memory_limit, f"device_memory_limits, of {name}")
        self.shares_host_memory = False
        self.copies = {"in": 0, "out": 0}

    def holds(self, dtype: DType, listed: bool = False) -> bool:
        return dtype not in (string, variant) and (listed or dtype is not bfloat16)

    def copy_in(self, value: Value) -> Value:
        if isinstance(value, np.ndarray | np.generic):
            self.copies["in"] += 1
            return Far(value)
        return value

    def copy_out(self, value: Value) -> Value:
        if isinstance(value, Far):
            self.copies["out"] += 1
            return value.data
        return value

    def owner_of(self, value: Value) -> tuple[Any, int] | None:
        return (value, value.nbytes) if isinstance(value, Far) else None

    def synchronize(self) -> None:
        """Nothing is launched ahead."""


def far_kernels() -> KernelRegistry:
    kernels = KernelRegistry(parent=registry())

    @kernels.kernel("Sum", device="FAR", host=["reduction_indices"])
    def total(xp: Any, x: Far, axes: Any, *, keep_dims: bool) -> Far:
        axis = tuple(to_array(axes).reshape(-1).tolist())  # host memory, or this would fail
        made: Far = xp.apply(lambda array: array.sum(axis=axis, keepdims=keep_dims), x)
        return made

    return kernels


@pytest.fixture
def devices() -> DeviceRegistry:
    registry = DeviceRegistry(parent=DEVICES)
    registry.register("FAR", FarDevice, lambda: 1)
    return registry


def opened(graph: fe.Graph, devices: DeviceRegistry, **config: Any) -> fe.Session:
    return fe.Session(graph, config=fe.Config(**config), kernels=far_kernels(), devices=devices)


async def test_a_session_runs_nodes_there_and_back(devices: DeviceRegistry) -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [2, 3], name="x")
    with g.device("/device:FAR:0"):
        scaled = g.ops.Mul(x, g.constant(np.float32(3)), name="scaled")
        axes = g.constant([1], "int32")
        total = g.ops.Rsqrt(g.ops.Sum(scaled, axes), name="total")
    with g.device("/cpu:0"):
        y = g.ops.Exp(g.ops.Neg(total), name="y")
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    async with opened(g, devices) as session:
        for _ in range(11):  # past the point where plans become hot
            await session.run([y, total], {x: value})
        got_y, got_total = await session.run([y, total], {x: value})
        np.testing.assert_allclose(got_total, 1 / np.sqrt((value * 3).sum(axis=1)), rtol=1e-6)
        np.testing.assert_allclose(got_y, np.exp(-got_total))
        far: Any = session.devices.matching("/device:FAR:0")[0]
        assert far.copies["out"] == 24, "one copy for the Exp and one for the fetch, each step"


async def test_its_memory_is_counted_and_limited(devices: DeviceRegistry) -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [1000], name="x")
    with g.device("/device:FAR:0"):
        y = g.ops.Add(g.ops.Mul(x, x, name="square"), x, name="y")
    async with opened(g, devices, device_memory_limits={"FAR": 10_000}) as session:
        with pytest.raises(fe.errors.ResourceExhaustedError, match="'square' holds 4,000") as raised:
            await session.run(y, {x: np.ones(1000, np.float32)})
        assert raised.value.node_name == "y"
        assert raised.value.device is not None
        assert raised.value.device.endswith("FAR:0")
    async with opened(g, devices, count_allocations=True) as session:
        metadata = fe.RunMetadata()
        await session.run(y, {x: np.ones(1000, np.float32)}, run_metadata=metadata)
        assert list(metadata.devices.values()) == [12_000], "the feed, too, is a copy there"


def test_kernels_are_found_for_its_type_then_for_any(devices: DeviceRegistry) -> None:
    """A user's kernel for any device comes before this package's, behind the user's for that type."""
    mine = far_kernels()

    @mine.kernel("Mul")
    def my_mul(xp: Any, x: Any, y: Any) -> Any:
        return xp.multiply(x, y)

    @mine.kernel("Sum", device=None)
    def my_sum(x: Any, axes: Any) -> Any:
        return x

    device = devices.make().matching("/device:FAR:0")[0]
    there = kernels_on(mine, device)
    names = {op: [kernel.function.__name__ for kernel in mine.candidates(op, "FAR")] for op in ("Mul", "Sum")}
    assert names["Mul"] == ["my_mul", "multiply"]
    assert names["Sum"][:2] == ["total", "my_sum"]
    assert mine.candidates("Sum")[0].function is my_sum
    assert [k.xp for k in there.candidates("Mul")] == [FarModule] * 2
    assert [k.xp for k in mine.candidates("Mul")] == [np] * 2
    assert kernels_on(mine, DEVICES.make().default) is mine


async def test_what_it_does_not_hold_is_not_placed_there(devices: DeviceRegistry) -> None:
    g = fe.Graph()
    with g.device("/device:FAR:0"):
        y = g.ops.Pack([g.placeholder("string", [], name="x")], name="y")
    async with opened(g, devices) as session:
        with pytest.raises(fe.errors.InvalidArgumentError, match=r"'y' \(Pack\).*\(FAR holds no string\)"):
            await session.run(y, {"x:0": b"text"})
    async with opened(g, devices, allow_soft_placement=True) as session:
        assert (await session.run(y, {"x:0": b"text"})).tolist() == [b"text"]
    near = kernels_on(registry(), devices.make().matching("/device:FAR:0")[0])
    assert near.serving(g["y"]) is None


async def test_a_type_with_host_memory_is_given_its_own_kernels() -> None:
    """Such a device has NumPy's arrays, and the kernels of its type before those for any."""

    class Slow(CpuDevice):
        def __init__(self, name: str, memory_limit: int | None = None) -> None:
            super().__init__(name, memory_limit)
            self.type = "SLOW"

    types = DeviceRegistry(parent=DEVICES)
    types.register("SLOW", Slow, lambda: 1)
    kernels = KernelRegistry(parent=registry())

    @kernels.kernel("Neg", device="SLOW")
    def neg(x: Any) -> Any:
        return x * 7

    g = fe.Graph()
    x = g.placeholder("float32", [2], name="x")
    with g.device("/device:SLOW:0"):
        y = g.ops.Exp(g.ops.Neg(x), name="y")
    async with fe.Session(g, kernels=kernels, devices=types) as session:
        value = np.array([0.5, -1], np.float32)
        for _ in range(12):
            np.testing.assert_array_equal(await session.run(y, {x: value}), np.exp(value * 7))


async def test_its_name_is_unknown_to_a_session_without_it() -> None:
    with pytest.raises(fe.errors.InvalidArgumentError, match="FAR"):
        fe.Session(fe.Graph(), config=fe.Config(device_count={"FAR": 1}))
