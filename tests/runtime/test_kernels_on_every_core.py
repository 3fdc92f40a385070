"""Steps of many tasks and threads whose kernels share the cores: each has the values it would have alone."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.kernels.common import blockwise
from flowengine.kernels.numpy import channels, depthwise, fused
from flowengine.kernels.numpy import window_extremes as pooling


@pytest.fixture(autouse=True)
def _spread_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (channels, depthwise, pooling):
        monkeypatch.setattr(module, "_SPREAD_MIN", 1)
    monkeypatch.setattr(channels, "_BLOCK", 512)
    monkeypatch.setattr(depthwise, "_BLOCK", 512)
    monkeypatch.setattr(pooling, "_BLOCK", 512)
    for module in (blockwise, fused):
        monkeypatch.setattr(module, "LARGE", 1024)
    monkeypatch.setattr(blockwise, "BLOCK", 512)


def network() -> fe.Graph:
    """Depthwise convolution, normalisation, activations, pools and the gradient of one."""
    random = np.random.default_rng(0)
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [None, None, None, 6], name="x")
    window: dict[str, Any] = {"ksize": [1, 3, 3, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
    vectors = [graph.constant(random.random(6, np.float32) + np.float32(0.5)) for _ in range(2)]
    empty = graph.constant(np.zeros(0, np.float32))
    filters = graph.constant(random.standard_normal((3, 3, 6, 1)).astype(np.float32))
    y = ops.DepthwiseConv2dNative(x, filters, strides=[1, 1, 1, 1], padding="SAME")
    y = ops.FusedBatchNorm(y, vectors[0], vectors[1], empty, empty, is_training=True)[0]
    y = ops.Relu(ops.BiasAdd(y, vectors[0]))
    top = ops.MaxPool(y, **window)
    back = ops.MaxPoolGrad(y, top, ops.Tanh(top), **window)
    ops.AvgPool(ops.Mul(back, y), name="y", **window)
    return graph


def inputs(number: int) -> Any:
    random = np.random.default_rng(number)
    shape = (1 + number % 3, 9 + number % 5, 8 + number % 7, 6)
    return random.standard_normal(shape).astype(np.float32)


def test_many_tasks_and_threads_get_what_one_gets() -> None:
    graph = network()
    config = fe.Config(kernel_provider="numpy")
    with fe.blocking.Session(graph, config=config) as session:
        alone = [session.run("y:0", {"x:0": inputs(i)}) for i in range(12)]
    wrong: list[int] = []

    async def steps() -> None:
        async with fe.Session(graph, config=config) as session, trio.open_nursery() as nursery:

            async def step(number: int) -> None:
                for _ in range(4):
                    value = await session.run("y:0", {"x:0": inputs(number)})
                    if not np.array_equal(value, alone[number]):
                        wrong.append(number)

            for number in range(12):
                nursery.start_soon(step, number)

    threads = [threading.Thread(target=trio.run, args=(steps,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
