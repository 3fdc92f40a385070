"""Planning and compiling take the same number of calls a node, however large the graph is."""

from __future__ import annotations

import sys
from typing import Any

import flowengine as fe
from flowengine.passes.blocks.compiled_regions import _code


def ladder(nodes: int) -> fe.Graph:
    """Lanes of additions and tanh with a conditional and constants here and there, joined at the end."""
    g = fe.Graph()
    ops = g.ops
    x = g.placeholder("float32", [4], name="x")
    ends = []
    for lane in range(10):
        y = ops.Add(x, float(lane))
        for index in range(nodes // 20):
            y = ops.Tanh(ops.Add(y, x))
            if index % 20 == 10:
                positive = ops.Greater(ops.Sum(y, [0]), 0.0)
                off, on = ops.Switch(y, positive)
                y = ops.Merge([ops.Neg(off), ops.Square(on)])[0]
        ends.append(y)
    ops.AddN(ends, name="y")
    return g


def calls_a_node(graph: fe.Graph) -> float:
    """Calls of functions, Python's and C's, while a plan is made and compiled."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    session = fe.Session(graph)
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        source = session.explain("y:0", ["x:0"], source=True)
    finally:
        sys.setprofile(before)
    assert "Tanh" in source
    return calls / len(graph)


def test_the_cost_of_a_node_does_not_depend_on_the_size_of_the_graph() -> None:
    calls_a_node(ladder(400))  # imports, caches
    small, large = calls_a_node(ladder(400)), calls_a_node(ladder(2500))
    assert large < 1.1 * small


def test_equal_structures_are_compiled_once() -> None:
    """Code is shared by text, which holds no names and no constants of the graph, across sessions."""

    def graph(prefix: str, factor: float) -> fe.Graph:
        g = fe.Graph()
        x = g.placeholder("float32", [3], name=f"{prefix}/x")
        y = x
        for index in range(7):
            y = g.ops.Mul(g.ops.Tanh(y), factor + index, name=f"{prefix}/{index}")
        g.ops.Identity(y, name="y")
        return g

    fe.Session(graph("a", 1.5)).explain("y:0", ["a/x:0"], source=True)
    before = _code.cache_info()
    fe.Session(graph("b", 2.5)).explain("y:0", ["b/x:0"], source=True)
    after = _code.cache_info()
    assert (after.hits - before.hits, after.misses - before.misses) == (1, 0)
