"""Which ops a step boundary has to wait for: those that write a variable, and no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flowengine.graphs.graph import Graph
from flowengine.train.boundary import changes_variables


def changed_by(op: str) -> bool:
    """Whether a step of a graph with this op, and what it needs, may change a variable."""
    g = Graph()
    ops = g.ops
    handle = ops.VarHandleOp(dtype="int64", shape=[3])
    table = ops.MutableHashTableV2(key_dtype="int64", value_dtype="int64")
    queue = ops.FIFOQueueV2(component_types=["float32"])
    made: dict[str, Callable[[], object]] = {
        "AssignAddVariableOp": lambda: ops.AssignAddVariableOp(handle, g.constant([1, 2, 3], "int64")),
        "RngSkip": lambda: ops.RngSkip(handle, g.constant(1, "int64"), g.constant(1, "int64")),
        "StatefulUniform": lambda: ops.StatefulUniform(handle, g.constant(1, "int64"), [2]),
        "DestroyResourceOp": lambda: ops.DestroyResourceOp(handle),
        "ReadVariableOp": lambda: ops.ReadVariableOp(handle, dtype="int64"),
        "ResourceGather": lambda: ops.ResourceGather(handle, [0], dtype="int64"),
        "VariableShape": lambda: ops.VariableShape(handle),
        "ScatterNd": lambda: ops.ScatterNd([[0]], [1.0], [3]),
        "LookupTableInsertV2": lambda: ops.LookupTableInsertV2(
            table, g.constant([1], "int64"), g.constant([1], "int64")
        ),
        "QueueEnqueueV2": lambda: ops.QueueEnqueueV2(queue, [g.constant(1.0)]),
        "Identity": lambda: ops.Identity(handle),
    }
    made[op]()
    assert any(node.op == op for node in g)
    return changes_variables(g)


@pytest.mark.parametrize("op", ["AssignAddVariableOp", "RngSkip", "StatefulUniform", "DestroyResourceOp"])
def test_writes(op: str) -> None:
    assert changed_by(op)


@pytest.mark.parametrize(
    "op",
    [
        *("ReadVariableOp", "ResourceGather", "VariableShape", "ScatterNd", "LookupTableInsertV2"),
        *("QueueEnqueueV2", "Identity"),
    ],
)
def test_leaves_variables_alone(op: str) -> None:
    assert not changed_by(op)


def test_a_variable_of_strings_is_a_variable() -> None:
    g = Graph()
    g.ops.Assign(g.ops.VariableV2(shape=[], dtype="string"), g.constant(b"a"))
    assert changes_variables(g)
