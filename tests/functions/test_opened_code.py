"""The nodes that replace an opened call: all of its body, and no edge more than the call has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.functions.rows import rows_of
from flowengine.ir.functions import FunctionBody
from flowengine.ir.graph import NodeGraph
from flowengine.ir.names import CALL_OPS, WHILE_OPS
from tests.functions.test_lowered_calls import opened


def ops_in(graph: NodeGraph) -> set[str]:
    return {node.op for node in graph}


def test_a_counted_loop_is_opened_and_carries_what_stays_the_same() -> None:
    graph = fe.Graph()
    x, stays = (graph.placeholder("float32", [], name=name) for name in ("x", "stays"))
    n = graph.placeholder("int32", [], name="n")

    @fe.function(graph, ["int32", "float32", "float32"])
    def body(i: fe.Tensor, a: fe.Tensor, b: fe.Tensor) -> list[fe.Tensor]:
        return [a, b * a + fe.cast(i, "float32")]

    graph.create_op("For", [0, n, 1, [stays, x]], {"body": body.attr}, "loop")
    fetches = ["loop:0", "loop:1"]
    assert "For" not in ops_in(opened(graph, "loop", feeds=("x", "stays", "n")))
    for is_open in (True, False):
        with fe.blocking.Session(graph, config=fe.Config(open_calls=is_open)) as session:
            feeds = {"x:0": 1.0, "stays:0": 3.0, "n:0": 3}
            assert session.run(fetches, feeds) == [3, ((1 * 3) * 3 + 1) * 3 + 2]


@pytest.mark.parametrize("first", [True, False])
def test_a_loop_carries_all_behind_what_stays_the_same(first: bool) -> None:
    graph = fe.Graph()
    count = graph.placeholder("int32", [], name="count")
    bound = graph.placeholder("int32", [], name="bound")
    given = [bound, count, count] if first else [count, bound, count]

    @fe.function(graph, ["int32"] * 3)
    def cond(a: fe.Tensor, b: fe.Tensor, c: fe.Tensor) -> fe.Tensor:
        return a.graph.ops.Less(b, a) if first else a.graph.ops.Less(a, b)

    @fe.function(graph, ["int32"] * 3)
    def body(a: fe.Tensor, b: fe.Tensor, c: fe.Tensor) -> list[fe.Tensor]:
        return [a, b + 1, c + 2] if first else [a + 1, b, c + 2]

    graph.create_op("While", [given], {"cond": cond.attr, "body": body.attr}, "loop")
    code = opened(graph, "loop", feeds=("count", "bound"))
    assert WHILE_OPS.isdisjoint(ops_in(code))
    # What takes a value that goes around ends with it: it waits for nothing else.
    adding = [node for node in code if node.op in ("Add", "AddV2") and "/body/" in node.name]
    assert len(adding) == 2
    assert all(node.control_inputs == () for node in adding)
    made = [node for node in code if node.op == "Const" and "/body/" in node.name]
    assert made
    assert all(node.control_inputs for node in made), "what is made of nothing waits for its round"
    with fe.blocking.Session(graph) as session:
        found = session.run(["loop:0", "loop:1", "loop:2"], {"count:0": 1, "bound:0": 4})
    assert found == [4, 4, 7]


def test_what_waits_before_a_call_is_waited_for_in_its_code() -> None:
    graph = fe.Graph()

    @fe.function(graph, ["float32"])
    def double(x: fe.Tensor) -> fe.Tensor:
        return x * 2.0

    with graph.control_dependencies([graph.ops.NoOp(name="before")]):
        double(graph.placeholder("float32", [], name="x"), name="y")
    code = opened(graph, "y", feeds=("x",))
    assert CALL_OPS.isdisjoint(ops_in(code))
    (begin,) = (node for node in code if node.name.endswith("/begin"))
    assert "before" in begin.control_inputs
    assert all(type(node.control_inputs) is tuple for node in code), "nodes are values"


@pytest.mark.parametrize("by", ["attribute", "library"])
def test_a_function_with_a_gradient_of_its_own_is_code_like_any_other(by: str) -> None:
    """To run it is; whoever derives it must find the call."""
    graph = fe.Graph()

    @fe.function(graph, ["float32"])
    def double(x: fe.Tensor) -> fe.Tensor:
        return x * 2.0

    x = graph.placeholder("float32", [], name="x")
    attrs: dict[str, Any] = {"Tout": ["float32"], "f": double.attr}
    if by == "attribute":
        attrs["_gradient_op_type"] = b"Mine"
    graph.create_op("PartitionedCall", [[x]], attrs, "y")
    if by == "library":
        written = graph.to_graph_def()
        written.library.gradient.add(function_name="double", gradient_func="double")
        graph = fe.Graph.from_graph_def(written)
    assert CALL_OPS.isdisjoint(ops_in(opened(graph, "y", feeds=("x",))))


@pytest.mark.parametrize(
    ("name", "fits"), [("other", True), ("parse/names", False), ("parse/dense_keys", False)]
)
def test_rows_need_names_that_the_body_does_not_have(name: str, fits: bool) -> None:
    graph = fe.Graph()
    record = graph.create_op("_Arg", (), {"T": "string", "index": 0}, "record").outputs[0]
    default = graph.constant(np.zeros(2, np.float32), name=name)
    graph.ops.ParseSingleExample(
        record,
        [default],
        num_sparse=0,
        sparse_keys=[],
        sparse_types=[],
        dense_keys=["x"],
        dense_shapes=[[2]],
        name="parse",
    )
    port = graph.tensor("parse:0").port
    body = FunctionBody("f", graph, (record.port,), (port,), ())
    assert (rows_of(body, 1, graph.registry) is not None) == fits
