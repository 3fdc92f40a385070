"""Tables without a name: each run of their node makes one of its own."""

from __future__ import annotations

import pytest

import flowengine as fe

_TYPES = {"key_dtype": "int64", "value_dtype": "float32"}


@pytest.mark.parametrize("kind", ["AnonymousMutableHashTable", "AnonymousMutableDenseHashTable"])
async def test_each_run_has_a_table_of_its_own(kind: str) -> None:
    graph = fe.Graph()
    ops = graph.ops
    reserved = [graph.constant(k, "int64") for k in (-1, -2)] if "Dense" in kind else []
    table = getattr(ops, kind)(*reserved, **_TYPES)
    before = ops.LookupTableSizeV2(table)
    keys = graph.constant([1, 2], "int64")
    with graph.control_dependencies([before]):
        inserted = ops.LookupTableInsertV2(table, keys, graph.constant([1.0, 2.0]))
    with graph.control_dependencies([inserted]):
        found = ops.LookupTableFindV2(table, keys, graph.constant(0.0))
    async with fe.Session(graph) as session:
        for _ in range(2):
            size, values = await session.run([before, found])
            assert (int(size), values.tolist()) == (0, [1.0, 2.0])


async def test_a_table_of_vectors() -> None:
    graph = fe.Graph()
    ops = graph.ops
    table = ops.AnonymousMutableHashTableOfTensors(value_shape=[2], **_TYPES)
    keys = graph.constant([7], "int64")
    inserted = ops.LookupTableInsertV2(table, keys, graph.constant([[1.0, 2.0]]))
    with graph.control_dependencies([inserted]):
        found = ops.LookupTableFindV2(table, keys, graph.constant([0.0, 0.0]))
    async with fe.Session(graph) as session:
        assert (await session.run(found)).tolist() == [[1.0, 2.0]]


async def test_a_table_that_is_filled_once() -> None:
    graph = fe.Graph()
    ops = graph.ops
    table = ops.AnonymousHashTable(**_TYPES)
    keys = graph.constant([7, 8], "int64")
    filled = ops.InitializeTableV2(table, keys, graph.constant([1.0, 2.0]))
    with graph.control_dependencies([filled]):
        found = ops.LookupTableFindV2(table, graph.constant([8, 9], "int64"), graph.constant(-1.0))
    async with fe.Session(graph) as session:
        assert (await session.run(found)).tolist() == [2.0, -1.0]


async def test_values_of_more_than_a_vector_are_refused() -> None:
    graph = fe.Graph()
    table = graph.ops.AnonymousMutableHashTableOfTensors(value_shape=[2, 2], **_TYPES)
    size = graph.ops.LookupTableSizeV2(table)
    async with fe.Session(graph) as session:
        with pytest.raises(fe.errors.InvalidArgumentError, match="must be a vector"):
            await session.run(size)
