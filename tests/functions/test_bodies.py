"""Facts that are read from a function's body, and the names that its nodes get in the caller."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import flowengine as fe
from flowengine.core.dtypes import as_dtype
from flowengine.core.errors import InvalidArgumentError
from flowengine.functions.bodies import behind_identities, certain_targets, function_key, renamed_attrs
from flowengine.functions.writing import _spelled, fitting_names, function_def
from flowengine.ir.attrs import AttrValue, FuncAttr
from flowengine.ir.graph import OutputPort
from flowengine.ir.proto import GraphDef


def test_a_value_comes_from_behind_what_only_hands_it_on() -> None:
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [], name="x")
    ops.Identity(ops.Identity(x, name="first"), name="second")
    with graph.control_dependencies([ops.NoOp(name="effect")]):
        waits = ops.Identity(x, name="waits")
    ops.Identity(waits, name="behind")
    body: Any = SimpleNamespace(graph=graph)
    wanted = {"x": "x", "first": "x", "second": "x", "waits": "waits", "behind": "waits"}
    for name, source in wanted.items():
        assert behind_identities(body, OutputPort(name, 0)) == OutputPort(source, 0)


def test_frames_and_colocations_are_called_as_where_they_stand() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [], name="x")
    graph.ops.Enter(x, frame_name="loop", name="enter")
    for name, together in (("together", ["loc:@x", "loc:@elsewhere"]), ("apart", ["loc:@elsewhere"])):
        graph.create_op("Neg", [x], {"_class": together}, name)
    found = {
        name: renamed_attrs(graph[name], "call/", {"x", "enter"}) for name in ("enter", "together", "apart")
    }
    assert found["enter"]["frame_name"] == b"call/loop"
    assert found["together"]["_class"] == (b"loc:@call/x",)
    assert "_class" not in found["apart"]
    assert graph["enter"].attrs["frame_name"] == b"loop", "the body itself is as it was"


def test_attributes_of_calls_are_told_apart_bit_by_bit() -> None:
    """0.0 equals -0.0, and a body of one is none of the other; a NaN is found again."""

    def key(value: AttrValue) -> object:
        return function_key(FuncAttr("f", {"a": value}))

    assert key(0.0) != key(-0.0)
    assert key((1.0, 0.0)) != key((1.0, -0.0))
    assert key(float("nan")) == key(float("nan"))
    assert key(FuncAttr("g", {"b": 0.0})) != key(FuncAttr("g", {"b": -0.0}))
    assert key(0.5) == key(0.5)


def test_attributes_of_calls_are_told_apart_by_their_types() -> None:
    """A body for one type is none for another, of the same width or not."""
    types = ["float32", "int32", "uint32", "qint32", "float64", "float32_ref", "string", "resource"]
    keys = [function_key(FuncAttr("f", {"T": as_dtype(each)})) for each in types]
    assert len(set(keys)) == len(types)


def test_effects_in_no_branch_run_for_certain() -> None:
    graph = fe.Graph()
    ops = graph.ops
    ops.NoOp(name="first")
    with graph.control_dependencies(["first"]):
        ops.NoOp(name="second")
    _, on = ops.Switch(graph.constant(1.0), graph.constant(True))
    with graph.control_dependencies([on]):
        ops.NoOp(name="inside")
    with graph.control_dependencies(["inside", "second"]):
        ops.NoOp(name="behind")
    body: Any = SimpleNamespace(graph=graph, targets=["second", "inside", "first", "behind"])
    assert certain_targets(body) == ["second", "first"]


def test_outputs_are_spelled_by_the_definition_of_their_op() -> None:
    graph = fe.Graph()
    graph.ops.Split(0, graph.constant([1, 2]), num_split=2, name="split")
    graph.ops.Unique(graph.constant([1, 2]), name="unique")
    spelled = [
        _spelled(graph, OutputPort(*port), {}) for port in (("split", 1), ("unique", 0), ("unique", 1))
    ]
    assert spelled == ["split:output:1", "unique:y:0", "unique:idx:0"]
    assert _spelled(graph, OutputPort("split", 1), {OutputPort("split", 1): "given"}) == "given"
    with pytest.raises(AssertionError, match="no output of its node"):
        _spelled(graph, OutputPort("unique", 2), {})
    written = GraphDef()
    written.node.add(name="odd", op="NobodyKnowsThis")
    with pytest.raises(InvalidArgumentError, match="NobodyKnowsThis 'odd' is of an op that is not known"):
        _spelled(fe.Graph.from_graph_def(written), OutputPort("odd", 0), {})


def test_a_function_takes_and_gives_values() -> None:
    graph = fe.Graph()
    graph.ops.VariableV2(shape=[], dtype="float32", name="v")
    graph.create_op("_Arg", (), {"T": "float32", "index": 0}, "x")
    port, x = OutputPort("v", 0), OutputPort("x", 0)
    assert function_def("f", graph, {"x": x}, {"y": x}, False).ret == {"y": "x"}
    for arguments, results in (({"x": x}, {"y": port}), ({"x": port}, {"y": x})):
        with pytest.raises(InvalidArgumentError, match=r"'v:0' is a reference to a variable.*give its value"):
            function_def("f", graph, arguments, results, True)


def test_names_of_arguments_are_small_and_differ() -> None:
    names = fitting_names(["a_b", "A_b", "x1", "1x", "_", "caf\u00e9", "a-b"], taken=["x1"])
    assert names[0] == "a_b"
    assert names[3:5] == ["arg_3", "arg_4"]
    assert names[5] == "caf_"
    assert len(set(names)) == len(names)
    assert "x1" not in names
    assert all(name == name.lower() and name.isascii() for name in names)
