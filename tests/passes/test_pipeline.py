"""All passes together: random graphs mean the same after each, and stay legal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given

import flowengine.kernels.load
from flowengine.core.arrays import Array
from flowengine.core.names import parse_tensor_name
from flowengine.ir.graph import NodeGraph, OutputPort
from flowengine.ir.validate import check_graph
from flowengine.passes import explain
from flowengine.passes.context import PassContext
from flowengine.passes.pipeline import prepare, stages
from flowengine.resources.container import ResourceManager
from flowengine.testing.reference import evaluate
from flowengine.testing.strategies import GraphCase, graphs

KERNELS = flowengine.kernels.load.load_all()


def with_feeds(pruned: NodeGraph, original: NodeGraph, feeds: Sequence[OutputPort]) -> NodeGraph:
    """The reference wants fed nodes in the graph, if only to be replaced."""
    gone = dict.fromkeys(port.node for port in feeds if port.node not in pruned)
    return pruned.rewritten(
        [*(replace(original[name], op="Placeholder", inputs=(), control_inputs=()) for name in gone), *pruned]
    )


def play(case: GraphCase, stage: str | None) -> list[list[Array]]:
    """The results of all runs on the graph as that stage leaves it; on the original without one."""
    resources = ResourceManager()
    evaluate(case.graph, [], {}, case.setup, resources=resources)
    results = []
    for fetches, feeds in case.runs:
        context = PassContext(
            feeds=tuple(OutputPort(*parse_tensor_name(name)) for name in feeds),
            fetches=tuple(OutputPort(*parse_tensor_name(name)) for name in fetches),
            targets=tuple(case.targets),
            kernels=KERNELS,
        )
        graph: NodeGraph = case.graph
        if stage is not None:
            graph = dict(stages(case.graph, context))[stage]
            check_graph(graph, supplied=context.feeds)
            graph = with_feeds(graph, case.graph, context.feeds)
        results.append(evaluate(graph, fetches, feeds, case.targets, resources=resources))
    return results


@given(graphs())
def test_every_pass_keeps_the_meaning(case: GraphCase) -> None:
    want = play(case, None)
    for stage in ("prune", "fold_constants", "merge_common_subexpressions", "prune_again"):
        for have_run, want_run in zip(play(case, stage), want, strict=True):
            for have, expected in zip(have_run, want_run, strict=True):
                assert have.dtype == expected.dtype, stage
                np.testing.assert_array_equal(have, expected, err_msg=stage)


@given(graphs())
def test_a_second_time_changes_nothing(case: GraphCase) -> None:
    fetches, feeds = case.runs[0]
    context = PassContext(
        feeds=tuple(OutputPort(*parse_tensor_name(name)) for name in feeds),
        fetches=tuple(OutputPort(*parse_tensor_name(name)) for name in fetches),
        targets=tuple(case.targets),
        kernels=KERNELS,
    )
    once = prepare(case.graph, context)
    twice = prepare(once, context)
    assert list(twice.nodes) == list(once.nodes)
    assert all(twice[name] is once[name] for name in once.nodes)
    assert explain.difference(once, twice) == f"{len(once)} nodes -> {len(once)}"


def test_explain_tells_what_changed_and_draws_hostile_names() -> None:
    from flowengine.graphs.graph import Graph

    g = Graph()
    a = g.ops.Neg(g.constant(1.0, name="one"), name="a")
    b = g.ops.Add(a, g.placeholder("float32", name="x"), name="b")
    context = PassContext(fetches=(b.port,), kernels=KERNELS)
    after = prepare(g, context)
    text = explain.difference(g, after)
    assert "4 nodes -> 3" in text
    assert "removed 1: one" in text
    assert "~ a = Const()" in text
    assert explain.listing(after).splitlines()[-1] == "b = Add(a:0, x:0)"
    dot = explain.to_dot(after)
    assert dot.startswith("digraph {")
    assert '"a" -> "b"' in dot
    both = explain.difference_to_dot(g, after)
    assert '"one" [label="one: Const", color=gray' in both
    assert '"a" [label="a: Const", color=blue]' in both
    assert '"b" [label="b: Add"];' in both
    assert "color=green" in explain.difference_to_dot(after, g)
    hostile = NodeGraph([replace(g["one"], name='"];\n\\ evil')])
    assert explain.to_dot(hostile).count("\n") == 3
