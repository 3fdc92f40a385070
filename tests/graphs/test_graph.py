"""The graph as a whole: loops closed by hand, reading and writing, growth beside a reader."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest

from flowengine.core import dtypes as dt
from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.core.shapes import TensorShape
from flowengine.graphs.graph import Graph
from flowengine.ir.graph import OutputPort


def counting_loop(graph: Graph) -> tuple[str, str]:
    """The names of the Merge and the NextIteration of a loop that counts to 10."""
    enter = graph.ops.Enter(0, frame_name="loop")
    merge = graph.ops.Merge([enter, enter])
    switch = graph.ops.Switch(merge.output, graph.ops.LoopCond(graph.ops.Less(merge.output, 10)))
    following = graph.ops.NextIteration(graph.ops.Add(switch.output_true, 1))
    graph.set_back_edge(merge.output, 1, following)
    graph.ops.Exit(switch.output_false, name="result")
    return merge.output.node_name, following.node_name


def test_a_path_is_loaded_and_is_no_graph(tmp_path: Path) -> None:
    graph = Graph()
    graph.constant(2.0, name="two")
    path = tmp_path / "graph.pb"
    path.write_bytes(graph.to_graph_def().SerializeToString())
    for given in (path, str(path)):
        assert [node.name for node in Graph.load(given)] == ["two"]
        with pytest.raises(InvalidArgumentError, match=r"is a path, not a graph: Graph.load\(path\)"):
            Graph.from_graph_def(given)
    with pytest.raises(NotFoundError, match="there is no file"):
        Graph.load(tmp_path / "nothing.pb")
    with pytest.raises(NotFoundError, match="saved_model"):
        Graph.load(tmp_path)


def test_a_graph_says_what_it_is() -> None:
    graph = Graph()
    x = graph.placeholder("float32", [None], name="x")
    with graph.name_scope("layer"):
        y = graph.ops.Neg(x, name="y")
    assert repr(graph) == "<Graph of 2 nodes, to be fed x:0>"
    assert repr(Graph()) == "<Graph of 0 nodes>"
    drawn = graph._repr_html_()
    assert "<summary><b>layer</b> (1)</summary>" in drawn
    assert "<code>layer/y = Neg(x:0)</code> float32 [?]" in drawn
    assert y._repr_html_() == "<code>layer/y:0</code> float32 [?] by Neg"


def test_names_of_strangers_are_escaped_in_a_drawing() -> None:
    graph = Graph.from_graph_def('node { name: "a" op: "<script>" }')
    assert "<script>" not in graph._repr_html_()
    assert "&lt;script&gt;" in graph._repr_html_()


def test_graphs_are_copied_and_pickled() -> None:
    graph = Graph()
    counting_loop(graph)
    text = str(graph.to_graph_def())
    for made in (copy.copy(graph), copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert isinstance(made, Graph)
        assert str(made.to_graph_def()) == text
        made.ops.Neg(1.0, name="more")
        assert "more" not in graph


def test_a_loop_is_closed_by_a_back_edge() -> None:
    graph = Graph()
    merge, following = counting_loop(graph)
    assert graph[merge].inputs == (OutputPort("Enter", 0), OutputPort(following, 0))
    assert graph.tensor("result:0").shape == TensorShape([])


def test_a_back_edge_joins_a_next_iteration_to_a_merge_of_its_type() -> None:
    graph = Graph()
    merge, following = counting_loop(graph)
    real = graph.ops.NextIteration(1.0)
    with pytest.raises(InvalidArgumentError, match="is int32, its back edge 'NextIteration_1:0' float32"):
        graph.set_back_edge(merge, 1, real)
    with pytest.raises(InvalidArgumentError, match="comes from a NextIteration; 'Enter:0' is of a Enter"):
        graph.set_back_edge(merge, 1, OutputPort("Enter", 0))
    with pytest.raises(InvalidArgumentError, match="only a Merge can have a back edge"):
        graph.set_back_edge("Enter", 0, graph.tensor(f"{following}:0"))
    with pytest.raises(InvalidArgumentError, match="has 2 inputs, no number 2"):
        graph.set_back_edge(merge, 2, graph.tensor(f"{following}:0"))
    with pytest.raises(InvalidArgumentError, match="would have nothing but back edges"):
        graph.set_back_edge(merge, 0, graph.tensor(f"{following}:0"))


def test_written_and_read_it_is_the_same_graph() -> None:
    graph = Graph()
    counting_loop(graph)
    with graph.device("/cpu:0"), graph.control_dependencies(["result"]):
        graph.ops.Conv2D(
            graph.placeholder("float32", [None, 8, 8, 1]),
            [[[[0.5]]]],
            strides=[1, 1, 1, 1],
            padding="SAME",
            name="conv",
        )
        graph.ops.VariableV2(shape=[2, 3], dtype="half", name="v")
        graph.constant(["a", b"b\x00"], name="text")
    again = Graph.from_graph_def(graph.to_graph_def().SerializeToString())
    assert list(again.nodes) == list(graph.nodes)
    for node in graph:
        other = again[node.name]
        assert (other.op, other.inputs, other.control_inputs) == (node.op, node.inputs, node.control_inputs)
        assert (other.device, other.output_types) == (node.device, node.output_types)
        for slot in range(len(node.output_types)):
            port = OutputPort(node.name, slot)
            assert again.shape_of(port) == graph.shape_of(port), port
    assert again["text"].attrs["value"].value().tolist() == [b"a", b"b\x00"]
    assert again["v"].output_types == (dt.float16.ref,)


def test_a_graph_that_was_read_can_be_built_on() -> None:
    first = Graph()
    first.placeholder("float32", [None, 3], name="x")
    graph = Graph.from_graph_def(first.to_graph_def())
    y = graph.ops.MatMul(graph.tensor("x:0"), [[1.0], [2.0], [3.0]], name="y")
    assert y.shape == TensorShape([None, 1])
    assert graph.version > first.version


def test_an_op_that_is_not_known_is_kept_unless_strict() -> None:
    text = 'node { name: "m" op: "Mystery" } node { name: "n" op: "NoOp" input: "^m" }'
    graph = Graph.from_graph_def(text)
    assert graph["m"].op_def is None
    assert graph.operation("m").outputs == ()
    with pytest.raises(InvalidArgumentError, match="Mystery"):
        Graph.from_graph_def(text, strict=True)


def test_a_snapshot_does_not_grow() -> None:
    graph = Graph()
    graph.constant(1)
    snapshot = graph.snapshot()
    graph.constant(2)
    assert (len(snapshot), len(graph)) == (1, 2)
    assert snapshot.version < graph.version


def test_nodes_added_underneath_are_seen() -> None:
    source = Graph()
    source.ops.Neg(source.placeholder("float32", [4], name="x"), name="y")
    graph = Graph()
    for node in source:
        graph.add(node)
    assert graph.tensor("y:0").shape == TensorShape([4])
    assert graph.ops.Exp(graph.tensor("y:0")).shape == TensorShape([4])
