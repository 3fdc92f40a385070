"""Equal nodes become one; nodes that differ in anything stay two."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import flowengine.kernels.load
from flowengine.core import dtypes
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.ir.graph import NodeGraph
from flowengine.ir.validate import check_graph
from flowengine.passes.context import PassContext
from flowengine.passes.simplify import cse
from flowengine.passes.simplify.cse import COMPARED_BYTES_MAX, merge_common_subexpressions

KERNELS = flowengine.kernels.load.load_all()


def merged(
    graph: NodeGraph, *fetches: Tensor, feeds: tuple[Tensor, ...] = (), targets: str = ""
) -> NodeGraph:
    context = PassContext(
        feeds=tuple(t.port for t in feeds),
        fetches=tuple(t.port for t in fetches),
        targets=tuple(targets.split()),
        kernels=KERNELS,
    )
    result = merge_common_subexpressions(graph, context)
    check_graph(result, supplied=context.feeds)
    return result


@pytest.fixture
def g() -> Graph:
    g = Graph()
    g.placeholder("float32", [2], name="x")
    g.placeholder("float32", [2], name="z")
    return g


def x(g: Graph) -> Tensor:
    return g.tensor("x:0")


def test_equal_nodes_become_the_first_and_so_do_their_consumers(g: Graph) -> None:
    a = g.ops.Neg(g.ops.Tanh(x(g), name="t1"), name="n1")
    b = g.ops.Neg(g.ops.Tanh(x(g), name="t2"), name="n2")
    y = g.ops.Add(a, b, name="y")
    result = merged(g, y)
    assert list(result.nodes) == ["x", "z", "t1", "n1", "y"]
    assert [str(port) for port in result["y"].inputs] == ["n1:0", "n1:0"]
    assert result["t1"] is g["t1"]


def test_several_outputs(g: Graph) -> None:
    axis = g.constant(0)
    a, b = g.ops.Split(axis, x(g), num_split=2, name="s1")
    c, d = g.ops.Split(axis, x(g), num_split=2, name="s2")
    y = g.ops.AddN([a, b, c, d], name="y")
    assert [str(port) for port in merged(g, y)["y"].inputs] == ["s1:0", "s1:1", "s1:0", "s1:1"]


def test_nothing_to_merge_returns_the_graph(g: Graph) -> None:
    g.ops.Neg(x(g), name="a")
    g.ops.Abs(x(g), name="b")
    assert merged(g) is g


def test_what_is_fetched_or_a_target_keeps_its_name(g: Graph) -> None:
    a = g.ops.Neg(x(g), name="a")
    b = g.ops.Neg(x(g), name="b")
    c = g.ops.Neg(x(g), name="c")
    y = g.ops.AddN([a, b, c], name="y")
    result = merged(g, y, b, targets="c")
    assert [str(port) for port in result["y"].inputs] == ["a:0", "b:0", "c:0"]
    result = merged(g, y, b)
    assert [str(port) for port in result["y"].inputs] == ["a:0", "b:0", "a:0"]


def test_control_edges_follow(g: Graph) -> None:
    a = g.ops.Neg(x(g), name="a")
    b = g.ops.Neg(x(g), name="b")
    with g.control_dependencies([a, b]):
        g.ops.NoOp(name="after")
    assert merged(g, targets="after")["after"].control_inputs == ("a",)


def test_the_order_of_control_inputs_means_nothing(g: Graph) -> None:
    with g.control_dependencies(["x", "z"]):
        a = g.ops.Neg(x(g), name="a")
    with g.control_dependencies(["z", "x"]):
        b = g.ops.Neg(x(g), name="b")
    assert "b" not in merged(g, g.ops.Add(a, b, name="y"))


def test_the_back_edge_of_a_loop_follows() -> None:
    g = Graph()
    enter = g.ops.Enter(g.constant(0), frame_name="loop", name="enter")
    merge, _ = g.ops.Merge([enter, enter], name="merge")
    limit = g.ops.Enter(g.constant(9), frame_name="loop", is_constant=True)
    out, stay = g.ops.Switch(merge, g.ops.LoopCond(g.ops.Less(merge, limit)), name="switch")
    g.ops.Neg(stay, name="n1")
    again = g.ops.NextIteration(g.ops.Neg(stay, name="n2"), name="next")
    g.set_back_edge("merge", 1, again)
    y = g.ops.Exit(out, name="exit")
    result = merged(g, y)
    assert "n2" not in result
    assert str(result["next"].inputs[0]) == "n1:0"


def neg(g: Graph, **changes: Any) -> None:
    """A second Neg of x that differs from `a`."""
    node = g.ops.Neg(x(g), name="b").op.node
    g._nodes["b"] = replace(node, **changes)


@pytest.mark.parametrize(
    "change",
    [
        {"device": "/device:CPU:1"},
        {"control_inputs": ("z",)},
        {"attrs": {"T": dtypes.float32, "_class": (b"loc:@x",)}},
    ],
)
def test_any_difference_keeps_them_apart(g: Graph, change: dict[str, Any]) -> None:
    g.ops.Neg(x(g), name="a")
    neg(g, **change)
    assert "b" in merged(g)


def constants(g: Graph, first: Any, second: Any) -> bool:
    """Whether two constants are merged."""
    g.constant(first, name="c1")
    g.constant(second, name="c2")
    return "c2" not in merged(g)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (np.float32(1), np.float32(1), True),
        (np.float32(0.0), np.float32(-0.0), False),
        (np.float32(np.nan), np.float32(np.nan), True),
        (np.float32(1), np.float64(1), False),
        (np.int32(1), np.bool_(True), False),
        (np.zeros((2, 3), np.int32), np.zeros((3, 2), np.int32), False),
        (b"a", b"a", True),
        (b"a", b"a\0", False),
        ([b"a", b"b"], [b"a", b"b"], True),
        ([b"a", b"b"], [b"ab", b""], False),
        (np.zeros(COMPARED_BYTES_MAX, np.int8), np.zeros(COMPARED_BYTES_MAX, np.int8), True),
        (np.zeros(COMPARED_BYTES_MAX + 1, np.int8), np.zeros(COMPARED_BYTES_MAX + 1, np.int8), False),
    ],
)
def test_constants_are_compared_bit_by_bit(g: Graph, first: Any, second: Any, same: bool) -> None:
    assert constants(g, first, second) is same


def test_float_attributes_are_compared_bit_by_bit(g: Graph) -> None:
    for index, alpha in enumerate([0.0, -0.0, 0.0]):
        g.ops.LeakyRelu(x(g), alpha=alpha, name=f"r{index}")
    assert set(merged(g).nodes) >= {"r0", "r1"}
    assert "r2" not in merged(g)


def test_what_has_an_identity_or_an_effect_is_never_merged(g: Graph) -> None:
    for name in ("1", "2"):
        g.ops.RandomUniform(g.constant([2], name=f"shape{name}"), dtype="float32", name=f"random{name}")
        g.ops.VariableV2(shape=[2], dtype="float32", name=f"variable{name}")
        g.ops.VarHandleOp(shape=[2], dtype="float32", shared_name="v", name=f"handle{name}")
        g.ops.ReadVariableOp(g.tensor("handle1:0"), dtype="float32", name=f"read{name}")
        g.ops.Identity(g.tensor("variable1:0"), name=f"value{name}")
        g.ops.Mul(x(g), g.tensor("variable1:0"), name=f"scaled{name}")
        g.ops.Switch(x(g), g.constant(True, name="true"), name=f"switch{name}")
        g.ops.NoOp(name=f"no_op{name}")
        g.ops.FIFOQueueV2(component_types=["float32"], name=f"queue{name}")
        g.ops.TensorListReserve(
            g.constant([2], name="s"), g.constant(1, name="n"), element_dtype="float32", name=f"list{name}"
        )
    result = merged(g)
    for name in ("random", "variable", "handle", "read", "switch", "no_op", "queue", "list"):
        assert f"{name}2" in result, name
    # Reading a reference gives a value at a moment, whichever input it is.
    assert "value2" in result
    assert "scaled2" in result


def test_tensor_arrays_of_the_second_version_are_named_by_strings(g: Graph) -> None:
    flow = g.constant(0.0, name="flow")
    for name in ("1", "2"):
        g.ops.TensorArrayReadV2(
            g.constant(b"array", name="handle" + name),
            g.constant(0),
            flow,
            dtype="float32",
            name="read" + name,
        )
    result = merged(g)
    assert "handle2" not in result
    assert "read2" in result


def test_what_is_fed_differs_from_its_equal(g: Graph) -> None:
    a = g.ops.Neg(x(g), name="a")
    b = g.ops.Neg(x(g), name="b")
    y = g.ops.Add(a, b, name="y")
    assert set(merged(g, y, feeds=(b,)).nodes) == set(g.nodes)
    assert set(merged(g, y, feeds=(a,)).nodes) == set(g.nodes)


def test_keys_of_one_hash_are_kept_apart(g: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every key has the same hash here: equality alone must decide."""

    class Key:
        def __init__(self, content: Any) -> None:
            self.content = content

        def __hash__(self) -> int:
            return 7

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Key) and self.content == other.content

    key = cse._key
    monkeypatch.setattr(cse, "_key", lambda node: Key(key(node)))
    x = g.placeholder("float32", [2], name="x")
    ends = []
    for op in (g.ops.Neg, g.ops.Square, g.ops.Tanh):
        ends += [op(x), op(x)]
    total = g.ops.AddN(ends, name="total")
    found = merged(g, total)
    assert sum(node.op in ("Neg", "Square", "Tanh") for node in found) == 3
    inputs = found["total"].inputs
    assert inputs[0] == inputs[1]
    assert inputs[2] == inputs[3]
    assert inputs[4] == inputs[5]
    assert len(set(inputs)) == 3
