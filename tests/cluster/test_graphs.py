"""Graphs on their way between tasks: they come back, and what is no graph or no partition is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.cluster import messages as m
from flowengine.cluster.graphs import graph_tensor, read_graph, read_partitions
from flowengine.core.errors import InvalidArgumentError

GOOD: dict[str, Any] = {"device": "/cpu:0", "feeds": [1, 0], "fetches": [0], "targets": ["y"]}


def asked(*partitions: dict[str, Any]) -> m.RegisterGraph:
    """A request of two feeds and one fetch."""
    return m.RegisterGraph(
        session=1,
        handle=1,
        partitions=list(partitions),
        feeds=["x:0", "z:0"],
        fetches=["y:0"],
        tasks={},
        partners={},
    )


def sent() -> Any:
    graph = fe.Graph()
    x, z = (graph.placeholder("float32", [], name=name) for name in "xz")
    graph.ops.Add(x, z, name="y")
    return graph_tensor(graph.snapshot())


def test_partitions_come_back() -> None:
    first, second = read_partitions(asked(GOOD, GOOD | {"feeds": [], "fetches": []}), [sent(), sent()])
    assert (first.device, first.feeds, first.fetches, first.targets) == ("/cpu:0", (1, 0), (0,), ("y",))
    assert (second.feeds, second.fetches) == ((), ())
    assert sorted(node.name for node in first.graph) == ["x", "y", "z"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"device": 3},
        {"device": None},
        {"feeds": None},
        {"feeds": [2]},
        {"feeds": [-1]},
        {"feeds": [True]},
        {"feeds": (0,)},
        {"fetches": [1]},
        {"fetches": ["0"]},
        {"targets": "y"},
        {"targets": [0]},
    ],
    ids=str,
)
def test_what_is_no_partition_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="no partition can be read from"):
        read_partitions(asked(GOOD | wrong), [sent()])


def test_partitions_come_with_as_many_graphs() -> None:
    for tensors in ([], [sent(), sent()]):
        with pytest.raises(InvalidArgumentError, match=f"1 partitions .* not with {len(tensors)}"):
            read_partitions(asked(GOOD), tensors)


def test_what_is_no_graph_is_refused() -> None:
    for wrong in (b"graph", np.zeros(3, np.int8), np.zeros((1, 3), np.uint8)):
        with pytest.raises(InvalidArgumentError, match="a graph travels as a vector of bytes"):
            read_graph(wrong)
    with pytest.raises(InvalidArgumentError):
        read_graph(np.full(9, 255, np.uint8))
