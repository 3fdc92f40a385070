"""Graphs without loops are told at a glance to be in the root frame, as the walk along their edges says."""

from __future__ import annotations

import pytest
from hypothesis import given

import flowengine as fe
from flowengine.ir import frames
from flowengine.ir.frames import assign_frames
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.testing.strategies import GraphCase, graphs


def walked(graph: NodeGraph, supplied: frozenset[OutputPort] = frozenset()) -> dict[str, tuple[str, ...]]:
    """By the walk alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "_is_straight", lambda graph, supplied: False)
        return assign_frames(graph, supplied)


@given(graphs(loops=False))
def test_the_walk_says_the_same(case: GraphCase) -> None:
    found = assign_frames(case.graph)
    assert found == walked(case.graph)
    assert set(found) == set(case.graph.nodes)


@given(graphs())
def test_a_loop_is_walked(case: GraphCase) -> None:
    assert assign_frames(case.graph) == walked(case.graph)


def test_a_feed_of_what_the_graph_no_longer_has() -> None:
    fed = OutputPort("gone", 0)
    graph = NodeGraph([Node("a", "Neg", inputs=(fed,)), Node("b", "Neg", inputs=(OutputPort("a", 0),))])
    assert assign_frames(graph, {fed}) == walked(graph, frozenset({fed})) == {"a": (), "b": ()}
    assert assign_frames(graph) == walked(graph) == {}


def test_a_cycle_without_an_entry_is_left_out() -> None:
    graph = NodeGraph(
        [
            Node("a", "Neg", inputs=(OutputPort("b", 0),)),
            Node("b", "Neg", inputs=(OutputPort("a", 0),)),
            Node("c", "NoOp", control_inputs=("d",)),
            Node("d", "NoOp"),
        ]
    )
    assert assign_frames(graph) == walked(graph) == {"c": (), "d": ()}


def test_a_node_that_waits_for_one_behind_it() -> None:
    g = fe.Graph()
    late = Node("late", "NoOp")
    graph = g.rewritten([Node("early", "NoOp", control_inputs=("late",)), late])
    assert assign_frames(graph) == walked(graph) == {"early": (), "late": ()}
