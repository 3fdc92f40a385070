"""Graphs that the tests of the command line run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import flowengine as fe


@pytest.fixture
def save(tmp_path: Path) -> Callable[[fe.Graph], str]:
    """Write a graph into a file; its path."""

    def write(graph: fe.Graph) -> str:
        path = tmp_path / "graph.pb"
        path.write_bytes(graph.to_graph_def().SerializeToString())
        return str(path)

    return write


@pytest.fixture
def linear(save: Callable[[fe.Graph], str]) -> str:
    """y = x w + 1 with x (N, 2), w (2, 1) all ones; `shape` is the shape of y."""
    graph = fe.Graph()
    x = graph.placeholder("float32", [None, 2], name="x")
    product = graph.ops.MatMul(x, [[1.0], [1.0]], name="product")
    y = graph.ops.AddV2(product, 1.0, name="y")
    graph.ops.Shape(y, name="shape")
    return save(graph)


@pytest.fixture
def counter(save: Callable[[fe.Graph], str]) -> str:
    """`init` sets the variable v to 0, `count` adds `step` (by default 1) and yields the sum."""
    graph = fe.Graph()
    step = graph.ops.PlaceholderWithDefault(1.0, shape=[], name="step")
    v = graph.ops.VariableV2(shape=[], dtype="float32", name="v")
    graph.group(graph.ops.Assign(v, 0.0), name="init")
    graph.ops.AssignAdd(v, step, name="count")
    graph.ops.Identity(v, name="read")
    return save(graph)
