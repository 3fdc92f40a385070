"""Control edges that order no effects are gone; effects and what reads variables keep their order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.ir.graph import NodeGraph, OutputPort
from flowengine.ir.traverse import forward_sources, topological_order
from flowengine.kernels.load import registry
from flowengine.passes.context import PassContext
from flowengine.passes.simplify import relax_controls as module
from flowengine.passes.simplify.dereference_at_use import read_late
from flowengine.passes.simplify.prune import prune
from flowengine.passes.simplify.relax_controls import relax_controls


def context(targets: Iterable[str], fetches: Iterable[str] = (), feeds: Iterable[str] = ()) -> PassContext:
    return PassContext(
        feeds=tuple(OutputPort(name, 0) for name in feeds),
        fetches=tuple(OutputPort(name, 0) for name in fetches),
        targets=tuple(targets),
        kernels=registry("auto"),
    )


def before_each(graph: NodeGraph) -> dict[str, set[str]]:
    """{node: all that comes before it}, by walking."""
    found: dict[str, set[str]] = {}
    for name in topological_order(graph.nodes):
        node = graph[name]
        sources = set(forward_sources(node, graph.nodes))
        found[name] = sources.union(*(found[source] for source in sources))
    return found


def layer(g: fe.Graph, x: Any, upstream: Any, name: str) -> tuple[Any, Any]:
    """Build a dense layer as `tf.gradients` and an optimizer do: (its input's gradient, the update)."""
    ops = g.ops
    weights = ops.VariableV2(shape=[4, 4], dtype="float32", name=f"{name}/weights")
    # By reference, as a hot plan has it behind `late_reads`.
    dx = ops.MatMul(upstream, weights, transpose_b=True, name=f"{name}/dx")
    dw = ops.MatMul(x, upstream, transpose_a=True, name=f"{name}/dw")
    with g.control_dependencies([dx.op, dw.op]):
        group = ops.NoOp(name=f"{name}/group")
    with g.control_dependencies([group]):
        left, right = ops.Identity(dx, name=f"{name}/left"), ops.Identity(dw, name=f"{name}/right")
    rate = g.constant(np.float32(0.01))
    return left, ops.ApplyGradientDescent(weights, rate, right, name=f"{name}/update")


def two_layers() -> tuple[fe.Graph, PassContext]:
    g = fe.Graph()
    x, upstream = g.placeholder("float32", [4, 4], name="x"), g.placeholder("float32", [4, 4], name="up")
    between, last = layer(g, x, upstream, "last")
    left, first = layer(g, g.ops.Neg(x), g.ops.Neg(between, name="slope"), "first")
    g.ops.Neg(left, name="end")
    with g.control_dependencies([last.op, first.op]):
        g.ops.NoOp(name="train")
    return g, context(["train", "end"], feeds=["x", "up"])


def test_the_groups_of_gradients_are_gone() -> None:
    graph, wanted = two_layers()
    after = relax_controls(prune(graph, wanted), wanted)
    assert not [node.name for node in after if node.op == "Identity" or node.name.endswith("/group")]
    assert [str(port) for port in after["slope"].inputs] == ["last/dx:0"]
    assert after["slope"].control_inputs == ()
    # The variable is read by what it is changed after.
    assert after["last/update"].control_inputs == ("last/dx",)
    assert [str(port) for port in after["last/update"].inputs[2:]] == ["last/dw:0"]
    assert after["train"].control_inputs == graph["train"].control_inputs


def test_what_is_fetched_fed_or_waited_for_stays() -> None:
    graph, wanted = two_layers()
    fetching = context(wanted.targets, ["last/left", "first/right"], ["x", "up"])
    after = relax_controls(graph, fetching)
    assert after["last/left"].control_inputs == ("last/group",)
    assert "first/right" in after
    with graph.control_dependencies([graph.operation("last/right")]):
        graph.ops.NoOp(name="late")
    waiting = relax_controls(graph, context([*wanted.targets, "late"], feeds=["x", "up"]))
    assert waiting["late"].control_inputs == ("last/right",)
    assert "last/dx" in before_each(waiting)["late"]


def test_an_update_waits_for_every_reader() -> None:
    g = fe.Graph()
    ops = g.ops
    variable = ops.VariableV2(shape=[], dtype="float32", name="v")
    x = g.placeholder("float32", [], name="x")
    readers = [ops.Add(variable, x, name=f"reader{n}") for n in range(3)]
    apart = ops.Neg(x, name="apart")
    with g.control_dependencies([*(r.op for r in readers), apart.op]):
        group = ops.NoOp(name="group")
    with g.control_dependencies([group]):
        change = ops.Identity(x, name="change")
    ops.AssignSub(variable, change, name="update")
    ops.AddN([*readers, apart], name="sum")
    after = relax_controls(g, context(["update", "sum"], feeds=["x"]))
    assert "apart" not in before_each(after)["update"]
    assert {"reader0", "reader1", "reader2"} <= before_each(after)["update"]


@pytest.mark.parametrize("guard", ["CheckNumerics", "Assert", "unused"])
def test_what_is_there_to_stop_the_step_is_waited_for(guard: str) -> None:
    g = fe.Graph()
    ops = g.ops
    variable = ops.VariableV2(shape=[], dtype="float32", name="v")
    x = g.placeholder("float32", [], name="x")
    if guard == "CheckNumerics":
        checked = ops.CheckNumerics(x, message="bad", name="guard").op
        ops.Neg(g.tensor("guard:0"), name="taker")
    elif guard == "Assert":
        checked = ops.Assert(ops.Greater(x, g.constant(np.float32(0))), [x], name="guard")
    else:
        checked = ops.Neg(x, name="guard").op  # nobody takes it: but for the edge it would not run
    with g.control_dependencies([checked]):
        group = ops.NoOp(name="group")
    with g.control_dependencies([group]):
        change = ops.Identity(x, name="change")
    ops.AssignSub(variable, change, name="update")
    targets = ["update", *(["taker"] if guard == "CheckNumerics" else [])]
    after = relax_controls(g, context(targets, feeds=["x"]))
    assert "guard" in before_each(after)["update"]


def test_what_may_be_dead_is_waited_for() -> None:
    g = fe.Graph()
    ops = g.ops
    x = g.placeholder("float32", [], name="x")
    off, on = ops.Switch(x, g.placeholder("bool", [], name="p"))
    alive = ops.Neg(on, name="alive")
    ops.Neg(alive, name="taker")
    ops.Neg(off, name="other")
    with g.control_dependencies([alive.op]):
        group = ops.NoOp(name="group")
    with g.control_dependencies([group]):
        ops.Identity(ops.Neg(x), name="value")
    ops.Neg(g.tensor("value:0"), name="end")
    wanted = context(["end", "taker", "other"], feeds=["x", "p"])
    assert "alive" in before_each(relax_controls(g, wanted))["end"]


def test_a_graph_without_groups_and_one_with_too_many_events_stay_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [], name="x")
    g.ops.Neg(x, name="y")
    assert relax_controls(g, context(["y"], feeds=["x"])) is g
    graph, wanted = two_layers()
    monkeypatch.setattr(module, "_BITS_MAX", 10)
    assert relax_controls(graph, wanted) is graph


