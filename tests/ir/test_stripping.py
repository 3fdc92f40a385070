"""Attributes that ops here lack: which are refused, which are ignored, and where tools list them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.cli.main import main
from flowengine.ir.graph import GRAPH_VERSION
from flowengine.ir.proto import DataType, GraphDef, MetaGraphDef, SavedModel
from flowengine.ir.stripping import take_unknown_attrs
from flowengine.ops.load import registry

Output = pytest.CaptureFixture[str]


def rectified(change: Callable[[Any], None] = lambda node: None) -> GraphDef:
    """y = Relu(x), its node changed."""
    g = fe.Graph()
    g.ops.Relu(g.placeholder("float32", [2], name="x"), name="y")
    message = GraphDef.FromString(g.to_graph_def().SerializeToString())
    change(message.node[1])
    return message


def leaky(node: Any) -> None:
    node.attr["alpha"].f = 0.3


def exported(graph_def: GraphDef, default: float) -> MetaGraphDef:
    """The graph with its producer's definition of Relu, in which alpha has a default."""
    meta = MetaGraphDef(graph_def=graph_def)
    op = meta.meta_info_def.stripped_op_list.op.add(name="Relu")
    op.attr.add(name="alpha", type="float").default_value.f = default
    return meta


def test_an_attribute_that_the_op_lacks_is_refused() -> None:
    with pytest.raises(fe.errors.InvalidArgumentError) as caught:
        fe.Graph.from_graph_def(rectified(leaky))
    (fault,) = caught.value.faults
    assert fault.startswith("Relu 'y': attribute 'alpha' (0.3) is unknown to the op (it has T).")
    assert "remove the attribute" in fault


@given(st.text("abT_", min_size=1, max_size=3), st.integers(0, 3))
def test_names_that_begin_with_a_line_are_notes(name: str, value: int) -> None:
    def note(node: Any) -> None:
        node.attr[f"_{name}"].i = value

    graph = fe.Graph.from_graph_def(rectified(note))
    assert graph["y"].attrs[f"_{name}"] == value
    assert graph.to_graph_def().node[1].attr[f"_{name}"].i == value


def test_an_attribute_in_the_body_of_a_function_is_refused() -> None:
    message = rectified()
    body = message.library.function.add()
    body.signature.name = "Positive"
    body.signature.input_arg.add(name="x", type=DataType.DT_FLOAT)
    body.signature.output_arg.add(name="y", type=DataType.DT_FLOAT)
    body.node_def.add(name="inner", op="Relu", input=["x"]).attr["T"].type = DataType.DT_FLOAT
    body.ret["y"] = "inner:activations:0"
    message.node.add(name="called", op="Positive", input=["x"])
    with fe.blocking.Session(fe.Graph.from_graph_def(message)) as session:
        assert session.run("called:0", {"x:0": [-1.0, 1.0]}).tolist() == [0, 1]
    leaky(body.node_def[0])
    graph = fe.Graph.from_graph_def(message)
    with fe.blocking.Session(graph) as session, pytest.raises(fe.errors.OpError, match="'alpha'"):
        session.run("called:0", {"x:0": [-1.0, 1.0]})
    (found,) = take_unknown_attrs(message, registry())
    assert (found.function, found.op, found.attr) == (body.signature.name, "Relu", "alpha")


@pytest.mark.parametrize("read", ["from_graph_def", "import_graph_def", "load"])
def test_the_default_of_the_producers_definition_is_ignored(read: str, tmp_path: Path) -> None:
    def load(meta: MetaGraphDef) -> None:
        if read == "from_graph_def":
            fe.Graph.from_graph_def(meta)
        elif read == "import_graph_def":
            fe.Graph().import_graph_def(meta)
        else:
            saved = SavedModel(saved_model_schema_version=1, meta_graphs=[meta])
            (tmp_path / "saved_model.pb").write_bytes(saved.SerializeToString())
            fe.Graph.load(tmp_path)

    alike = rectified(leaky)
    load(exported(alike, alike.node[1].attr["alpha"].f))
    with pytest.raises(ValueError, match="'alpha'"):
        load(exported(rectified(leaky), 0.0))


@pytest.mark.parametrize("op", ["MaxPool", "ShuffleAndRepeatDataset"])
def test_defaults_of_tensorflow_2_are_known(op: str) -> None:
    g = fe.Graph()
    node = GraphDef().node.add(name="p", op=op, input=["x"])
    g.placeholder("float32", [1, 4, 4, 1], name="x")
    if op == "MaxPool":
        pooled = g.ops.MaxPool(g.tensor("x:0"), ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
        message = GraphDef.FromString(g.to_graph_def().SerializeToString())
        message.node[-1].attr["explicit_paddings"].list.SetInParent()
        again = fe.Graph.from_graph_def(message)
        assert again[pooled.op.name].op == op
        message.node[-1].attr["explicit_paddings"].list.i.extend([0, 0, 1, 1, 1, 1, 0, 0])
        with pytest.raises(fe.errors.InvalidArgumentError, match="'explicit_paddings'"):
            fe.Graph.from_graph_def(message)
    else:
        node.attr["reshuffle_each_iteration"].b = False
        found = GraphDef(node=[node])
        assert take_unknown_attrs(found, registry()) == []


@pytest.mark.parametrize("verb", ["inspect", "plan"])
def test_tools_list_all_of_them(verb: str, tmp_path: Path, capsys: Output) -> None:
    path = tmp_path / "leaky.pb"
    path.write_bytes(rectified(leaky).SerializeToString())
    assert main([verb, str(path)]) == 0
    told = capsys.readouterr()
    assert "Relu 'y': alpha = 0.3" in told.out + told.err
    assert main(["run", str(path), "--feed", "x=[-1,1]", "--fetch", "y"]) == 3
    assert "attribute 'alpha' (0.3)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("least", "bad", "wrong"),
    [
        (GRAPH_VERSION, [], ""),
        (GRAPH_VERSION + 1, [], f"GraphDef version {GRAPH_VERSION + 1} or above"),
        (0, [GRAPH_VERSION - 1], ""),
        (0, [7, GRAPH_VERSION], "excludes consumers of GraphDef version"),
    ],
)
def test_the_producer_says_who_may_read_its_graph(least: int, bad: list[int], wrong: str) -> None:
    message = rectified()
    message.versions.min_consumer = least
    message.versions.bad_consumers.extend(bad)
    if wrong:
        with pytest.raises(fe.errors.InvalidArgumentError, match=wrong):
            fe.Graph.from_graph_def(message)
    else:
        assert len(fe.Graph.from_graph_def(message)) == 2
