"""Steps leave Python's collector nothing to do: it holds up the host for as long as a program is large."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from tests.collecting import Collections

STEPS = 500


class Model:
    """A layer over a variable, a queue behind it, and a loop."""

    def __init__(self) -> None:
        self.graph = graph = fe.Graph()
        self.x = graph.placeholder("float32", [None, 4], name="x")
        self.weights = graph.variable(np.eye(4, dtype=np.float32), name="w")
        self.y = graph.ops.Relu(graph.ops.MatMul(self.x, self.weights.value()))
        queue = graph.ops.FIFOQueueV2(component_types=["float32"])
        self.enqueue = graph.ops.QueueEnqueueV2(queue, [self.y])
        self.dequeue = graph.ops.QueueDequeueV2(queue, component_types=["float32"])
        self.counted = graph.while_loop(lambda i: i < 20, lambda i: i + 1, [graph.constant(0, "int32")])


async def run(model: Model, session: fe.Session, value: Any) -> None:
    await session.run(model.y, {model.x: value})


async def through_a_queue(model: Model, session: fe.Session, value: Any) -> None:
    await session.run([], {model.x: value}, targets=[model.enqueue])
    await session.run(model.dequeue)


async def beside_each_other(model: Model, session: fe.Session, value: Any) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(session.run, model.y, {model.x: value})


async def in_a_loop(model: Model, session: fe.Session, value: Any) -> None:
    await session.run(model.counted)


@pytest.mark.parametrize("step", [run, through_a_queue, beside_each_other, in_a_loop])
async def test_steps_leave_no_containers(step: Callable[..., Awaitable[None]]) -> None:
    model = Model()
    value = np.ones((2, 4), np.float32)
    async with fe.Session(model.graph) as session:
        await session.run([], targets=[model.weights.initializer])
        for _ in range(200):
            await step(model, session, value)
        with Collections() as collections:
            for _ in range(STEPS):
                await step(model, session, value)
    # Seven hundred containers more than before are one.
    assert collections.count <= 1