@given(st.data())
def test_effects_keep_their_order(data: st.DataObject) -> None:
    g = fe.Graph()
    ops = g.ops
    values = [g.placeholder("float32", [], name="x")]
    variables = [ops.VariableV2(shape=[], dtype="float32", name=f"v{n}") for n in range(2)]
    nodes = [values[0].op]

    def waits() -> list[Any]:
        return data.draw(st.lists(st.sampled_from(nodes), max_size=3, unique_by=lambda node: node.name))

    kinds = ["Neg", "Add", "read", "update", "group", "Identity", "Identity", "CheckNumerics", "Switch"]
    for number in range(data.draw(st.integers(4, 24))):
        kind, name = data.draw(st.sampled_from(kinds)), f"n{number}"
        value, variable = data.draw(st.sampled_from(values)), data.draw(st.sampled_from(variables))
        with g.control_dependencies(waits()):
            if kind == "group":
                nodes.append(ops.NoOp(name=name))
                continue
            if kind == "update":
                nodes.append(ops.AssignAdd(variable, value, name=name).op)
                continue
            if kind == "read":
                values.append(ops.Mul(variable, value, name=name))
            elif kind == "Add":
                values.append(ops.Add(value, data.draw(st.sampled_from(values)), name=name))
            elif kind == "CheckNumerics":
                values.append(ops.CheckNumerics(value, message="", name=name))
            elif kind == "Switch":
                values.extend(ops.Switch(value, g.placeholder("bool", [], name=f"p{number}"), name=name))
            else:
                values.append(getattr(ops, kind)(value, name=name))
            nodes.append(values[-1].op)
    targets = [node.name for node in waits()] or [nodes[-1].name]
    feeds = [node.name for node in g if node.op == "Placeholder"]
    wanted = context(targets, feeds=feeds)
    graph = read_late(g, wanted)
    graph = prune(graph, wanted)
    after = relax_controls(graph, wanted)

    earlier, later = before_each(graph), before_each(after)
    events = {
        node.name
        for node in graph
        if node.op in ("AssignAdd", "Mul", "CheckNumerics", "Switch", "VariableV2") or node.name in targets
    }
    gone = set(graph.nodes) - set(after.nodes)
    assert {graph[name].op for name in gone} <= {"NoOp", "Identity"}
    assert not gone & events
    for name in events:
        assert later[name] & events == earlier[name] & events
    # Nothing waits for more, and what is taken is what was taken, Identities aside.
    for node in after:
        assert later[node.name] <= earlier[node.name]
        for port, was in zip(node.inputs, graph[node.name].inputs, strict=True):
            while was != port:
                assert graph[was.node].op == "Identity"
                was = graph[was.node].inputs[0]


