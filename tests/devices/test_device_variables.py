"""Variables in the memory of a device that is not the host's: the CPU's values, nothing copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import flowengine as fe
from flowengine.core import dtypes
from flowengine.core.shapes import TensorShape
from flowengine.resources.device_variable import DeviceVariable
from tests.devices.on_gpu import GPU, opened
from tests.tools.simulated_gpu import SimulatedGpu

SEEDS = range(3)


def made(gpu: SimulatedGpu, value: Any) -> DeviceVariable:
    variable = DeviceVariable("v", dtypes.float32, TensorShape(None), xp=gpu.xp)
    variable.assign(gpu.copy_in(np.asarray(value, np.float32)))
    return variable


def test_what_was_read_keeps_its_value_however_it_is_looked_at() -> None:
    gpu = SimulatedGpu(f"/job:localhost/replica:0/task:0{GPU}", seed=1)
    looks: list[Callable[[Any], Any]] = [
        lambda x: x,
        lambda x: x[1:],
        lambda x: x[1:][::-1],
        lambda x: x.reshape(2, 2).T,
        lambda x: gpu.xp.asarray(x),
    ]
    for look in looks:
        variable = made(gpu, [1, 2, 3, 4])
        seen = look(variable.read())
        before = gpu.copy_out(seen)
        target = variable.mutable()
        target += 1
        del target
        assert variable.copies == 1
        np.testing.assert_array_equal(gpu.copy_out(seen), before)
        assert gpu.copy_out(variable.read()).tolist() == [2, 3, 4, 5]
        del seen
        variable.mutable()[...] = 0
        assert variable.copies == 1, "nobody looks any more: in place"
        assert not variable.is_lent()
    gpu.check()


def test_a_value_without_dimensions_is_lent_too() -> None:
    gpu = SimulatedGpu(f"/job:localhost/replica:0/task:0{GPU}")
    variable = made(gpu, 3)
    before = variable.read()
    variable.assign(gpu.copy_in(np.float32(4)))
    assert (gpu.copy_out(before), gpu.copy_out(variable.read())) == (3, 4)


def test_it_refuses_what_a_variable_refuses() -> None:
    gpu = SimulatedGpu(f"/job:localhost/replica:0/task:0{GPU}")
    variable = DeviceVariable("v", dtypes.float32, TensorShape([2]), xp=gpu.xp)
    for use in (variable.read, variable.mutable, lambda: variable.value_of(dtypes.float32)):
        with pytest.raises(fe.errors.FailedPreconditionError, match=r"(un|not )initialized"):
            use()
    with pytest.raises(fe.errors.InvalidArgumentError, match="shapes of both tensors to match"):
        variable.assign(gpu.copy_in(np.zeros(3, np.float32)))
    variable.assign(gpu.copy_in(np.zeros(2, np.float32)))
    with pytest.raises(fe.errors.InvalidArgumentError, match="wrong dtype"):
        variable.value_of(dtypes.float64)


def _scattered(name: str) -> Callable[[fe.Graph, Any], list[Any]]:
    rows, values = np.array([2, 0, 2], np.int32), np.arange(1, 7, dtype=np.float32).reshape(3, 2)
    return lambda g, v: [getattr(g.ops, f"ResourceScatter{name}")(v, rows, values)]


#: {what is done: makes of a graph and a variable what is run in a row}
_UPDATES: Final[dict[str, Callable[[fe.Graph, Any], list[Any]]]] = {
    "assign_add": lambda g, v: [g.ops.AssignAddVariableOp(v, np.full((4, 2), 2, np.float32))],
    "assign_sub": lambda g, v: [g.ops.AssignSubVariableOp(v, np.full((4, 2), 2, np.float32))],
    **{name: _scattered(name) for name in ("Add", "Sub", "Mul", "Div", "Min", "Max")},
    "update": lambda g, v: [
        g.ops.ResourceScatterUpdate(v, np.array([2, 0], np.int32), np.ones((2, 2), np.float32)),
        g.ops.ResourceScatterUpdate(v, np.array([1], np.int32), np.float32(7)),
    ],
    "nd": lambda g, v: [
        g.ops.ResourceScatterNdAdd(v, np.array([[1, 1], [1, 1]], np.int32), np.ones(2, np.float32)),
        g.ops.ResourceScatterNdMax(v, np.array([[3]], np.int32), np.full((1, 2), 6.5, np.float32)),
    ],
}


@pytest.mark.parametrize("name", _UPDATES)
async def test_updates_have_the_values_of_the_cpu(name: str) -> None:
    found = []
    for device in ("/cpu:0", GPU):
        g = fe.Graph()
        with g.device(device):
            v = g.ops.VarHandleOp(shape=[4, 2], dtype="float32", shared_name="v")
            begin = g.ops.AssignVariableOp(v, np.arange(8, dtype=np.float32).reshape(4, 2))
            updates = _UPDATES[name](g, v)
            rows = g.ops.ResourceGather(v, np.array([3, 1], np.int32), dtype="float32")
            value = g.ops.ReadVariableOp(v, dtype="float32")
        async with opened(g, seed=5) as (session, _):
            await session.run((), targets=[begin])
            for update in updates:
                await session.run((), targets=[update])
            found.append(await session.run([value, rows]))
    for far, near in zip(*found, strict=True):
        np.testing.assert_allclose(far, near, rtol=1e-6)


async def test_variables_by_reference_are_there_too() -> None:
    g = fe.Graph()
    with g.device(GPU):
        v = g.ops.VariableV2(shape=[3], dtype="float32", name="v")
        begin = g.ops.Assign(v, np.array([1, 2, 3], np.float32)).op
        is_there = g.ops.IsVariableInitialized(v)
        add = g.ops.AssignAdd(v, np.ones(3, np.float32)).op
        scatter = g.ops.ScatterMul(v, np.array([1, 1], np.int32), np.array([2, 3], np.float32)).op
        twice = g.ops.Add(v, v)
    async with opened(g) as (session, gpu):
        assert not await session.run(is_there)
        for target in (begin, add, scatter):
            await session.run((), targets=[target])
        copied = len(gpu.copies["in"])
        assert (await session.run(twice)).tolist() == [4, 36, 8]
        assert len(gpu.copies["in"]) == copied
        assert await session.run(is_there)


async def test_a_variable_of_one_step_is_there_too() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [3], name="x")
    with g.device(GPU):
        v = g.ops.TemporaryVariable(shape=[3], dtype="float32", var_name="sum", name="sum")
        for _ in range(3):
            v = g.ops.AssignAdd(v, x)
        last = g.ops.DestroyTemporaryVariable(v, var_name="sum")
    async with opened(g, seed=1) as (session, gpu):
        for _ in range(2):
            assert (await session.run(last, {x: np.array([1, 2, 3], np.float32)})).tolist() == [3, 6, 9]
        assert gpu.copies["out"] == [12, 12]


async def test_what_a_variable_by_reference_is_given_crosses() -> None:
    """Fed or computed by the host: the inputs behind the reference are brought to the device."""
    g = fe.Graph()
    x = g.placeholder("float32", [3], name="x")
    with g.device("/cpu:0"):
        half = g.ops.Mul(x, np.float32(0.5))
    with g.device(GPU):
        v = g.ops.VariableV2(shape=[3], dtype="float32", name="v")
        targets = [g.ops.Assign(v, x).op, g.ops.AssignAdd(v, half).op]
        rows = g.placeholder("int32", [2], name="rows")
        targets.append(g.ops.ScatterAdd(v, rows, g.ops.GatherV2(half, rows, np.int32(0))).op)
        value = g.ops.Identity(v)
    async with opened(g, seed=3) as (session, gpu):
        feeds = {x: np.array([2, 4, 6], np.float32), rows: np.array([2, 0], np.int32)}
        for target, expected in zip(targets, ([2, 4, 6], [3, 6, 9], [4, 6, 12]), strict=True):
            await session.run((), feeds, targets=[target])
            assert (await session.run(value)).tolist() == expected
        gpu.check()


_OPTIMIZERS: Final[dict[str, Callable[[], Any]]] = {
    "SGD": lambda: fe.optimizers.SGD(0.1),
    "Momentum": lambda: fe.optimizers.Momentum(0.1, 0.9),
    "Nesterov": lambda: fe.optimizers.Momentum(0.1, 0.9, nesterov=True),
    "AdaGrad": lambda: fe.optimizers.AdaGrad(0.1),
    "RMSProp": lambda: fe.optimizers.RMSProp(0.01),
    "Adam": lambda: fe.optimizers.Adam(0.01),
    "FTRL": lambda: fe.optimizers.FTRL(0.1, l1=0.01),
}


def trained(graph: fe.Graph, optimizer: Any, device: str) -> Any:
    """A small network of images; (loss, step)."""
    random = np.random.default_rng(0)
    with graph.device(device):
        x = graph.placeholder("float32", [8, 8, 8, 2], name="x")
        labels = graph.placeholder("int32", [8], name="labels")
        filters = graph.variable(random.normal(0, 0.3, (3, 3, 2, 4)).astype(np.float32), name="filters")
        weights = graph.variable(random.normal(0, 0.3, (64, 5)).astype(np.float32), name="weights")
        bias = graph.variable(np.zeros(5, np.float32), name="bias")
        hidden = graph.ops.Relu(graph.ops.Conv2D(x, filters.value(), strides=[1, 1, 1, 1], padding="SAME"))
        pooled = graph.ops.MaxPool(hidden, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
        flat = graph.ops.Reshape(pooled, [8, 64])
        logits = graph.ops.BiasAdd(graph.ops.MatMul(flat, weights.value()), bias.value())
        losses, _ = graph.ops.SparseSoftmaxCrossEntropyWithLogits(logits, labels)
        loss = fe.reduce_mean(losses)
        return loss, optimizer.minimize(loss)


FEEDS = {
    "x:0": np.random.default_rng(5).normal(size=(8, 8, 8, 2)).astype(np.float32),
    "labels:0": np.arange(8, dtype=np.int32) % 5,
}


@pytest.mark.parametrize("name", _OPTIMIZERS)
async def test_training_has_the_losses_of_the_cpu(name: str) -> None:
    found = []
    for device in ("/cpu:0", GPU):
        graph = fe.Graph()
        loss, train = trained(graph, _OPTIMIZERS[name](), device)
        async with opened(graph, seed=len(name)) as (session, _):
            await session.initialize()
            found.append([(await session.run([loss, train], FEEDS))[0] for _ in range(6)])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4)
    assert found[1][-1] < found[1][0]


@pytest.mark.parametrize("name", ["Add", "Sub", "Mul", "Div", "Min", "Max", "Update"])
async def test_an_index_out_of_range_changes_nothing(name: str) -> None:
    g = fe.Graph()
    with g.device(GPU):
        v = g.ops.VarHandleOp(shape=[3], dtype="float32", shared_name="v")
        begin = g.ops.AssignVariableOp(v, np.array([1, 2, 3], np.float32))
        update = getattr(g.ops, f"ResourceScatter{name}")(
            v, np.array([0, 3], np.int32), np.array([7, 8], np.float32)
        )
        value = g.ops.ReadVariableOp(v, dtype="float32")
    async with opened(g) as (session, gpu):
        await session.run((), targets=[begin])
        with pytest.raises(fe.errors.InvalidArgumentError, match=r"indices\[1\] = 3 is not in \[0, 3\)"):
            await session.run((), targets=[update])
        gpu.xp.reads.clear()  # those of the error's text
        assert (await session.run(value)).tolist() == [1, 2, 3]
