"""`session.initialize`: what has no value gets one, in order of dependence, in each kind of session."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe


def chained(use_resource: bool = True) -> fe.Graph:
    """c is made from b, which is made from a; listed in the order c, a, b."""
    graph = fe.Graph()
    a = graph.variable(1.0, name="a", use_resource=use_resource, collections=["a"])
    b = graph.variable(graph.ops.Add(a.value(), 1.0), name="b", use_resource=use_resource, collections=["b"])
    c = graph.variable(graph.ops.Mul(b.value(), 5.0), name="c", use_resource=use_resource)
    graph.add_to_collection("variables", a)
    graph.add_to_collection("local_variables", b)
    graph.ops.Identity(c.value(), name="out")
    return graph


@pytest.mark.parametrize("use_resource", [True, False])
def test_in_order_of_dependence(use_resource: bool) -> None:
    graph = chained(use_resource)
    with fe.blocking.Session(graph) as session:
        assert [each.name for each in session.uninitialized()] == ["c:0", "a:0", "b:0"]
        assert [each.name for each in session.initialize()] == ["c:0", "a:0", "b:0"]
        assert session.run("out:0") == 10
        assert session.uninitialized() == session.initialize() == []


def test_what_has_a_value_keeps_it() -> None:
    graph = chained()
    a, b = graph.collection("variables")[1], graph.collection("local_variables")[0]
    with fe.blocking.Session(graph) as session:
        assert session.initialize([a]) == [a]
        session.run(a.assign_op(4.0))
        assert b in session.initialize()
        assert session.run("out:0") == 25


def test_variables_in_parts() -> None:
    graph = fe.Graph()
    w = graph.variable([1.0, 2.0, 3.0], partitioner=fe.partitioners.fixed_size(2))
    with fe.blocking.Session(graph) as session:
        assert session.initialize([w]) == list(w.parts)
        assert session.run(w.value()).tolist() == [1, 2, 3]


def test_what_needs_itself_is_told() -> None:
    graph = fe.Graph()
    a = graph.variable(1.0, name="a", collections=["x"])
    b = graph.variable(2.0, name="b", collections=["x"])
    a.initializer = a.assign_op(b.value())
    b.initializer = b.assign_op(a.value())
    with (
        fe.blocking.Session(graph) as session,
        pytest.raises(fe.errors.InvalidArgumentError, match="a, b need each other"),
    ):
        session.initialize([a, b])


def test_in_trio_and_in_asyncio() -> None:
    async def in_trio() -> None:
        async with fe.Session(chained()) as session:
            assert len(await session.initialize()) == 3
            assert await session.run("out:0") == 10
            assert await session.uninitialized() == []

    async def in_asyncio() -> None:
        async with fe.asyncio.Session(chained()) as session:
            assert len(await session.initialize()) == 3
            assert await session.run("out:0") == 10
            assert await session.uninitialized() == []

    async def in_either() -> None:
        async with fe.anyio.Session(chained()) as session:
            assert len(await session.initialize()) == 3
            assert await session.run("out:0") == 10
            assert await session.uninitialized() == []

    trio.run(in_trio)
    trio.run(in_either)
    asyncio.run(in_either())
    asyncio.run(in_asyncio())


def test_a_graph_that_lists_nothing_has_nothing_to_initialize() -> None:
    with fe.blocking.Session(fe.Graph()) as session:
        assert session.initialize() == []


def with_a_table() -> fe.Graph:
    """A table and an iterator that are begun by what the graph lists; a variable."""
    graph = fe.Graph()
    ops = graph.ops
    graph.variable(1.0, name="w")
    table = ops.HashTableV2(key_dtype="string", value_dtype="int64", shared_name="t", name="table")
    keys = graph.constant(np.array([b"a", b"b"], object))
    filled = ops.LookupTableImportV2(table, keys, np.array([5, 7], np.int64), name="fill")
    ops.LookupTableFindV2(table, keys, np.int64(-1), name="found")
    kinds: dict[str, Any] = {"output_types": ["int64"], "output_shapes": [[]]}
    iterator = ops.IteratorV2(shared_name="it", container="", **kinds)
    begun = ops.MakeIterator(ops.RangeDataset(*map(np.int64, (0, 9, 1)), **kinds), iterator, name="begin")
    ops.IteratorGetNext(iterator, name="next", **kinds)
    for each in (filled, begun, filled):
        graph.add_to_collection("table_initializer", each)
    return graph


def test_tables_are_filled_and_iterators_begun_once(tmp_path: Path) -> None:
    graph = with_a_table()
    path = tmp_path / "model.meta"
    path.write_bytes(graph.to_meta_graph().SerializeToString())
    for each in (graph, fe.Graph.load(path)):
        with fe.blocking.Session(each) as session:
            assert [variable.name for variable in session.initialize()] == ["w:0"]
            assert session.run("found:0").tolist() == [5, 7]
            assert session.run("next:0") == 0
            assert session.initialize() == []
            assert session.run("next:0") == 1  # it goes on


def test_what_only_names_a_node_is_left_out() -> None:
    graph = with_a_table()
    graph.add_to_collection("table_initializer", "no_such_node")
    with fe.blocking.Session(graph) as session:
        session.initialize(graph.collection("variables"))
        with pytest.raises(fe.errors.FailedPreconditionError):
            session.run("next:0")  # only the variables were meant
        session.initialize()
        assert session.run("next:0") == 0