async def test_a_hot_step_changes_what_a_cold_one_does() -> None:
    graph, _ = two_layers()
    for name in ("first", "last"):
        value = np.random.default_rng(len(name)).standard_normal((4, 4)).astype(np.float32)
        graph.ops.Assign(graph.tensor(f"{name}/weights:0"), graph.constant(value), name=f"{name}/begin")
    feeds = {
        name: np.random.default_rng(7).standard_normal((4, 4)).astype(np.float32) for name in ("x:0", "up:0")
    }
    seen = []
    for compiles in (False, True):
        async with fe.Session(graph, config=fe.Config(compile_hot_plans=compiles)) as session:
            await session.run([], targets=["first/begin", "last/begin"])
            for _ in range(60):
                await session.run([], feeds, targets=["train", "end"])
            seen.append(await session.run(["first/weights:0", "last/weights:0"]))
    for cold, hot in zip(*seen, strict=True):
        np.testing.assert_array_equal(cold, hot)


def test_a_marked_node_waits_for_what_orders_no_effect() -> None:
    """A copy that is computed late to save memory; the same node without the mark waits for nothing."""
    for mark in ({}, {"_keeps_controls": True}):
        g = fe.Graph()
        x, came = g.placeholder("float32", [4], name="x"), g.placeholder("float32", [4], name="came")
        slope = g.ops.Neg(came, name="slope")
        with g.control_dependencies([g.group(slope.op, name="group")]):
            again = g.ops.Identity(x, name="again", **mark)
        g.ops.Mul(g.ops.Exp(again), slope, name="y")
        request = context((), ["y"], ["x", "came"])
        graph = relax_controls(prune(g, request), request)
        waits = graph["again"].control_inputs if "again" in graph else ()
        assert bool(waits) is bool(mark)
