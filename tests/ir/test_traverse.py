"""Order, reachability and cycles on random graphs, against plain definitions."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from flowengine.ir import traverse
from flowengine.ir.graph import Node, NodeGraph, OutputPort


@st.composite
def graphs(draw: st.DrawFn) -> NodeGraph:
    """Any edges at all, some between Merge and NextIteration, some to nowhere."""
    count = draw(st.integers(0, 8))
    names = [f"n{i}" for i in range(count)]
    some = st.lists(st.sampled_from([*names, "nowhere"]), max_size=3)
    return NodeGraph(
        Node(
            name,
            draw(st.sampled_from(["A", "Merge", "NextIteration"])),
            tuple(OutputPort(source, 0) for source in draw(some)),
            tuple(draw(some)),
        )
        for name in names
    )


def edges(graph: NodeGraph) -> list[tuple[str, str]]:
    """(from, to) of all that exist, without back edges."""
    found = []
    for node in graph:
        for port in node.inputs:
            back = node.op == "Merge" and port.node in graph and graph[port.node].op == "NextIteration"
            if port.node in graph and not back:
                found.append((port.node, node.name))
        found += [(control, node.name) for control in node.control_inputs if control in graph]
    return found


def before(graph: NodeGraph, name: str) -> set[str]:
    """All that a node depends on, itself only if it is on a cycle."""
    found: set[str] = set()
    grown = {source for source, target in edges(graph) if target == name}
    while grown - found:
        found |= grown
        grown = {source for source, target in edges(graph) if target in found}
    return found


@given(graphs())
def test_topological_order(graph: NodeGraph) -> None:
    order = traverse.topological_order(graph.nodes)
    position = {name: index for index, name in enumerate(order)}
    assert len(position) == len(order)
    for source, target in edges(graph):
        if target in position:
            assert position[source] < position[target]
    cyclic = {name for name in graph.nodes if name in before(graph, name)}
    for name in graph.nodes:
        stuck = name in cyclic or bool(before(graph, name) & cyclic)
        assert (name in position) is not stuck


@given(graphs())
def test_every_knot_gives_one_true_cycle(graph: NodeGraph) -> None:
    cyclic = {name for name in graph.nodes if name in before(graph, name)}
    knots = {frozenset(m for m in before(graph, n) if n in before(graph, m)) | {n} for n in cyclic}
    found = traverse.cycles(graph.nodes)
    assert len(found) == len(knots)
    known = set(edges(graph))
    for cycle in found:
        assert cycle[0] == cycle[-1]
        assert all(pair in known for pair in pairwise(cycle))
        assert any(set(cycle) <= knot for knot in knots)


@given(graphs(), st.integers(0, 7))
def test_reachable(graph: NodeGraph, index: int) -> None:
    root = f"n{index}"
    expected: set[str] = set()
    stack = [root] if root in graph else []
    while stack:
        name = stack.pop()
        if name not in expected:
            expected.add(name)
            stack += [s for s in traverse.sources(graph[name]) if s in graph]
    assert traverse.reachable(graph.nodes, [root]) == expected


def test_a_long_chain_needs_no_recursion() -> None:
    nodes = [Node("n0", "A")]
    nodes += [Node(f"n{i}", "A", (OutputPort(f"n{i - 1}", 0),)) for i in range(1, 50_000)]
    graph = NodeGraph(nodes)
    assert traverse.topological_order(graph.nodes) == list(graph.nodes)
    assert len(traverse.reachable(graph.nodes, ["n49999"])) == 50_000
    ring = NodeGraph([Node("n0", "A", (OutputPort("n49999", 0),)), *nodes[1:]])
    assert len(traverse.cycles(ring.nodes)[0]) == 50_001
