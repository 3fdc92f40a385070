"""Optionals: what goes in comes out, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import InvalidArgumentError


async def run(graph: fe.Graph, fetches: Any) -> Any:
    async with fe.Session(graph) as session:
        return await session.run(fetches)


async def test_values_come_back() -> None:
    graph = fe.Graph()
    optional = graph.ops.OptionalFromValue([graph.constant([1.5, 2.5]), graph.constant("text", "string")])
    numbers, text = graph.ops.OptionalGetValue(
        optional, output_types=["float32", "string"], output_shapes=[[None], []]
    )
    has = graph.ops.OptionalHasValue(optional)
    values = await run(graph, [numbers, text, has])
    assert np.array_equal(values[0], [1.5, 2.5])
    assert values[1:] == [b"text", True]


async def test_one_value_comes_back_by_itself() -> None:
    graph = fe.Graph()
    optional = graph.ops.OptionalFromValue([graph.constant(3)])
    (value,) = graph.ops.OptionalGetValue(optional, output_types=["int32"], output_shapes=[[]])
    assert await run(graph, value) == 3


async def test_nothing_has_no_value() -> None:
    graph = fe.Graph()
    none = graph.ops.OptionalNone()
    assert not await run(graph, graph.ops.OptionalHasValue(none))
    (value,) = graph.ops.OptionalGetValue(none, output_types=["int32"], output_shapes=[[]])
    with pytest.raises(InvalidArgumentError, match="does not have a value"):
        await run(graph, value)


@pytest.mark.parametrize(
    ("types", "shapes", "message"),
    [
        (["int64"], [[2]], "expected type for component 0"),
        (["int32"], [[3]], "expected shape for component 0"),
        (["int32", "int32"], [[2], [2]], "has 1 components, expected 2"),
    ],
)
async def test_others_than_declared(types: list[str], shapes: list[list[int]], message: str) -> None:
    graph = fe.Graph()
    optional = graph.ops.OptionalFromValue([graph.constant([1, 2])])
    values = graph.ops.OptionalGetValue(optional, output_types=types, output_shapes=shapes)
    with pytest.raises(InvalidArgumentError, match=message):
        await run(graph, list(values))


async def test_what_is_no_optional() -> None:
    graph = fe.Graph()
    shape = graph.constant([], "int32")
    tensors = graph.ops.EmptyTensorList(shape, graph.constant(-1), element_dtype="float32")
    with pytest.raises(InvalidArgumentError, match="holds an optional, not TensorList"):
        await run(graph, graph.ops.OptionalHasValue(tensors))


async def test_zeros_and_sums() -> None:
    graph = fe.Graph()
    ops = graph.ops
    one, other = (
        ops.OptionalFromValue([graph.constant(v), graph.constant(v[0])]) for v in ([1, 2], [30, 40])
    )
    none = ops.OptionalNone()
    types: dict[str, Any] = {"output_types": ["int32", "int32"], "output_shapes": [[2], []]}
    values = ops.OptionalGetValue(ops.AddN([one, other, ops.ZerosLike(one)]), **types)
    numbers, number = await run(graph, list(values))
    assert numbers.tolist() == [31, 42]
    assert number == 31
    for nothing in (ops.ZerosLike(none), ops.AddN([none, none])):
        assert not await run(graph, ops.OptionalHasValue(nothing))
    with pytest.raises(InvalidArgumentError, match="one has a value"):
        await run(graph, ops.OptionalHasValue(ops.AddN([one, none])))
    short = ops.OptionalFromValue([graph.constant([1, 2])])
    with pytest.raises(InvalidArgumentError, match="different numbers"):
        await run(graph, ops.OptionalHasValue(ops.AddN([one, short])))
