"""Partial execution: what a request runs, and where feeds cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core.errors import NotFoundError
from flowengine.core.names import parse_tensor_name
from flowengine.graphs.graph import Graph
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.passes.context import PassContext
from flowengine.passes.simplify.prune import _backwards, _walked, prune
from flowengine.testing.strategies import GraphCase, graphs


def request(fetches: str = "", feeds: str = "", targets: str = "") -> PassContext:
    return PassContext(
        feeds=tuple(OutputPort(*parse_tensor_name(name)) for name in feeds.split()),
        fetches=tuple(OutputPort(*parse_tensor_name(name)) for name in fetches.split()),
        targets=tuple(targets.split()),
    )


def left(graph: NodeGraph, context: PassContext) -> str:
    return " ".join(prune(graph, context).nodes)


@pytest.fixture
def graph() -> Graph:
    """p -> a -> split -> (b, c);  w is written before `after` runs."""
    g = Graph()
    p = g.placeholder("float32", [2], name="p")
    a = g.ops.Neg(p, name="a")
    first, second = g.ops.Split(g.constant(0, name="axis"), a, num_split=2, name="split")
    g.ops.Neg(first, name="b")
    g.ops.Neg(second, name="c")
    with g.control_dependencies([p]):
        g.ops.NoOp(name="after_p")
    with g.control_dependencies([a]):
        g.ops.NoOp(name="after_a")
    return g


@pytest.mark.parametrize(
    ("context", "names"),
    [
        (request("a:0"), "p a"),
        (request("b:0"), "p a axis split b"),
        (request("b:0", feeds="p:0"), "a axis split b"),
        (request("b:0", feeds="a:0"), "axis split b"),
        (request("b:0", feeds="split:0"), "b"),
        # One output is fed, the node still runs for the other.
        (request("b:0 c:0", feeds="split:0"), "p a axis split b c"),
        (request("b:0 c:0", feeds="split:0 split:1"), "b c"),
        (request("a:0", feeds="a:0"), ""),
        (request(targets="a"), "p a"),
        # A target runs though its output is fed.
        (request(targets="a", feeds="a:0"), "p a"),
        (request(targets="after_p"), "p after_p"),
        (request(targets="after_p", feeds="p:0"), "after_p"),
        # Feeding what a node returns does not undo that it runs.
        (request(targets="after_a", feeds="a:0"), "p a after_a"),
        (request(), ""),
    ],
)
def test_what_runs(graph: Graph, context: PassContext, names: str) -> None:
    assert left(graph, context) == names


def test_nodes_are_shared_and_what_is_whole_is_returned(graph: Graph) -> None:
    pruned = prune(graph, request("b:0"))
    assert all(node is graph[node.name] for node in pruned)
    assert prune(pruned, request("b:0")) is pruned


def test_control_edges_out_of_a_fed_placeholder_vanish(graph: Graph) -> None:
    assert prune(graph, request(targets="after_p", feeds="p:0"))["after_p"].control_inputs == ()
    assert graph["after_p"].control_inputs == ("p",)


@given(st.data())
def test_feeding_takes_no_control_edge_but_those_of_fed_placeholders(data: st.DataObject) -> None:
    g = Graph()
    names: list[str] = []
    for index in range(data.draw(st.integers(1, 8))):
        before = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
        with g.control_dependencies(before):
            if data.draw(st.booleans()):
                g.placeholder("float32", [], name=f"n{index}")
            else:
                g.ops.VariableV2(shape=[], dtype="float32", name=f"n{index}")
        names.append(f"n{index}")
    fed = data.draw(st.lists(st.sampled_from(names), unique=True))
    pruned = prune(g, request(feeds=" ".join(f"{name}:0" for name in fed), targets=names[-1]))
    vanished = {name for name in fed if g[name].op == "Placeholder"}
    waiting, kept = [names[-1]], set()
    while waiting:
        name = waiting.pop()
        if name not in kept:
            kept.add(name)
            left = tuple(each for each in g[name].control_inputs if each not in vanished)
            assert pruned[name].control_inputs == left
            waiting += left
    assert set(pruned.nodes) == kept


def test_a_loop_is_kept_whole() -> None:
    g = Graph()
    enter = g.ops.Enter(g.constant(0, name="zero"), frame_name="loop", name="enter")
    merge, _ = g.ops.Merge([enter, enter], name="merge")
    cond = g.ops.LoopCond(g.ops.Less(merge, g.ops.Enter(g.constant(9), frame_name="loop", is_constant=True)))
    out, stay = g.ops.Switch(merge, cond, name="switch")
    with g.control_dependencies([stay]):
        one = g.constant(1, name="one")
    g.set_back_edge("merge", 1, g.ops.NextIteration(g.ops.Add(stay, one), name="next"))
    g.ops.Exit(out, name="exit")
    g.ops.Neg(stay, name="unused")
    assert set(prune(g, request("exit:0")).nodes) == set(g.nodes) - {"unused"}


def test_a_name_that_is_not_there(graph: Graph) -> None:
    with pytest.raises(NotFoundError, match="'gone'"):
        prune(graph, request(targets="gone"))


def test_a_long_chain_needs_no_recursion() -> None:
    g = Graph()
    tensor = g.placeholder("float32", [], name="n")
    for _ in range(5000):
        tensor = g.ops.Neg(tensor)
    assert len(prune(g, request(tensor.name, feeds="n:0"))) == 5000


@given(graphs())
def test_one_look_at_each_node_keeps_what_a_walk_keeps(case: GraphCase) -> None:
    """One pass finds the nodes that a walk finds if each follows its inputs; otherwise it gives up."""
    names = list(case.graph.nodes)
    for name in (names[0], names[len(names) // 2], names[-1]):

        def before(node: Node) -> list[str]:
            return [*(port.node for port in node.inputs), *node.control_inputs]

        kept = _backwards(case.graph, {name}, before)
        walked = _walked(case.graph, {name}, before)
        if kept is not None:
            assert kept == walked
        else:
            assert any(node.op == "Merge" for node in case.graph), "only loops lead backwards here"


def test_what_is_constructed_late_is_found() -> None:
    first = Node("first", "NoOp", control_inputs=("last",))
    graph = Graph().rewritten([first, Node("between", "NoOp"), Node("last", "NoOp")])
    assert list(prune(graph, PassContext(targets=("first",))).nodes) == ["first", "last"]
