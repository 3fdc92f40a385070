"""Names, devices, control dependencies and colocation of what is built."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.core.names import DeviceName, is_valid_node_name
from flowengine.graphs.graph import Graph, Operation


@pytest.fixture
def graph() -> Graph:
    return Graph()


def test_names_are_made_unique(graph: Graph) -> None:
    assert [graph.ops.NoOp(name="a").name for _ in range(3)] == ["a", "a_1", "a_2"]
    assert graph.ops.NoOp(name="a_1").name == "a_1_1"
    assert graph.ops.NoOp().name == "NoOp"
    assert graph.ops.NoOp().name == "NoOp_1"


def test_names_differ_in_more_than_case(graph: Graph) -> None:
    assert [graph.ops.NoOp(name=n).name for n in ("Add", "add", "ADD")] == ["Add", "add_1", "ADD_2"]


def test_name_scopes_nest_and_are_unique(graph: Graph) -> None:
    with graph.name_scope("a") as outer:
        assert outer == "a/"
        assert graph.ops.NoOp(name="x").name == "a/x"
        with graph.name_scope("b"):
            assert graph.ops.NoOp(name="x").name == "a/b/x"
            with graph.name_scope(None):
                assert graph.ops.NoOp(name="x").name == "x"
        assert graph.ops.NoOp(name=outer).name == "a"
    with graph.name_scope("a") as second:
        assert second == "a_1/"
    with graph.name_scope(outer):
        assert graph.ops.NoOp(name="x").name == "a/x_1"
    assert graph.ops.NoOp(name="y").name == "y"


@pytest.mark.parametrize(
    "scope",
    [
        lambda graph: graph.name_scope("a"),
        lambda graph: graph.device("/cpu:1"),
        lambda graph: graph.device(lambda operation: "/cpu:1"),
        lambda graph: graph.control_dependencies(["first"]),
        lambda graph: graph.control_dependencies(None),
        lambda graph: graph.colocate_with("first"),
    ],
    ids=["name", "device", "function of devices", "controls", "no controls", "colocation"],
)
def test_a_scope_is_left_by_an_exception(graph: Graph, scope: Callable[[Graph], Any]) -> None:
    graph.ops.NoOp(name="first")
    graph.ops.NoOp(name="second")

    def leave() -> None:
        with scope(graph):
            graph.ops.NoOp(name="within")
            raise KeyError

    with graph.control_dependencies(["second"]):
        before = graph.ops.NoOp(name="before").node
        with pytest.raises(KeyError):
            leave()
        after = graph.ops.NoOp(name="after").node
    assert replace(after, name="before", creation_site=before.creation_site) == before
    assert graph.ops.NoOp(name="last").node.control_inputs == ()


def test_names_of_a_loaded_graph_are_not_given_again() -> None:
    first = Graph()
    first.ops.NoOp(name="x")
    second = Graph(first)
    assert second.ops.NoOp(name="x").name == "x_1"
    with pytest.raises(InvalidArgumentError, match="a node named 'x' exists already"):
        second.ops.NoOp(name="x/")


@pytest.mark.parametrize("name", ["", " ", "a b", "_a", "a:0", "^a", "ä", "a\n", "/a"])
def test_names_that_no_graph_def_allows_are_refused(graph: Graph, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be the name of a node"):
        graph.ops.NoOp(name=name)


@given(st.lists(st.sampled_from(["a", "A", "a_1", "a_2", "b", "a_1_1", "a/b"]), max_size=12))
def test_names_never_repeat(names: list[str]) -> None:
    graph = Graph()
    made = [graph.ops.NoOp(name=name).name for name in names]
    assert len({name.lower() for name in made}) == len(names)
    assert all(is_valid_node_name(name) for name in made)
    assert all(got.startswith(asked) for got, asked in zip(made, names, strict=True))


def test_devices_fill_in_what_inner_ones_leave_open(graph: Graph) -> None:
    with graph.device("/job:ps/task:1"):
        with graph.device("/gpu:0"):
            assert graph.ops.NoOp().device == "/job:ps/task:1/device:GPU:0"
        with graph.device(DeviceName(task=2)):
            assert graph.ops.NoOp().device == "/job:ps/task:2"
        with graph.device(None):
            assert graph.ops.NoOp().device == ""
    assert graph.ops.NoOp().device == ""
    with pytest.raises(InvalidArgumentError, match="device name"), graph.device("/nonsense:1:2"):
        pass


def test_control_dependencies_add_up(graph: Graph) -> None:
    a, b = graph.ops.NoOp(name="a"), graph.constant(1.0, name="b")
    with graph.control_dependencies([a]):
        with graph.control_dependencies([b, a, "^b"]):
            node = graph.ops.NoOp().node
            with graph.control_dependencies(None):
                free = graph.ops.NoOp().node
        single = graph.ops.NoOp().node
    assert node.control_inputs == ("a", "b")
    assert single.control_inputs == ("a",)
    assert free.control_inputs == ()
    assert graph.operation(node.name).control_inputs == (a, b.op)


def test_control_dependencies_must_be_of_the_graph(graph: Graph) -> None:
    other = Graph().ops.NoOp(name="far")
    wrong: Any = [3]
    with pytest.raises(InvalidArgumentError, match="'far' belongs to another graph"):
        graph.control_dependencies([other])
    with pytest.raises(NotFoundError, match="no node named 'nowhere'"):
        graph.control_dependencies(["nowhere"])
    with pytest.raises(InvalidArgumentError, match="3 is neither a Tensor nor an Operation"):
        graph.control_dependencies(wrong)


def test_group_waits_for_all(graph: Graph) -> None:
    made = graph.group(graph.ops.NoOp(name="a"), graph.constant(1, name="b"), name="all")
    assert made.name == "all"
    assert made.node.control_inputs == ("a", "b")


def test_colocation_is_stronger_than_the_devices_around(graph: Graph) -> None:
    """TensorFlow 1.15's devices."""
    turn = itertools.count()
    with graph.device(lambda op: f"/job:ps/task:{next(turn) % 2}" if op.type == "VarHandleOp" else op.device):
        a = graph.ops.VarHandleOp(shape=[], dtype="float32", name="a")
        b = graph.constant(1.0, name="b")
        with graph.device("/job:worker"), graph.colocate_with(a):
            c = graph.constant(1.0, name="c")
            with graph.device("/job:master/task:3"):
                graph.constant(1.0, name="d")
        with graph.device("/job:worker"), graph.colocate_with(b):
            graph.constant(1.0, name="e")
            with graph.device("/job:master"), graph.colocate_with(c):
                graph.constant(1.0, name="f")
            graph.ops.VarHandleOp(shape=[], dtype="float32", name="g")
        with graph.device("/job:worker"), graph.colocate_with():
            graph.constant(1.0, name="h")
    assert {name: graph[name].device for name in "abcdefgh"} == {
        "a": "/job:ps/task:0",
        "b": "",
        "c": "/job:ps/task:0",
        "d": "/job:ps/task:0",
        "e": "",
        "f": "/job:ps/task:0",
        "g": "",
        "h": "/job:worker",
    }


