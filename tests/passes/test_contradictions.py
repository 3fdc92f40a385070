"""Contradictions: a step that needs a node whose shapes cannot be right is refused when it is planned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.ir.opdef import OpRegistry
from flowengine.ops.load import registry


def _imported(op: str, *inputs: Any, **attrs: Any) -> fe.Graph:
    """A graph with a node that its constructor would refuse, as a file may hold it."""
    lenient = OpRegistry(registry())
    lenient.register(replace(registry()[op], shape=None))
    graph = fe.Graph(registry=lenient)
    graph.constant(7.0, name="other")
    graph.create_op(op, [graph.constant(each, name=f"in{i}") for i, each in enumerate(inputs)], attrs, "node")
    graph.ops.Identity(graph.tensor("node:0"), name="after")
    return fe.Graph.from_graph_def(graph.to_graph_def())


async def test_the_step_is_refused_with_the_node_and_its_shapes() -> None:
    # A sum over axes that are a matrix is a value like any other to a kernel.
    graph = _imported("Sum", np.ones((2, 3), np.float32), np.array([[0]], np.int32))
    async with fe.Session(graph) as session:
        with pytest.raises(fe.errors.InvalidArgumentError, match="at most rank 1 but is rank 2") as caught:
            await session.run("after:0")
        assert "'node'" in str(caught.value)
        assert caught.value.input_shapes == ("[2,3]", "[1,1]")
        assert await session.run("other:0") == 7, "a step that does not need it runs"


async def test_nothing_is_said_of_what_is_fed() -> None:
    graph = _imported("Sum", np.ones((2, 3), np.float32), np.array([[0]], np.int32))
    async with fe.Session(graph) as session:
        assert await session.run("after:0", {"node:0": 3.0}) == 3
        axes = np.array([1], np.int32)
        assert (await session.run("after:0", {"in1:0": axes})).tolist() == [3, 3]


async def test_what_a_placeholder_declares_counts() -> None:
    lenient = OpRegistry(registry())
    lenient.register(replace(registry()["Add"], shape=None))
    graph = fe.Graph(registry=lenient)
    x = graph.placeholder("float32", [2], name="x")
    graph.ops.Add(x, graph.constant([1.0, 2.0, 3.0]), name="node")
    imported = fe.Graph.from_graph_def(graph.to_graph_def())
    async with fe.Session(imported) as session:
        with pytest.raises(fe.errors.InvalidArgumentError, match="node"):
            await session.run("node:0", {"x:0": [1.0, 2.0]})


@pytest.mark.parametrize("shape", [[3], [1, 2, 3], [0, 3]])
async def test_what_is_assigned_is_of_the_shape_that_the_handle_declares(shape: list[int]) -> None:
    lenient = OpRegistry(registry())
    lenient.register(replace(registry()["AssignVariableOp"], shape=None))
    graph = fe.Graph(registry=lenient)
    handle = graph.ops.VarHandleOp(dtype="float32", shape=[2, 3], shared_name="v")
    graph.ops.AssignVariableOp(handle, graph.constant(np.zeros(shape, np.float32)), name="node")
    async with fe.Session(fe.Graph.from_graph_def(graph.to_graph_def())) as session:
        with pytest.raises(fe.errors.InvalidArgumentError, match=r"declared \[2,3\]"):
            await session.run([], targets=["node"])


async def test_ids_of_more_dimensions_than_the_strings_are_refused_by_their_shapes() -> None:
    graph = _imported("UnsortedSegmentJoin", np.array([b"a", b"b"], object), np.array([[0, 1]]), 1)
    async with fe.Session(graph) as session:
        with pytest.raises(fe.errors.InvalidArgumentError, match="at least rank 2 but is rank 1"):
            await session.run("node:0")
