"""Sparse tensors that are kept in maps, or flow as variants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe

_INDICES = [[0, 1], [1, 0], [1, 3]]


def _sparse(graph: fe.Graph) -> tuple[Any, Any, Any]:
    return (
        graph.constant(_INDICES, "int64"),
        graph.constant([1.0, 2.0, 3.0]),
        graph.constant([2, 4], "int64"),
    )


def _lists(values: Any) -> list[Any]:
    return [np.asarray(value).tolist() for value in values]


async def test_what_is_added_is_taken_once() -> None:
    graph = fe.Graph()
    ops = graph.ops
    one = ops.AddSparseToTensorsMap(*_sparse(graph), shared_name=b"map")
    many = ops.AddManySparseToTensorsMap(*_sparse(graph), shared_name=b"map")
    handles = graph.placeholder("int64", [None])
    take = ops.TakeManySparseFromTensorsMap(handles, dtype="float32", shared_name=b"map")
    async with fe.Session(graph) as session:
        first = await session.run(one)
        rows = await session.run(many)
        assert (int(first), rows.tolist()) == (0, [1, 2])
        taken = await session.run(list(take), {handles: rows[::-1]})
        assert _lists(taken) == [[[0, 0], [0, 3], [1, 1]], [2.0, 3.0, 1.0], [2, 4]]
        with pytest.raises(fe.errors.InvalidArgumentError, match="Unable to find SparseTensor: 1"):
            await session.run(list(take), {handles: [1]})
        assert _lists(await session.run(list(take), {handles: [0]})) == [
            [[0, 0, 1], [0, 1, 0], [0, 1, 3]],
            [1.0, 2.0, 3.0],
            [1, 2, 4],
        ]


async def test_what_is_kept_is_not_the_feed() -> None:
    """The caller may write to the fed arrays afterwards."""
    graph = fe.Graph()
    ops = graph.ops
    fed = [graph.placeholder(*each) for each in (("int64", [None, 2]), ("float32", [None]), ("int64", [2]))]
    one = ops.AddSparseToTensorsMap(*fed, shared_name=b"map")
    many = ops.AddManySparseToTensorsMap(*fed, shared_name=b"map")
    handles = graph.placeholder("int64", [None])
    take = ops.TakeManySparseFromTensorsMap(handles, dtype="float32", shared_name=b"map")
    arrays = [np.array(_INDICES), np.array([1, 2, 3], np.float32), np.array([2, 4])]
    async with fe.Session(graph) as session:
        numbers = await session.run([one, many], dict(zip(fed, arrays, strict=True)))
        for array in arrays:
            array[...] = 0
        whole = _lists(await session.run(list(take), {handles: [int(numbers[0])]}))
        rows = _lists(await session.run(list(take), {handles: numbers[1]}))
    assert whole == [[[0, 0, 1], [0, 1, 0], [0, 1, 3]], [1, 2, 3], [1, 2, 4]]
    assert rows == [_INDICES, [1, 2, 3], [2, 4]]


async def test_another_type_than_the_kept_one_is_refused() -> None:
    graph = fe.Graph()
    one = graph.ops.AddSparseToTensorsMap(*_sparse(graph), shared_name=b"map")
    take = graph.ops.TakeManySparseFromTensorsMap(
        graph.ops.Reshape(one, [1]), dtype="int32", shared_name=b"map"
    )
    async with fe.Session(graph) as session:
        with pytest.raises(fe.errors.InvalidArgumentError, match="is of float32"):
            await session.run(list(take))


async def test_variants_hold_the_parts() -> None:
    graph = fe.Graph()
    ops = graph.ops
    whole = ops.SerializeSparse(*_sparse(graph), out_type="variant")
    rows = ops.SerializeManySparse(*_sparse(graph), out_type="variant")
    back = [ops.DeserializeSparse(x, dtype="float32") for x in (whole, rows)]
    picked = ops.DeserializeSparse(ops.Slice(rows, [1, 0], [1, 3]), dtype="float32")
    async with fe.Session(graph) as session:
        for sparse in back:
            assert _lists(await session.run(list(sparse))) == [_INDICES, [1.0, 2.0, 3.0], [2, 4]]
        assert _lists(await session.run(list(picked))) == [[[0, 0], [0, 3]], [2.0, 3.0], [1, 4]]
