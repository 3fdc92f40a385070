"""Sparse updates beside reads of the same variable: rows are copied, never the variable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core import dtypes as dt
from flowengine.resources.variable import Variable

#: Enough that the whole variable is judged heavy where it is an input.
_ROWS = 200_000


def _build(kind: str) -> fe.Graph:
    graph = fe.Graph()
    ops: Any = graph.ops
    start = ops.Fill(graph.constant(np.array([_ROWS, 4], np.int32)), graph.constant(np.float32(1)))
    indices = ops.Placeholder(dtype=dt.int32, name="indices")
    zero, tenth = graph.constant(np.int32(0)), graph.constant(np.float32(0.1))
    if kind == "reference":
        variable = ops.VariableV2(dtype=dt.float32, shape=[_ROWS, 4], name="v")
        ops.Assign(variable, start, name="assign")
        rows = ops.GatherV2(ops.Identity(variable), indices, zero)
        total = ops.Sum(ops.Identity(variable), graph.constant(np.array([0, 1], np.int32)), name="total")
        with graph.control_dependencies([total]):
            ops.ScatterSub(variable, indices, ops.Mul(rows, tenth), name="update")
        ops.Identity(variable, name="read")
    else:
        variable = ops.VarHandleOp(dtype=dt.float32, shape=[_ROWS, 4], shared_name="v")
        ops.AssignVariableOp(variable, start, name="assign")
        rows = ops.ResourceGather(variable, indices, dtype=dt.float32)
        read = ops.ReadVariableOp(variable, dtype=dt.float32)
        total = ops.Sum(read, graph.constant(np.array([0, 1], np.int32)), name="total")
        with graph.control_dependencies([total]):
            ops.ResourceScatterSub(variable, indices, ops.Mul(rows, tenth), name="update")
        ops.ReadVariableOp(variable, dtype=dt.float32, name="read")
    return graph


@pytest.mark.parametrize("kind", ["reference", "resource"])
async def test_nothing_but_rows_is_copied(kind: str) -> None:
    rows = np.arange(0, _ROWS, _ROWS // 32, dtype=np.int32)[:32]
    async with fe.Session(_build(kind)) as session:
        await session.run([], targets=["assign"])
        variable = session.resources.lookup("", "v", Variable)
        variable.copies = 0
        for step in range(5):
            total = await session.run("total:0", {"indices:0": rows}, targets=["update"])
            assert total == pytest.approx(4 * (_ROWS - 32 + 32 * 0.9**step), rel=1e-5)
        assert variable.copies == 0
        held = await session.run("read:0")
        await session.run([], {"indices:0": rows}, targets=["update"])
        assert held[rows].tolist() == pytest.approx(np.full((32, 4), 0.9**5))
        assert variable.copies == 0, "what was fetched is the caller's own and no loan"
