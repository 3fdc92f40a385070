"""Calls whose node names a gradient: TensorFlow 2.0 to 2.3 mark each call of a traced function so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.ir.names import CALL_OPS


def squared(mark: bytes, op: str = "StatefulPartitionedCall") -> tuple[fe.Graph, fe.Tensor, Any]:
    """`y`, a marked call of a function that squares w (3) times x, its x and w."""
    graph = fe.Graph()

    @fe.function(graph, ["float32", "resource"])
    def square(x: fe.Tensor, w: fe.Tensor) -> fe.Tensor:
        value = x.graph.ops.ReadVariableOp(w, dtype="float32")
        return x.graph.ops.Square(x.graph.ops.Mul(x, value))

    x = graph.placeholder("float32", [], name="x")
    w = graph.variable(np.float32(3), name="w")
    attrs = {"Tout": ["float32"], "f": square.attr, "_gradient_op_type": mark}
    graph.create_op(op, [[x, w.handle]], attrs, "y")
    return graph, x, w


@pytest.mark.parametrize("op", sorted(CALL_OPS - {"RemoteCall"}))
async def test_a_gradient_goes_through_the_body(op: str) -> None:
    graph, x, w = squared(f"{op}-42".encode(), op)
    (dx,) = fe.gradients(graph.tensor("y:0"), [x])
    async with fe.Session(graph) as session:
        await session.run(w.initializer)
        assert await session.run(dx, {"x": 2.0}) == 36


def test_a_gradient_of_ones_own_is_asked_for_by_its_name() -> None:
    graph, x, _ = squared(b"Mine")
    with pytest.raises(
        fe.errors.OpError, match="asks for the gradient function 'Mine', which is not registered"
    ):
        fe.gradients(graph.tensor("y:0"), [x])


@pytest.mark.parametrize("mark", [b"PartitionedCall-7", b"Mine"])
async def test_freezing_looks_into_it(mark: bytes) -> None:
    graph, _, w = squared(mark)
    async with fe.Session(graph) as session:
        await session.run(w.initializer)
        frozen = await fe.freeze(graph, session, ["y:0"])
    async with fe.Session(frozen) as session:
        assert await session.run("y:0", {"x": 2.0}) == 36
