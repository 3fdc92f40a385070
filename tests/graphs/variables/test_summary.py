"""`graph.summary()`: variables by scope, with their sizes, as a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe


def trained() -> fe.Graph:
    """A graph with two layers, an optimizer's slots, a count of steps and a metric."""
    graph = fe.Graph()
    x = graph.placeholder("float32", [None, 3], name="x")
    h = fe.layers.dense(x, 4, name="hidden")
    with graph.variable_scope("head"):
        y = fe.layers.dense(h, 1, use_bias=False)
    step = graph.variable(0, name="global_step", dtype="int64", trainable=False)
    fe.metrics.mean(y)
    fe.optimizers.Momentum(0.1, 0.9).minimize(fe.reduce_sum(y), global_step=step)
    return graph


def test_the_table_of_a_model() -> None:
    summary = trained().summary()
    assert str(summary).splitlines() == [
        "variable           shape  dtype    parameters   size  trainable",
        "hidden                                     32  128 B",
        "  kernel           [3,4]  float32          12   48 B  yes",
        "  bias             [4]    float32           4   16 B  yes",
        "  kernel/Momentum  [3,4]  float32          12   48 B  no",
        "  bias/Momentum    [4]    float32           4   16 B  no",
        "head/dense                                  8   32 B",
        "  kernel           [4,1]  float32           4   16 B  yes",
        "  kernel/Momentum  [4,1]  float32           4   16 B  no",
        "global_step        []     int64             1    8 B  no",
        "-" * 63,
        "trainable                                  20   80 B",
        "not trainable                              21   88 B",
        "total                                      41  168 B",
    ]
    assert (summary.parameters, summary.trainable_parameters, summary.bytes) == (41, 20, 168)
    assert repr(summary) == str(summary)


def test_scopes_alone() -> None:
    graph = trained()
    lines = str(graph.summary(scopes_only=True)).splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["hidden", "head/dense", "(no"]
    for number in range(100):
        graph.variable(np.float32(0), name=f"part_{number}/v")
    assert graph.summary().scopes_only
    assert not graph.summary(scopes_only=False).scopes_only


def test_a_graph_without_variables_says_so() -> None:
    assert str(fe.Graph().summary()) == "the graph has no variables"
    assert fe.Graph().summary()._repr_html_() == "<div>the graph has no variables</div>"


def test_a_graph_def_has_no_lists() -> None:
    """A graph read from a GraphDef has its variables by their nodes; which ones are trained is unknown."""
    graph = fe.Graph()
    graph.variable(np.zeros([2, 3], np.float32), name="a/w")
    graph.ops.VariableV2(shape=[5], dtype="float64", name="a/v")
    graph.ops.VariableV2(shape=None, dtype="string", name="text")
    read = fe.Graph.from_graph_def(graph.to_graph_def().SerializeToString())
    lines = str(read.summary()).splitlines()
    assert lines == [
        "variable  shape  dtype    parameters  size  trainable",
        "a                                 11  64 B",
        "  w       [2,3]  float32           6  24 B",
        "  v       [5]    float64           5  40 B",
        "text      ?      string            ?     ?",
        "-" * 53,
        "total                             11  64 B",
    ]
    assert "no" in str(graph.summary()).splitlines()[3]


def test_a_notebook_s_table_is_escaped() -> None:
    graph = fe.Graph()
    graph.ops.VariableV2(shape=[5], dtype="float64", name="a/v")
    text = graph.summary()._repr_html_()
    assert text.count("<tr>") == 4
    assert '<th style="text-align: left">a</th>' in text
    assert '<td style="text-align: left">v</td>' in text


@given(st.lists(st.lists(st.sampled_from("ab"), min_size=1, max_size=3), max_size=8), st.booleans())
def test_sums_are_those_of_the_variables(paths: list[list[Any]], trainable: bool) -> None:
    graph = fe.Graph()
    made = [
        graph.variable(np.zeros(len(path), np.float32), name="/".join(path), trainable=trainable)
        for path in paths
    ]
    summary = graph.summary()
    assert [each.name for each in summary.variables] == [each.op.name for each in made]
    assert summary.parameters == sum(map(len, paths))
    assert summary.trainable_parameters == (summary.parameters if trainable else 0)
    for each in summary.variables:
        assert not each.scope or each.name.startswith(f"{each.scope}/")
        assert each.scope not in {other.op.name for other in made}
