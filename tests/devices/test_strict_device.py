"""A device whose arrays are as strict as CuPy's: this package's kernels run on it in a session."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.arrays import Value
from flowengine.devices.allocation import Ledger
from flowengine.devices.device import DeviceRegistry
from flowengine.devices.load import DEVICES
from flowengine.testing.strict_arrays import StrictArray, StrictModule


class StrictDevice:
    """Keeps `flowengine.devices.device.Device`."""

    def __init__(self, name: str, memory_limit: int | None = None) -> None:
        self.name = name
        self.type = "STRICT"
        self.incarnation = 3
        self.xp: Any = StrictModule()
        self.ledger = Ledger(memory_limit, f"device_memory_limits, of {name}")
        self.shares_host_memory = False

    def holds(self, dtype: fe.DType, listed: bool = False) -> bool:
        return dtype.name in ("bool", "int32", "int64", "float32", "float64")

    def copy_in(self, value: Value) -> Value:
        return self.xp.moved_in(value)

    def copy_out(self, value: Value) -> Value:
        return self.xp.moved_out(value)

    def owner_of(self, value: Value) -> tuple[Any, int] | None:
        return (value, value.nbytes) if isinstance(value, StrictArray) else None

    def synchronize(self) -> None:
        """Nothing is launched ahead."""


def opened(graph: fe.Graph) -> fe.Session:
    devices = DeviceRegistry(parent=DEVICES)
    devices.register("STRICT", StrictDevice, lambda: 1)
    return fe.Session(graph, config=fe.Config(), devices=devices)


async def test_a_perceptron_runs_there_and_nobody_looks() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [4, 3], name="x")
    labels = g.placeholder("int32", [4], name="labels")
    with g.device("/device:STRICT:0"):
        weights = g.constant(np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2))
        hidden = g.ops.Relu(
            g.ops.BiasAdd(g.ops.MatMul(x, weights), g.constant(np.array([0.5, -0.5], np.float32)))
        )
        loss, _ = g.ops.SparseSoftmaxCrossEntropyWithLogits(hidden, labels)
        mean = g.ops.Mean(loss, g.constant([0], "int32"), name="mean")
    values = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    async with opened(g) as session:
        got: Any = None
        for _ in range(11):  # past the point where plans become hot
            got = await session.run(mean, {x: values, labels: np.array([0, 1, 1, 0], np.int32)})
        device: Any = session.devices.matching("/device:STRICT:0")[0]
        assert device.xp.reads == []
    raw = np.maximum(values @ np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2) + [0.5, -0.5], 0)
    chosen = raw[np.arange(4), [0, 1, 1, 0]] - np.log(np.exp(raw).sum(axis=1))
    np.testing.assert_allclose(got, -chosen.mean(), rtol=1e-5)


async def test_an_index_out_of_range_is_told_when_the_check_is_looked_at() -> None:
    g = fe.Graph()
    indices = g.placeholder("int32", [2], name="indices")
    with g.device("/device:STRICT:0"):
        row = g.ops.GatherV2(g.constant(np.arange(3.0)), indices, g.constant(0, "int32"), name="row")
    async with opened(g) as session:
        with pytest.raises(
            fe.errors.InvalidArgumentError, match=r"indices\[1\] = 9 is not in \[0, 3\)"
        ) as told:
            await session.run(row, {indices: np.array([0, 9], np.int32)})
        assert told.value.node_name == "row"
        assert (await session.run(row, {indices: np.array([2, 0], np.int32)})).tolist() == [2, 0]
