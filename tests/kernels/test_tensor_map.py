"""Maps from tensors to tensors: each operation makes another map, and leaves the one that it was given."""

from __future__ import annotations

from typing import Any

import pytest

import flowengine as fe


def _inserted(graph: fe.Graph, handle: Any, *pairs: tuple[Any, Any]) -> Any:
    for key, value in pairs:
        handle = graph.ops.TensorMapInsert(handle, graph.constant(key), graph.constant(value))
    return handle


async def test_maps_are_values() -> None:
    graph = fe.Graph()
    ops = graph.ops
    empty = ops.EmptyTensorMap()
    one = _inserted(graph, empty, ([1, 2], 3.0))
    two = _inserted(graph, one, ([1, 2], 5.0), ([2, 1], 4.0))
    key = graph.constant([1, 2])
    erased = ops.TensorMapErase(two, key, value_dtype="float32")
    fetches = {
        "sizes": [ops.TensorMapSize(m) for m in (empty, one, two, erased)],
        "values": [ops.TensorMapLookup(m, key, value_dtype="float32") for m in (one, two)],
        "has": [ops.TensorMapHasKey(m, key) for m in (one, erased)],
        "keys": [ops.TensorMapStackKeys(two, key_dtype="int32")],
    }
    async with fe.Session(graph) as session:
        got = {name: [v.tolist() for v in await session.run(each)] for name, each in fetches.items()}
    assert got == {
        "sizes": [0, 1, 2, 1],
        "values": [3.0, 5.0],
        "has": [True, False],
        "keys": [[[1, 2], [2, 1]]],
    }


async def test_strings_are_keys() -> None:
    graph = fe.Graph()
    handle = _inserted(graph, graph.ops.EmptyTensorMap(), (b"a", 3.0))
    value = graph.ops.TensorMapLookup(handle, graph.constant(b"a"), value_dtype="float32")
    async with fe.Session(graph) as session:
        assert float(await session.run(value)) == 3.0


@pytest.mark.parametrize("name", ["TensorMapLookup", "TensorMapErase"])
async def test_a_missing_key_is_told(name: str) -> None:
    graph = fe.Graph()
    handle = _inserted(graph, graph.ops.EmptyTensorMap(), (1, 3.0))
    wrong = getattr(graph.ops, name)(handle, graph.constant(2), value_dtype="float32")
    async with fe.Session(graph) as session:
        with pytest.raises(fe.errors.InvalidArgumentError, match="Could not find key"):
            await session.run([], targets=[wrong.op.name])


async def test_an_empty_map_has_no_keys_to_stack() -> None:
    graph = fe.Graph()
    keys = graph.ops.TensorMapStackKeys(graph.ops.EmptyTensorMap(), key_dtype="int32")
    async with fe.Session(graph) as session:
        with pytest.raises(fe.errors.InvalidArgumentError, match="empty map"):
            await session.run(keys)