def test_colocation_is_an_attribute(graph: Graph) -> None:
    a = graph.constant(1, name="a")
    with graph.colocate_with(a):
        b = graph.constant(2)
    assert b.op.get_attr("_class") == (b"loc:@a",)
    assert "_class" not in graph.constant(3).op.node.attrs


def test_attributes_that_are_given_stand_before_those_of_scopes(graph: Graph) -> None:
    a = graph.constant(1.0, name="a")
    with graph.colocate_with(a), graph.gradient_override(Neg="Guided"):
        given = graph.create_op("Neg", [a], {"_class": [b"loc:@b"], "_gradient_op_type": "Own"})
        scoped = graph.create_op("Neg", [a])
    assert given.get_attr("_class") == (b"loc:@b",)
    assert given.get_attr("_gradient_op_type") == b"Own"
    assert scoped.get_attr("_class") == (b"loc:@a",)
    assert scoped.get_attr("_gradient_op_type") == b"Guided"


def test_a_function_chooses_the_device_of_each_operation(graph: Graph) -> None:
    asked: list[tuple[str, str, str]] = []

    def on_server(op: Operation) -> str | DeviceName | None:
        asked.append((op.name, op.type, op.device))
        if op.type == "Const":
            return None
        return "/job:ps/task:1" if op.type == "VariableV2" else DeviceName.parse(op.device)

    with graph.device("/job:worker/cpu:0"), graph.device(on_server):
        w = graph.ops.VariableV2(shape=[], dtype="float32", name="w")
        c = graph.constant(1.0, name="c")
        with graph.device("/task:3"):
            y = graph.ops.Neg(c, name="y")
        with graph.device(None):
            free = graph.ops.Neg(c, name="free")
    # A function's answer stands alone but for the scopes around it; None in it says nothing.
    assert asked == [("w", "VariableV2", ""), ("c", "Const", ""), ("y", "Neg", "/task:3")]
    found = [each.op.device for each in (w, c, y, free)]
    assert found == [
        "/job:ps/task:1/device:CPU:0",
        "/job:worker/device:CPU:0",
        "/job:worker/task:3/device:CPU:0",
        "",
    ]
    assert graph.ops.NoOp().device == ""


def test_functions_nest(graph: Graph) -> None:
    with (
        graph.device(lambda op: f"{op.device}/cpu:0"),
        graph.device("/task:2"),
        graph.device(lambda op: "/job:a"),
    ):
        assert graph.ops.NoOp().device == "/job:a/task:2/device:CPU:0"
        with graph.device("/gpu:1"):
            assert graph.ops.NoOp().device == "/job:a/task:2/device:CPU:0"
    with pytest.raises(InvalidArgumentError, match="3 is no device"), graph.device(3):  # type: ignore[arg-type]
        pass


def test_a_variable_stays_with_its_device_within_functions(graph: Graph) -> None:
    with graph.device("/job:ps"):
        w = graph.variable([1.0], name="w")
    with graph.device(lambda op: "/job:worker"):
        read = w.read()
        assert graph["w"].device == "/job:ps"
        assert read.op.device


def test_what_is_imported_gets_what_it_leaves_open(graph: Graph) -> None:
    other = Graph()
    with other.device("/task:1"):
        other.ops.NoOp(name="a")
    other.ops.NoOp(name="b")
    with graph.device("/job:ps/task:0"):
        graph.import_graph_def(other, prefix="first")
    with graph.device(lambda op: f"/job:worker{op.device}"):
        graph.import_graph_def(other, prefix="second")
    devices = {node.name: node.device for node in graph}
    assert devices == {
        "first/a": "/job:ps/task:1",
        "first/b": "/job:ps/task:0",
        "second/a": "/job:worker/task:1",
        "second/b": "/job:worker",
    }
