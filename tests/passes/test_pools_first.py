"""Poolings come first of those that read the same tensor: in order only, and only as far as they may."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.ir.graph import NodeGraph
from flowengine.ir.traverse import forward_sources
from flowengine.kernels.onednn.claims.pools_first import pools_first

WINDOWS: dict[str, Any] = {"ksize": [1, 3, 3, 1], "strides": [1, 1, 1, 1], "padding": "SAME"}
STRIDES: dict[str, Any] = {"strides": [1, 1, 1, 1], "padding": "SAME"}


def block() -> fe.Graph:
    """Two convolutions and a pooling with a convolution of its own, side by side and joined."""
    g = fe.Graph()
    filters = g.placeholder("float32", name="filters")
    x = g.ops.Relu(g.placeholder("float32", name="images"), name="x")
    branches = [g.ops.Conv2D(x, filters, name=f"conv{n}", **STRIDES) for n in range(2)]
    pooled = g.ops.AvgPool(x, name="pool", **WINDOWS)
    branches.append(g.ops.Conv2D(pooled, filters, name="behind", **STRIDES))
    g.ops.ConcatV2(branches, 3, name="joined")
    return g


def names(graph: NodeGraph) -> list[str]:
    return [name for name in graph.nodes if name in {"x", "conv0", "conv1", "pool", "behind", "joined"}]


def test_a_pooling_and_what_takes_it_stand_behind_what_they_read() -> None:
    graph = block()
    assert names(graph) == ["x", "conv0", "conv1", "pool", "behind", "joined"]
    made = pools_first(graph)
    assert names(made) == ["x", "pool", "behind", "conv0", "conv1", "joined"]
    assert dict(made.nodes) == dict(graph.nodes)


def test_what_stands_right_is_left_alone() -> None:
    made = pools_first(block())
    assert pools_first(made) is made
    plain = fe.Graph()
    plain.ops.MaxPool(plain.placeholder("float32"), **WINDOWS)
    assert pools_first(plain) is plain


def test_a_pooling_that_waits_for_something_else_stays_behind_it() -> None:
    g = fe.Graph()
    filters, images = (g.placeholder("float32", name=name) for name in ("filters", "images"))
    x = g.ops.Relu(images, name="x")
    conv = g.ops.Conv2D(x, filters, name="conv0", **STRIDES)
    with g.control_dependencies([conv]):
        g.ops.MaxPool(x, name="pool", **WINDOWS)
    assert pools_first(g) is g


def test_what_takes_a_pooling_stays_where_its_other_inputs_are_late() -> None:
    g = fe.Graph()
    x = g.ops.Relu(g.placeholder("float32", name="images"), name="x")
    conv = g.ops.Conv2D(x, g.placeholder("float32", name="filters"), name="conv0", **STRIDES)
    late = g.ops.Relu(conv, name="late")
    pooled = g.ops.MaxPool(x, name="pool", **WINDOWS)
    g.ops.Conv2D(pooled, late, name="behind", **STRIDES)
    assert names(pools_first(g)) == ["x", "pool", "conv0", "behind"]


def test_filters_that_wait_for_nothing_come_along() -> None:
    g = fe.Graph()
    x = g.ops.Relu(g.placeholder("float32", name="images"), name="x")
    g.ops.Conv2D(x, g.placeholder("float32", name="filters"), name="conv0", **STRIDES)
    pooled = g.ops.MaxPool(x, name="pool", **WINDOWS)
    own = g.constant(np.ones((1, 1, 4, 4), np.float32), name="own")
    g.ops.Conv2D(pooled, own, name="behind", **STRIDES)
    made = pools_first(g)
    assert [name for name in made.nodes if name != "filters"] == [
        "images",
        "x",
        "pool",
        "own",
        "behind",
        "conv0",
    ]


@given(st.lists(st.tuples(st.sampled_from("cfrpj"), st.integers(0, 99), st.booleans()), max_size=25))
def test_every_node_stays_behind_what_it_waits_for(steps: list[tuple[str, int, bool]]) -> None:
    g = fe.Graph()
    tensors = [g.placeholder("float32", name="images")]
    filters = [g.placeholder("float32", name="filters")]
    for kind, which, waits in steps:
        source = tensors[which % len(tensors)]
        with g.control_dependencies([tensors[-1]] if waits else []):
            if kind == "f":
                filters.append(g.placeholder("float32"))
            if kind in "cf":
                made = g.ops.Conv2D(source, filters[which % len(filters)], **STRIDES)
            elif kind == "p":
                made = g.ops.MaxPool(source, **WINDOWS)
            elif kind == "r":
                made = g.ops.Relu(source)
            else:
                made = g.ops.AddN([source, tensors[-1]])
        tensors.append(made)
    ordered = pools_first(g)
    assert dict(ordered.nodes) == dict(g.nodes)
    seen: set[str] = set()
    for node in ordered:
        assert seen.issuperset(forward_sources(node, ordered.nodes))
        seen.add(node.name)


@pytest.mark.parametrize("fed", ["images", "x"])
async def test_values_are_the_same(fed: str) -> None:
    images = np.random.default_rng(5).standard_normal((2, 40, 40, 16)).astype(np.float32)
    filters = np.random.default_rng(6).standard_normal((1, 1, 16, 16)).astype(np.float32)
    async with fe.Session(block()) as session:
        feeds = {f"{fed}:0": images, "filters:0": filters}
        first = await session.run("joined:0", feeds)
        for _ in range(8):
            assert np.array_equal(await session.run("joined:0", feeds), first)
