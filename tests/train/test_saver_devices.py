"""Savers without nodes, and variables in the memory of a device of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.dtypes import float32
from flowengine.core.shapes import TensorShape
from flowengine.resources.variable import Variable
from tests.devices.on_gpu import GPU, opened


def model() -> tuple[fe.Graph, Any, Any]:
    """(graph, steps that change a variable on each device, the values of both)."""
    g = fe.Graph()
    with g.device(GPU):
        far = g.variable(np.arange(4, dtype=np.float32), name="far")
        step = far.assign_add(np.ones(4, np.float32))
    with g.device("/cpu:0"):
        near = g.variable(np.float32(7), name="near")
        other = near.assign_add(np.float32(1))
    return g, [step.op, other.op], [far.value(), near.value()]


@pytest.mark.parametrize("at_boundary", [False, True])
@pytest.mark.parametrize("seed", range(3))
async def test_variables_of_devices_are_saved_and_restored(
    tmp_path: Path, seed: int, at_boundary: bool
) -> None:
    g, steps, values = model()
    saver = fe.train.Saver()
    async with opened(g, seed) as (session, gpu):
        await session.initialize()
        await session.run((), targets=steps)
        path = await saver.save(session, tmp_path / "model", global_step=3, at_boundary=at_boundary)
        await session.run((), targets=steps)
        assert sorted(await saver.restore(session, path)) == ["far", "near"]
        assert (await session.run(values[0])).tolist() == [1, 2, 3, 4]
        assert gpu.stops == 0
    g, _, values = model()
    async with opened(g, seed + 1) as (session, gpu):
        with pytest.raises(fe.errors.FailedPreconditionError, match="no step has made variables 'far'"):
            await saver.restore(session, path)
        await session.initialize()
        await saver.restore(session, path)
        assert [np.asarray(v).tolist() for v in await session.run(values)] == [[1, 2, 3, 4], 8]


async def test_a_snapshot_keeps_what_a_later_step_changes(tmp_path: Path) -> None:
    g, steps, values = model()
    saver = fe.train.Saver()
    async with opened(g) as (session, gpu):
        await session.initialize()
        taken = saver.snapshot(session)
        await session.run((), targets=steps)
        path = await saver.write(taken, tmp_path / "model")
        assert (await session.run(values[0])).tolist() == [1, 2, 3, 4]
        await saver.restore(session, path)
        assert (await session.run(values[0])).tolist() == [0, 1, 2, 3]
        assert gpu.stops == 0


async def test_a_name_in_two_memories_is_an_error_that_says_so(tmp_path: Path) -> None:
    """Of one graph it is planned in one only; but a session may be given what another has made."""
    g = fe.Graph()
    with g.device(GPU):
        handle = g.ops.VarHandleOp(shape=[2], dtype="float32", shared_name="twice")
        begun = g.ops.AssignVariableOp(handle, np.zeros(2, np.float32))
    async with opened(g) as (session, _):
        await session.run((), targets=[begun])
        session.resources.lookup_or_create(
            "", "twice", Variable, lambda: Variable("twice", float32, TensorShape([2]))
        )
        with pytest.raises(fe.errors.InvalidArgumentError, match="2 variables 'twice', in host memory"):
            await fe.train.Saver().save(session, tmp_path / "model")
