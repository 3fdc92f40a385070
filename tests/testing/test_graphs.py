"""Pictures of graphs, and equality up to names."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.ir.graph import NodeGraph, OutputPort
from flowengine.testing.graphs import as_text, graph, same_up_to_names
from flowengine.testing.reference import evaluate
from flowengine.testing.strategies import GraphCase, graphs


def test_a_picture_is_the_graph_that_it_shows() -> None:
    g = graph("A1 -> B2 -> A3; A1 -> A3\nA1 ~> B2")
    assert [node.name for node in g] == ["A1", "B2", "A3"]
    assert [node.op for node in g] == ["Const", "AddN", "AddN"]
    assert g["A3"].inputs == (OutputPort("B2", 0), OutputPort("A1", 0))
    assert g["B2"].control_inputs == ("A1",)
    assert g["B2"].device == "/device:CPU:1"
    assert evaluate(g, ["A3:0"])[0] == 0.0


@pytest.mark.parametrize("picture", ["a -> B", "A1 -> ", "A1 B2", "A1 -> B2; B2 -> A1"])
def test_a_picture_that_shows_nothing_is_refused(picture: str) -> None:
    with pytest.raises(fe.errors.InvalidArgumentError):
        graph(picture)


def renamed(g: NodeGraph, order: list[str]) -> NodeGraph:
    """The same graph with other names, its nodes in another order."""
    names = {name: f"n{number}" for number, name in enumerate(sorted(g.nodes))}
    return NodeGraph(
        replace(
            g[name],
            name=names[name],
            inputs=tuple(OutputPort(names[port.node], port.slot) for port in g[name].inputs),
            control_inputs=tuple(reversed([names[c] for c in g[name].control_inputs])),
        )
        for name in order
    )


@given(graphs(max_statements=4), st.randoms(use_true_random=False))
def test_a_renamed_graph_is_the_same(case: GraphCase, random: Random) -> None:
    order = list(case.graph.nodes)
    random.shuffle(order)
    assert same_up_to_names(case.graph, renamed(case.graph, order))


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("A1 -> A2", "A5 -> A7", True),
        ("A1 -> A2", "A1 -> B2", False),
        ("A1 -> A2", "A1 ~> A2", False),
        ("A1 -> A3; A2 -> A3", "A2; A1; A2 -> A3; A1 -> A3", True),
        (
            "A0; A1; A0 -> A2; A1 -> A2; A0 -> A3; A0 -> A3",
            "A0; A1; A0 -> A2; A0 -> A2; A1 -> A3; A1 -> A3",
            False,
        ),
        ("A1 -> A2 -> A3", "A1 -> A2; A1 -> A3", False),
    ],
)
def test_same_up_to_names(first: str, second: str, same: bool) -> None:
    assert same_up_to_names(_uniform(graph(first)), _uniform(graph(second))) == same


def _uniform(g: NodeGraph) -> NodeGraph:
    """With all constants equal, so that only the edges tell them apart."""
    value = next(iter(g)).attrs["value"]
    return NodeGraph(replace(n, attrs={**n.attrs, "value": value}) if n.op == "Const" else n for n in g)


def test_text_shows_every_node() -> None:
    text = as_text(graph("A1 -> B2; A1 ~> C3"))
    assert text.splitlines()[1].startswith("B2 = AddN(A1:0)")
    assert "C3 = Const(^A1)" in text
