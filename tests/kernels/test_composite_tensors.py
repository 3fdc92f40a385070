"""Several tensors that make one value: they come back as they were, and others are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe


def _encoded(graph: fe.Graph, *values: Any) -> Any:
    return graph.ops.CompositeTensorVariantFromComponents([graph.constant(v) for v in values], metadata=b"")


def _decoded(graph: fe.Graph, encoded: Any, *types: str) -> Any:
    found = graph.ops.CompositeTensorVariantToComponents(encoded, metadata=b"", Tcomponents=list(types))
    return list(found)


async def test_components_come_back() -> None:
    graph = fe.Graph()
    three = _decoded(graph, _encoded(graph, [1, 2], b"a", 2.5), "int32", "string", "float32")
    one = _decoded(graph, _encoded(graph, [[True]]), "bool")
    async with fe.Session(graph) as session:
        values = await session.run([*three, *one])
    assert values[0].tolist() == [1, 2]
    assert values[1] == b"a"
    assert float(values[2]) == 2.5
    np.testing.assert_array_equal(values[3], [[True]])


@pytest.mark.parametrize(
    ("types", "message"),
    [(["float32"], "had dtype int32; expected dtype float32"), (["int32", "int32"], "expected 2")],
)
async def test_other_components_are_refused(types: list[str], message: str) -> None:
    graph = fe.Graph()
    wrong = _decoded(graph, _encoded(graph, [1, 2]), *types)
    async with fe.Session(graph) as session:
        with pytest.raises(fe.errors.InvalidArgumentError, match=message):
            await session.run(wrong)


async def test_what_is_no_such_value_is_refused() -> None:
    graph = fe.Graph()
    wrong = _decoded(graph, graph.ops.EmptyTensorMap(), "int32")
    broken = graph.ops.CompositeTensorVariantFromComponents([graph.constant(1)], metadata=b"\xff")
    async with fe.Session(graph) as session:
        with pytest.raises(fe.errors.InvalidArgumentError, match="TensorMap"):
            await session.run(wrong)
        with pytest.raises(fe.errors.InvalidArgumentError, match="parsing metadata"):
            await session.run([], targets=[broken.op.name])
