"""Embeddings beside TensorFlow 1.15's: what is looked up, and gradients by each part of the table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.client.embedding import SparseParts
from flowengine.core.errors import InvalidArgumentError
from flowengine.gradients.values import dense
from tests.client import replayed


def _looked_up(graph: fe.Graph, case: dict[str, Any]) -> dict[str, Any]:
    inputs = case["inputs"]
    parts = [graph.constant(part) for part in inputs["params"]]
    arguments: list[Any] = [parts, graph.constant(inputs["ids"])]
    if "sparse" in inputs:
        place, shape = (graph.constant(inputs["sparse"][key]) for key in ("indices", "dense_shape"))
        arguments[1] = SparseParts(place, arguments[1], shape)
        if "weights" in inputs:
            arguments.append(SparseParts(place, graph.constant(inputs["weights"]), shape))
    value = replayed.function(case["ours"])(*arguments, **case["options"])
    ops = graph.ops
    factors = ops.Reshape(ops.Cast(ops.Range(0, ops.Size(value), 1), DstT="float32"), ops.Shape(value))
    found = fe.gradients(ops.Mul(value, factors), parts)
    made = {
        f"d_{i}": each if isinstance(each, fe.Tensor) else dense(graph, ops, each)
        for i, each in enumerate(found)
        if each is not None
    }
    return {"value": value, **made}


@pytest.mark.parametrize("group", ["lookup", "sparse", "safe"])
async def test_an_embedding_is_that_of_tensorflow(group: str) -> None:
    graph = fe.Graph()
    fetched = {
        name: _looked_up(graph, case)
        for name, case in replayed.by_name("embedding").items()
        if name.startswith(group)
    }
    async with fe.Session(graph) as session:
        for name, got in (await session.run(fetched)).items():
            replayed.compare("embedding", name, got)


@pytest.mark.parametrize("use_resource", [True, False])
async def test_the_gradient_of_a_variable_is_of_rows(use_resource: bool) -> None:
    graph = fe.Graph()
    table = graph.variable(
        np.arange(12, dtype=np.float32).reshape(4, 3), name="table", use_resource=use_resource
    )
    found = fe.embedding.lookup(table, [[3, 1]])
    assert found.shape.as_list() == [1, 2, 3]
    (gradient,) = fe.gradients(found, [table.handle])
    assert isinstance(gradient, fe.IndexedSlices)
    async with fe.Session(graph) as session:
        await session.run(table.initializer)
        value, rows = await session.run([found, gradient.indices])
    np.testing.assert_array_equal(value, [[[9, 10, 11], [3, 4, 5]]])
    np.testing.assert_array_equal(rows, [3, 1])


async def test_no_ids_at_all_find_rows_of_the_width_of_the_table() -> None:
    graph = fe.Graph()
    parts = [graph.constant(np.zeros((2, 3), np.float32)) for _ in range(2)]
    ids = graph.placeholder("int32", [None])
    async with fe.Session(graph) as session:
        got = await session.run(fe.embedding.lookup(parts, ids), {ids: np.zeros(0, np.int32)})
    assert got.shape == (0, 3)


@pytest.mark.parametrize("counts", [[3, 1], [1, 2]])
async def test_a_partitioned_variable_is_looked_up_as_it_was_cut(counts: list[int]) -> None:
    graph = fe.Graph()
    rows = np.arange(20, dtype=np.float32).reshape(10, 2)
    table = graph.variable(rows, name="table", partitioner=lambda shape, dtype: counts)
    ids = graph.constant([9, 0, 4, 7])
    sparse = SparseParts(graph.constant([[0, 0], [1, 0]], "int64"), ids[:2], graph.constant([2, 1], "int64"))
    found = fe.embedding.lookup(table, ids), fe.embedding.lookup_sparse(table, sparse)
    async with fe.Session(graph) as session:
        await session.initialize()
        got, combined = await session.run(found)
    np.testing.assert_array_equal(got, rows[[9, 0, 4, 7]])
    np.testing.assert_array_equal(combined, rows[[9, 0]])


def test_what_does_not_fit_is_told_when_it_is_written() -> None:
    graph = fe.Graph()
    ids = graph.placeholder("int32", [2])
    table = graph.constant([[1.0]])
    with pytest.raises(InvalidArgumentError, match="empty list"):
        fe.embedding.lookup([], ids)
    with pytest.raises(InvalidArgumentError, match='"mod" or "div"'):
        fe.embedding.lookup([table, table], ids, partition_strategy="round")
    with pytest.raises(InvalidArgumentError, match="combiner is one of"):
        fe.embedding.lookup_sparse(table, SparseParts(ids, ids, ids), combiner="max")
