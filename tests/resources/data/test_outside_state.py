"""State that functions keep outside of a pipeline: reported, ignored or refused when its place is saved."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError

KINDS: Final[dict[str, Any]] = {"output_types": ["int64"], "output_shapes": [[]]}


def _mapped(graph: fe.Graph, function: Any, *captured: fe.Tensor) -> fe.Tensor:
    numbers = graph.ops.RangeDataset(*map(np.int64, (0, 100, 1)), **KINDS)
    found: fe.Tensor = graph.ops.MapDataset(numbers, list(captured), f=function.attr, **KINDS)
    return found


def _pure(graph: fe.Graph) -> fe.Tensor:
    return _mapped(graph, fe.function(graph, ["int64"])(lambda x: x + 1))


def _drawn(x: fe.Tensor) -> fe.Tensor:
    shape = np.zeros(0, np.int32)
    return x + x.graph.ops.RandomUniformInt(shape, np.int64(0), np.int64(1), seed=1, seed2=2)


def _random(graph: fe.Graph) -> fe.Tensor:
    return _mapped(graph, fe.function(graph, ["int64"])(_drawn))


def _called(graph: fe.Graph) -> fe.Tensor:
    """Random numbers in a function that a branch calls, under datasets without functions."""

    drawn = fe.function(graph, ["int64"])(_drawn)

    @fe.function(graph, ["int64"])
    def same(x: fe.Tensor) -> fe.Tensor:
        return x + 1

    @fe.function(graph, ["int64"])
    def chosen(x: fe.Tensor) -> fe.Tensor:
        ops = x.graph.ops
        branches: dict[str, Any] = {"then_branch": drawn.attr, "else_branch": same.attr}
        found: fe.Tensor = ops.If(ops.Less(x, np.int64(3)), [x], Tout=["int64"], **branches)[0]
        return found

    batched = graph.ops.BatchDatasetV2(_mapped(graph, chosen), np.int64(1), False, **KINDS)
    found: fe.Tensor = graph.ops.UnbatchDataset(batched, **KINDS)
    return found


def _variable(graph: fe.Graph) -> fe.Tensor:
    @fe.function(graph, ["int64", "resource"])
    def added(x: fe.Tensor, handle: fe.Tensor) -> fe.Tensor:
        return x + x.graph.ops.ReadVariableOp(handle, dtype="int64")

    handle = graph.ops.VarHandleOp(dtype="int64", shape=[], shared_name="v")
    graph.ops.AssignVariableOp(handle, graph.placeholder("int64", [], name="value"), name="set")
    return _mapped(graph, added, handle)


def _table(graph: fe.Graph) -> fe.Tensor:
    @fe.function(graph, ["int64", "resource"])
    def found(x: fe.Tensor, table: fe.Tensor) -> fe.Tensor:
        value: fe.Tensor = x.graph.ops.LookupTableFindV2(table, x, np.int64(7))
        return value

    ops = graph.ops
    table = ops.HashTableV2(key_dtype="int64", value_dtype="int64", shared_name="t")
    ops.LookupTableImportV2(table, np.arange(3), np.arange(3) * 10, name="fill")
    return _mapped(graph, found, table)


#: {name: pipeline, and the op that TensorFlow 2.21 names}
PIPELINES: Final[dict[str, tuple[Callable[[fe.Graph], fe.Tensor], str]]] = {
    "pure": (_pure, ""),
    "random": (_random, "RandomUniformInt"),
    "called": (_called, "RandomUniformInt"),
    "variable": (_variable, "ReadVariableOp"),
    "table": (_table, ""),
}
POLICIES: Final = {"warn": 0, "ignore": 1, "fail": 2}


def _begun(graph: fe.Graph, dataset: fe.Tensor, name: str = "it") -> fe.Tensor:
    iterator: fe.Tensor = graph.ops.IteratorV2(shared_name=name, container="", name=name, **KINDS)
    graph.ops.MakeIterator(dataset, iterator, name=f"make_{name}")
    graph.ops.IteratorGetNext(iterator, name=f"next_{name}", **KINDS)
    return iterator


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("pipeline", PIPELINES)
async def test_the_place_of_an_iterator_is_saved_as_the_policy_says(
    pipeline: str, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    make, op = PIPELINES[pipeline]
    graph = fe.Graph()
    iterator = _begun(graph, make(graph))
    graph.ops.SerializeIterator(iterator, external_state_policy=POLICIES[policy], name="place")
    begun = ["make_it"] + ["fill"] * ("fill" in graph)
    with caplog.at_level(logging.WARNING, "flowengine.resources"):
        async with fe.Session(graph) as session:
            if "set" in graph:
                await session.run([], {"value:0": 5}, targets=["set"])
            await session.run([], targets=begun)
            await session.run("next_it:0")
            if op and policy == "fail":
                with pytest.raises(FailedPreconditionError, match=f"{op} is stateful"):
                    await session.run("place:0")
            else:
                await session.run("place:0")
            assert await session.run("next_it:0") is not None
    told = [record.message for record in caplog.records if "is stateful" in record.message]
    assert [each.split()[0] for each in told] == ([op] if op and policy == "warn" else [])


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("pipeline", ["pure", "random", "called"])
async def test_the_graph_of_a_dataset_is_saved_as_the_policy_says(pipeline: str, policy: str) -> None:
    make, op = PIPELINES[pipeline]
    graph = fe.Graph()
    dataset = make(graph)
    graph.ops.DatasetToGraphV2(dataset, external_state_policy=POLICIES[policy], name="new")
    graph.ops.DatasetToGraph(dataset, allow_stateful=policy != "fail", name="old")
    async with fe.Session(graph) as session:
        for name in ("new:0", "old:0"):
            if op and policy == "fail":
                with pytest.raises(FailedPreconditionError, match=f"{op} is stateful"):
                    await session.run(name)
            else:
                assert b"MapDataset" in await session.run(name)


async def test_a_policy_that_there_is_not_is_refused() -> None:
    graph = fe.Graph()
    iterator = _begun(graph, _pure(graph))
    graph.ops.SerializeIterator(iterator, external_state_policy=3, name="place")
    async with fe.Session(graph) as session:
        await session.run([], targets=["make_it"])
        with pytest.raises(InvalidArgumentError, match="Unexpected value of external policy: 3"):
            await session.run("place:0")


@pytest.mark.parametrize(("pipeline", "expected"), [("variable", 6), ("table", 10)])
async def test_an_iterator_over_resources_goes_on_in_the_dataset_that_it_has(
    pipeline: str, expected: int
) -> None:
    """As in TensorFlow, which keeps no dataset beside the place."""
    graph = fe.Graph()
    dataset = PIPELINES[pipeline][0](graph)
    first, second = _begun(graph, dataset), _begun(graph, dataset, "other")
    place = graph.ops.SerializeIterator(first, external_state_policy=1)
    graph.ops.DeserializeIterator(second, place, name="restore")
    async with fe.Session(graph) as session:
        if "set" in graph:
            await session.run([], {"value:0": 5}, targets=["set"])
        else:
            await session.run([], targets=["fill"])
        await session.run([], targets=["make_it"])
        await session.run("next_it:0")
        with pytest.raises(FailedPreconditionError, match="begin this iterator with the same dataset"):
            await session.run([], targets=["restore"])
        await session.run([], targets=["make_other"])
        await session.run([], targets=["restore"])
        assert await session.run("next_other:0") == expected
        assert await session.run("next_it:0") == expected
