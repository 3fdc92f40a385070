"""The features that a graph parses its serialized examples into, in functions too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.saved_model.example_inputs import features_of, serialized


def _parsed(rows: fe.Tensor) -> list[fe.Tensor]:
    ops = rows.graph.ops
    found = ops.ParseExampleV2(
        rows,
        np.zeros(0, object),
        np.array([b"tags"], object),
        np.array([b"age", b"name"], object),
        np.zeros(0, object),
        [np.zeros(0, np.float32), np.array(b"?", object)],
        num_sparse=1,
        sparse_types=["string"],
        ragged_value_types=[],
        ragged_split_types=[],
        Tdense=["float32", "string"],
        dense_shapes=[[], []],
    )
    age, name = found.dense_values
    return [age, name]


def _graph(depth: int) -> tuple[fe.Graph, list[fe.Tensor]]:
    """A graph that parses its examples in so many functions, one in another."""
    graph = fe.Graph()
    rows = graph.placeholder("string", [None], name="rows")

    def called(around: fe.Graph, tensor: fe.Tensor, depth: int) -> list[fe.Tensor]:
        if not depth:
            return _parsed(around.ops.Identity(tensor))

        @fe.function(around, [("float32", []), ("string", [None])], name=f"parse_{depth}")
        def parse(other: fe.Tensor, inner: fe.Tensor) -> list[fe.Tensor]:
            return called(inner.graph, inner, depth - 1)

        return list(parse(around.constant(1.0), tensor))

    return graph, called(graph, rows, depth)


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_examples_are_found_through_the_functions_that_parse_them(depth: int) -> None:
    graph, fetches = _graph(depth)
    features = features_of(graph, "rows:0")
    assert list(features) == ["tags", "age", "name"]
    assert [each.required for each in features.values()] == [False, True, False]
    assert [str(each.dtype) for each in features.values()] == ["string", "float32", "string"]
    columns: dict[str, Any] = {"age": np.array([1.5, -2.0], np.float32), "name": [[b"ann"], None]}
    with fe.blocking.Session(graph) as session:
        age, name = session.run(fetches, {"rows": serialized(features, columns, 2)})
    assert (age.tolist(), name.tolist()) == ([1.5, -2.0], [b"ann", b"?"])


def test_a_function_that_calls_itself_has_an_end() -> None:
    graph = fe.Graph()
    rows = graph.placeholder("string", [None], name="rows")

    @fe.function(graph, [("string", [None])], outputs=["string"], name="again")
    def again(inner: fe.Tensor) -> list[fe.Tensor]:
        return [again(inner)]

    again(rows)
    assert features_of(graph, "rows:0") == {}
