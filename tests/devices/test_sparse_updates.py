"""Optimizer steps on some rows of variables in a device's memory: the CPU's values, and nobody looked."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import flowengine as fe
from flowengine.ops.load import registry
from tests.devices.on_gpu import GPU, opened
from tests.tools.simulated_gpu import SimulatedGpu

_DEFINED: Final = registry()
_SHORT_NAMES: Final = (
    *("Adadelta", "Adagrad", "AdagradV2", "AdagradDA", "CenteredRMSProp", "Ftrl", "FtrlV2", "KerasMomentum"),
    *("Momentum", "ProximalAdagrad", "ProximalGradientDescent", "RMSProp"),
)
_OPS: Final = tuple(
    prefix + name
    for prefix in ("SparseApply", "ResourceSparseApply")
    for name in _SHORT_NAMES
    if prefix + name in _DEFINED
)
#: Rows that differ, and rows named more than once; few of them, and more than a set is made of.
_ROWS: Final = {
    "apart": [4, 0, 2],
    "again": [2, 4, 2, 2, 0, 4],
    "many": [i * i % 5 for i in range(300)],
    "none": [],
}
_WIDTH: Final = 3


def _step(g: fe.Graph, op: str, rows: Any) -> tuple[list[Any], list[Any], Any]:
    """(initializers, values afterwards, the step)."""
    inputs, begins, values, arguments = [a.name for a in _DEFINED[op].inputs], [], [], []
    rng = np.random.default_rng(7)
    count = rows.size
    for name in inputs:
        if name == "indices":
            arguments.append(g.constant(rows, "int32"))
        elif name == "grad":
            arguments.append(g.constant(rng.normal(size=(count, _WIDTH)).astype(np.float32)))
        elif name in ("lr", "alpha", "l1", "l2", "l2_shrinkage", "rho", "epsilon", "momentum"):
            arguments.append(g.constant(np.float32(0.1)))
        elif name == "lr_power":
            arguments.append(g.constant(np.float32(-0.5)))
        elif name == "global_step":
            arguments.append(g.constant(np.int64(3)))
        else:
            start = rng.random((5, _WIDTH)).astype(np.float32) + (name in ("ms", "rms"))
            if op.startswith("Resource"):
                handle = g.ops.VarHandleOp(shape=[5, _WIDTH], dtype="float32", shared_name=name)
                begins.append(g.ops.AssignVariableOp(handle, start))
                values.append(handle)
            else:
                handle = g.ops.VariableV2(shape=[5, _WIDTH], dtype="float32", name=name)
                begins.append(g.ops.Assign(handle, start).op)
                values.append(handle)
            arguments.append(handle)
    made = getattr(g.ops, op)(*arguments)
    step = getattr(made, "op", made)
    with g.control_dependencies([step]):
        reads = [
            g.ops.ReadVariableOp(v, dtype="float32") if op.startswith("Resource") else g.ops.Identity(v)
            for v in values
        ]
    return begins, reads, step


@pytest.mark.parametrize("rows", _ROWS)
@pytest.mark.parametrize("op", _OPS)
async def test_rows_change_as_on_a_cpu(op: str, rows: str) -> None:
    found = []
    for device in ("/cpu:0", GPU):
        g = fe.Graph()
        with g.device(device):
            begins, reads, _ = _step(g, op, np.array(_ROWS[rows], np.int32))
        async with opened(g, seed=3) as (session, gpu):
            for begin in begins:
                await session.run((), targets=[begin])
            found.append(await session.run(reads))
            assert (device == GPU) == (_launched(gpu) > 0)
    for far, near in zip(*found, strict=True):
        np.testing.assert_allclose(far, near, rtol=1e-6)


def _launched(gpu: SimulatedGpu) -> int:
    return len(gpu.launches)


async def test_a_row_that_is_none_changes_nothing() -> None:
    g = fe.Graph()
    with g.device(GPU):
        begins, reads, step = _step(g, "ResourceSparseApplyAdagrad", np.array([1, 5], np.int32))
        before = [g.ops.ReadVariableOp(value.op.inputs[0], dtype="float32") for value in reads]
    async with opened(g) as (session, _):
        for begin in begins:
            await session.run((), targets=[begin])
        first = await session.run(before)
        with pytest.raises(fe.errors.InvalidArgumentError, match=r"Index 5 at offset 1 .* \[0, 5\)"):
            await session.run((), targets=[step])
        np.testing.assert_array_equal(await session.run(before), first)
