"""A resource that nodes find by its name is in one memory, or the plan is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from tests.devices.on_gpu import GPU, opened

TWO = np.array([1, 2], np.float32)


def variable(g: fe.Graph, device: str, name: str, value: Any = TWO) -> tuple[Any, Any]:
    """(an assignment, a read) of a variable of its own node that is called `shared`."""
    with g.device(device):
        handle = g.ops.VarHandleOp(shape=[2], dtype="float32", shared_name="shared", name=name)
        read = g.ops.ReadVariableOp(handle, dtype="float32", name=f"{name}/read")
        return g.ops.AssignVariableOp(handle, value, name=f"{name}/assign"), read


def check(error: fe.errors.OpError) -> None:
    text = str(error)
    assert "'near' (VarHandleOp) on /job:localhost/replica:0/task:0/device:CPU:0" in text
    assert "'far' (VarHandleOp) on /job:localhost/replica:0/task:0/device:GPU:0" in text
    assert "share the resource 'shared' by its name" in text
    assert "Place both on one device, or give them different shared_names" in text


async def test_a_step_with_both_is_refused() -> None:
    g = fe.Graph()
    near, far = variable(g, "/cpu:0", "near"), variable(g, GPU, "far")
    async with opened(g) as (session, _):
        for _ in range(2):
            with pytest.raises(fe.errors.InvalidArgumentError) as told:
                await session.run((), targets=[near[0], far[0]])
            check(told.value)


@pytest.mark.parametrize("far_first", [False, True])
async def test_the_second_of_two_steps_is_refused_and_the_first_goes_on(far_first: bool) -> None:
    g = fe.Graph()
    pairs = [variable(g, "/cpu:0", "near"), variable(g, GPU, "far")]
    (assign, read), (other, _) = pairs[::-1] if far_first else pairs
    async with opened(g) as (session, _):
        await session.run((), targets=[assign])
        with pytest.raises(fe.errors.InvalidArgumentError) as told:
            await session.run((), targets=[other])
        check(told.value)
        # A graph that grows is planned anew, and what is known of its names stays so.
        g.constant(1.0)
        with pytest.raises(fe.errors.InvalidArgumentError, match="share the resource"):
            await session.run((), targets=[other])
        assert (await session.run(read)).tolist() == [1, 2]


async def test_a_node_that_is_free_goes_where_the_other_is() -> None:
    g = fe.Graph()
    (assign, _), (_, read) = variable(g, GPU, "far"), variable(g, "", "free")
    async with opened(g) as (session, _):
        await session.run((), targets=[assign])
        assert (await session.run(read)).tolist() == [1, 2]


async def test_two_cpus_are_one_memory_and_other_kinds_have_names_of_their_own() -> None:
    g = fe.Graph()
    (assign, _), (_, read) = variable(g, "/cpu:0", "one"), variable(g, "/cpu:1", "two")
    with g.device(GPU):
        far = g.ops.VarHandleOp(shape=[2], dtype="float32", shared_name="other")
        begun = g.ops.AssignVariableOp(far, TWO)
    queue = g.ops.FIFOQueueV2(component_types=["float32"], shapes=[[2]], shared_name="other")
    size = g.ops.QueueSizeV2(queue)
    async with opened(g, device_count={"CPU": 2}) as (session, _):
        await session.run((), targets=[assign, begun])
        assert (await session.run(read)).tolist() == [1, 2]
        assert await session.run(size) == 0
