"""Ragged tensors that flow as variants, whole and row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe

_OUTER, _INNER, _VALUES = [0, 1, 3], [0, 2, 2, 5], [1.0, 2.0, 3.0, 4.0, 5.0]


def _lists(values: Any) -> list[Any]:
    return [np.asarray(value).tolist() for value in values]


def _encoded(graph: fe.Graph, batched: bool) -> Any:
    splits = [graph.constant(each, "int64") for each in (_OUTER, _INNER)]
    return graph.ops.RaggedTensorToVariant(splits, graph.constant(_VALUES), batched_input=batched)


def _decoded(graph: fe.Graph, encoded: Any, rank: int, inner: int = -1, dtype: str = "float32") -> list[Any]:
    found = graph.ops.RaggedTensorFromVariant(
        encoded, input_ragged_rank=inner, output_ragged_rank=rank, Tvalues=dtype, Tsplits="int64"
    )
    flat: list[Any] = []
    for each in found:
        flat += each if isinstance(each, list | tuple) else [each]
    return flat


@pytest.mark.parametrize("batched", [False, True])
async def test_what_went_in_comes_out(batched: bool) -> None:
    graph = fe.Graph()
    back = _decoded(graph, _encoded(graph, batched), 2)
    async with fe.Session(graph) as session:
        assert _lists(await session.run(back)) == [_OUTER, _INNER, _VALUES]


async def test_rows_are_picked_and_stacked() -> None:
    graph = fe.Graph()
    rows = _encoded(graph, True)
    picked = _decoded(graph, graph.ops.GatherV2(rows, [[1, 0], [1, 1]], 0), 3, 1)
    async with fe.Session(graph) as session:
        assert _lists(await session.run(picked)) == [
            [0, 2, 4],
            [0, 2, 3, 5, 7],
            [0, 0, 3, 5, 5, 8, 8, 11],
            [3.0, 4.0, 5.0, 1.0, 2.0, 3.0, 4.0, 5.0, 3.0, 4.0, 5.0],
        ]


async def test_gradients_of_rows_are_the_gradient_of_the_values() -> None:
    graph = fe.Graph()
    rows = graph.ops.RaggedTensorToVariant(
        [graph.constant(_INNER, "int64")], graph.constant(_VALUES), batched_input=True
    )
    gradient = graph.ops.RaggedTensorToVariantGradient(
        rows, graph.constant(_INNER, "int64"), graph.constant([5]), Tvalues="float32"
    )
    async with fe.Session(graph) as session:
        assert (await session.run(gradient)).tolist() == _VALUES


@pytest.mark.parametrize(
    ("rank", "inner", "dtype", "message"),
    [
        (2, 0, "float32", "must be equal to"),
        (0, -1, "float32", "must be >= 0"),
        (1, 0, "float32", "Expected ragged_rank=0"),
        (2, 1, "int32", "found: float32"),
    ],
)
async def test_another_rank_or_type_is_refused(rank: int, inner: int, dtype: str, message: str) -> None:
    graph = fe.Graph()
    back = _decoded(graph, _encoded(graph, True), rank, inner, dtype)
    async with fe.Session(graph) as session:
        with pytest.raises(fe.errors.InvalidArgumentError, match=message):
            await session.run(back)
