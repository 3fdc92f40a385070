"""Cutting by device: what crosses, how often, and what each device gets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.ir.frames import assign_frames
from flowengine.ir.graph import OutputPort
from flowengine.passes.context import PassContext
from flowengine.passes.cut.partition import Partition, PartitionedGraph, partition
from flowengine.testing.control import while_loop

A, B, C = (f"/job:localhost/replica:0/task:0/device:CPU:{index}" for index in range(3))


def cut(
    g: Graph,
    where: Callable[[str], str],
    fetches: Iterable[str] = (),
    feeds: Iterable[str] = (),
    targets: Iterable[str] = (),
) -> PartitionedGraph:
    """The graph cut by what `where` says of each node."""

    def port(name: str) -> OutputPort:
        node, _, slot = name.partition(":")
        return OutputPort(node, int(slot or 0))

    context = PassContext(
        feeds=tuple(map(port, feeds)), fetches=tuple(map(port, fetches)), targets=tuple(targets)
    )
    return partition(g, context, {node.name: where(node.name) for node in g}, {A: 11, B: 22, C: 33})


def of(parts: PartitionedGraph, device: str) -> Partition:
    return next(part for part in parts.partitions if part.device == device)


def ops(part: Partition) -> list[str]:
    return sorted(node.op for node in part.graph)


def test_a_tensor_crosses_once_however_many_want_it() -> None:
    g = Graph()
    x = g.placeholder("float32", [3], name="x")
    source = g.ops.Exp(x, name="source")
    for number in range(10):
        g.ops.Mul(source, source, name=f"b{number}")
    parts = cut(g, lambda name: B if name.startswith("b") else A, feeds=["x"])
    assert [(t.edge, t.source, t.target) for t in parts.transfers] == [("source:0", A, B)]
    assert ops(of(parts, B)) == ["Mul"] * 10 + ["_Recv"]
    (send,) = (node for node in of(parts, A).graph if node.op == "_Send")
    (receive,) = (node for node in of(parts, B).graph if node.op == "_Recv")
    for name in ("tensor_name", "send_device", "send_device_incarnation", "recv_device"):
        assert send.attrs[name] == receive.attrs[name]
    assert send.attrs["send_device_incarnation"] == 11


def test_control_edges_of_a_node_become_one_transfer_with_an_owner() -> None:
    g = Graph()
    first = g.ops.NoOp(name="first")
    with g.control_dependencies([first]):
        for number in range(4):
            g.ops.NoOp(name=f"b{number}")
    parts = cut(g, lambda name: B if name.startswith("b") else A)
    assert [t.edge for t in parts.transfers] == ["^first"]
    there = of(parts, B)
    assert ops(there) == ["NoOp", "NoOp", "NoOp", "NoOp", "_Recv"]
    (owner,) = (node.name for node in there.graph if node.op == "_Recv")
    assert all(node.control_inputs == (owner,) for node in there.graph if node.op == "NoOp")


def test_a_control_edge_crosses_with_an_output_of_its_node() -> None:
    g = Graph()
    x = g.placeholder("float32", [], name="x")
    first = g.ops.Neg(x, name="first")
    side = g.ops.Switch(first, g.constant(np.bool_(True)), name="side")
    g.ops.Mul(first, first, name="b_data")
    g.ops.Neg(side[0], name="b_side")
    with g.control_dependencies([first]):
        g.ops.NoOp(name="b_after")
    with g.control_dependencies([side[0].op]):
        g.ops.NoOp(name="b_after_side")
    parts = cut(g, lambda name: B if name.startswith("b") else A, feeds=["x"])
    # Of a Switch one output may be dead where the node itself is not.
    assert sorted(t.edge for t in parts.transfers) == ["^side", "first:0", "side:0"]
    there = of(parts, B).graph
    assert there["b_after"].control_inputs == (there["b_data"].inputs[0].node,)


def test_small_constants_and_feeds_are_there_already() -> None:
    g = Graph()
    x = g.placeholder("float32", [3], name="x")
    small = g.constant(np.float32(2), name="small")
    large = g.constant(np.zeros(20_000, np.float32), name="large")
    g.ops.Mul(x, small, name="b")
    g.ops.Mul(x, small, name="c")
    g.ops.Size(large, name="b_size")
    parts = cut(g, lambda name: B if name.startswith("b") else C if name == "c" else A, feeds=["x"])
    assert [t.edge for t in parts.transfers] == ["large:0"]
    assert of(parts, B).feeds == of(parts, C).feeds == (0,)
    assert "Const" in ops(of(parts, B))


def test_a_constant_keeps_its_name_on_its_own_device_alone() -> None:
    g = Graph()
    small = g.constant(np.float32(2), name="small")
    for name in ("a", "b", "c"):
        g.ops.Neg(small, name=name)
    parts = cut(g, lambda name: {"b": B, "c": C}.get(name, A))
    names = [[n.name for n in of(parts, device).graph if n.op == "Const"] for device in (A, B, C)]
    assert names[0] == ["small"]
    assert len({name for (name,) in names}) == 3, "one name would be two nodes of a trace"


def test_fetches_and_targets_go_to_the_device_of_their_node() -> None:
    g = Graph()
    x = g.placeholder("float32", [], name="x")
    g.ops.Exp(x, name="a")
    g.ops.Exp(x, name="b")
    g.ops.NoOp(name="t")
    parts = cut(
        g,
        lambda name: {"b": B, "t": C}.get(name, A),
        ["b:0", "a:0", "x:0", "b:0"],
        feeds=["x"],
        targets=["t"],
    )
    assert of(parts, A).fetches == (1, 2)
    assert of(parts, B).fetches == (0, 3)
    assert of(parts, C).targets == ("t",)
    assert not parts.transfers


def test_references_and_resources_do_not_cross() -> None:
    g = Graph()
    v = g.ops.VariableV2(dtype="float32", shape=[], name="v")
    g.ops.AssignAdd(v, g.constant(1.0), name="b")
    with pytest.raises(InvalidArgumentError, match=r"'b' \(AssignAdd\).*reference from 'v'"):
        cut(g, lambda name: B if name == "b" else A)
    g = Graph()
    handle = g.ops.VarHandleOp(dtype="float32", shape=[], name="h")
    g.ops.ReadVariableOp(handle, dtype="float32", name="b")
    with pytest.raises(InvalidArgumentError, match="resource from 'h'"):
        cut(g, lambda name: B if name == "b" else A)
    with pytest.raises(InvalidArgumentError, match="not one of the devices"):
        cut(g, lambda name: "/device:GPU:9")


def test_a_value_is_read_through_a_reference_when_its_consumer_would_read_it() -> None:
    g = Graph()
    v = g.ops.VariableV2(dtype="float32", shape=[], name="v")
    assign = g.ops.Assign(v, g.constant(1.0), name="assign")
    with g.control_dependencies([assign.op]):
        g.ops.Neg(v, name="b")
    parts = cut(g, lambda name: B if name == "b" else A)
    (read,) = (node for node in of(parts, A).graph if node.op == "Identity")
    assert read.control_inputs == ("assign",)
    assert {t.edge for t in parts.transfers} == {f"{read.name}:0", "^assign"}


def test_a_read_for_a_merge_does_not_wait_for_the_other_inputs() -> None:
    """A Merge takes what comes first: the others may never come."""
    g = Graph()
    v = g.ops.VariableV2(dtype="float32", shape=[], name="v")
    x = g.placeholder("float32", [], name="x")
    side = g.ops.Switch(x, g.placeholder("bool", [], name="p"), name="side")
    before = g.ops.NoOp(name="before")
    with g.control_dependencies([before]):
        g.ops.Merge([side.output_true, v], name="b")
    parts = cut(g, lambda name: B if name == "b" else A, feeds=["x", "p"])
    (read,) = (node for node in of(parts, A).graph if node.op == "Identity")
    assert read.control_inputs == ("before",)


def test_who_waits_for_a_constant_waits_for_what_that_waits_for() -> None:
    """A constant that waits for something is no value that is simply there: it is not made anew elsewhere."""
    g = Graph()
    before = g.ops.NoOp(name="before")
    with g.control_dependencies([before]):
        late = g.constant(np.float32(2), name="late")
    g.ops.Neg(late, name="b_value")
    with g.control_dependencies([late.op]):
        g.ops.NoOp(name="b_after")
    parts = cut(g, lambda name: B if name.startswith("b_") else A)
    there = of(parts, B).graph
    (receive,) = (node.name for node in there if node.op == "_Recv")
    assert there["b_after"].control_inputs == (receive,)
    assert there["b_value"].inputs == (OutputPort(receive, 0),)
    assert "Const" not in ops(of(parts, B))


def test_a_branch_of_a_reference_stays_where_its_variable_is() -> None:
    """Only what makes its value anew is made where it is wanted: a RefSwitch hands on what it was given."""
    g = Graph()
    v = g.ops.VariableV2(dtype="float32", shape=[], name="v")
    side = g.ops.RefSwitch(v, g.placeholder("bool", [], name="p"), name="side")
    g.ops.Neg(side.output_true, name="b")
    parts = cut(g, lambda name: B if name == "b" else A, feeds=["p"])
    assert "side" in of(parts, A).graph
    assert ops(of(parts, B)) == ["Neg", "_Recv"]


def loop(g: Graph, invariant: bool = True) -> list[str]:
    x = g.placeholder("float32", [], name="x")
    results = while_loop(
        g,
        lambda i, t, n: g.ops.Less(i, n),
        lambda i, t, n: [
            g.ops.Add(i, g.constant(1.0)),
            g.ops.Mul(g.ops.Add(t, n, name="far"), t, name="near"),
        ],
        [g.constant(0.0), x],
        invariants=[g.constant(3.0)],
        parallel_iterations=7,
    )
    return [tensor.name for tensor in results]


def test_a_split_loop_gets_a_control_loop_on_each_device() -> None:
    g = Graph()
    names = loop(g)
    parts = cut(g, lambda name: B if name.endswith("far") else A, names, ["x"])
    for part in parts.partitions:
        enters = [node for node in part.graph if node.op == "Enter" and "_control_" in node.name]
        assert len(enters) == 1
        assert enters[0].attrs["parallel_iterations"] == 7
        frames = assign_frames(part.graph, {OutputPort("x", 0)})
        assert len(frames) == len(part.graph), "every node is reached"
        anchors = [n for n in part.graph if n.op == "_Recv" and frames[n.name]]
        assert all(len(node.control_inputs) == 1 for node in anchors)
        assert anchors
    assert {t.edge.rpartition("/")[2] for t in parts.transfers} >= {"LoopCond:0", "Identity_1:0", "far:0"}


def test_a_loop_on_one_device_stays_as_it_is_and_its_invariants_cross_once() -> None:
    g = Graph()
    names = loop(g)
    parts = cut(g, lambda name: B if name.startswith("while") else A, names, ["x"])
    assert not any("_control_" in node.name for part in parts.partitions for node in part.graph)
    assert all(not t.frame for t in parts.transfers)


def test_a_frame_without_a_loop_condition_stays_together() -> None:
    g = Graph()
    start = g.placeholder("int32", [], name="x")
    enter = g.ops.Enter(start, frame_name="f")
    merge = g.ops.Merge([enter, enter])
    switch = g.ops.Switch(
        merge.output, g.ops.Less(merge.output, g.ops.Enter(start, frame_name="f"), name="b")
    )
    g.set_back_edge(merge.output, 1, g.ops.NextIteration(switch.output_true))
    out = g.ops.Exit(switch.output_false)
    parts = cut(g, lambda name: B if name == "b" else A, [out.name], ["x"])
    assert len(parts.partitions) == 1


def test_names_that_the_graph_has_are_not_taken() -> None:
    g = Graph()
    x = g.placeholder("float32", [], name="x")
    a = g.ops.Exp(x, name="a")
    g.ops.Neg(a, name="b")
    g.add(replace(g["x"], name="a/_send_0_cpu_1"))
    parts = cut(g, lambda name: B if name == "b" else A, ["b:0"], ["x"])
    names = [node.name for part in parts.partitions for node in part.graph]
    assert len(names) == len(set(names))


async def test_equal_nodes_on_two_devices_stay_two_and_constants_fold_where_they_are() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [4], name="x")
    outs = []
    for index in range(2):
        with g.device(f"/cpu:{index}"):
            outs.append(g.ops.Mul(x, g.ops.Add(g.constant(1.0), g.constant(2.0)), name=f"y{index}"))
    async with fe.Session(g, config=fe.Config(device_count={"CPU": 2})) as session:
        metadata = fe.RunMetadata()
        one, two = await session.run(outs, {x: np.ones(4, np.float32)}, run_metadata=metadata)
        assert one.tolist() == two.tolist() == [3.0] * 4
        assert metadata.transfers == {}, "each device computes its own"
        assert len(metadata.devices) == 2


def test_a_frame_within_one_without_a_loop_condition_stays_with_it() -> None:
    g = Graph()
    start = g.placeholder("int32", [], name="x")
    enter = g.ops.Enter(start, frame_name="f")
    merge = g.ops.Merge([enter, enter])
    limit = g.ops.Enter(start, frame_name="f")
    switch = g.ops.Switch(merge.output, g.ops.Less(merge.output, limit))
    (inner,) = while_loop(
        g,
        lambda i, n: g.ops.Less(i, n, name="b_less"),
        lambda i, n: [g.ops.Add(i, n, name="b_add")],
        [switch.output_true],
        invariants=[switch.output_true],
    )
    g.set_back_edge(merge.output, 1, g.ops.NextIteration(inner))
    out = g.ops.Exit(switch.output_false)
    parts = cut(g, lambda name: B if "b_" in name else A, [out.name], ["x"])
    assert [part.device for part in parts.partitions] == [A]


def test_a_loop_within_a_loop_is_gone_round_on_each_device_of_the_inner_one() -> None:
    """A device that has no other part in the outer loop has to know when its inner one begins again."""
    g = Graph()
    x = g.placeholder("float32", [], name="x")

    def rounds(i: Tensor, t: Tensor, n: Tensor) -> list[Tensor]:
        inner = while_loop(
            g,
            lambda j, u, m: g.ops.Less(j, m),
            lambda j, u, m: [g.ops.Add(j, 1.0), g.ops.Mul(u, u, name="far")],
            [g.ops.Sub(i, i), t],
            invariants=[n],
        )
        return [g.ops.Add(i, 1.0), inner[1]]

    results = while_loop(
        g, lambda i, t, n: g.ops.Less(i, n), rounds, [g.constant(0.0), x], invariants=[g.constant(3.0)]
    )
    parts = cut(g, lambda name: B if name.endswith("far") else A, [results[1].name], ["x"])
    for part in parts.partitions:
        frames = assign_frames(part.graph, {OutputPort("x", 0)})
        assert len(frames) == len(part.graph), "every node is reached"
        assert {len(frames[n.name]) for n in part.graph if n.op == "Merge" and "_control_" in n.name} == {
            1,
            2,
        }
