"""Consumers use the input of an Identity, and of no other node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import trio
from hypothesis import given, settings

import flowengine as fe
from flowengine.ir.graph import NodeGraph, OutputPort
from flowengine.ir.graphdef import graph_to_def
from flowengine.kernels.load import load_all
from flowengine.passes.context import PassContext
from flowengine.passes.simplify.skip_identities import skip_identities
from flowengine.testing.strategies import GraphCase, graphs
from tests.effort import examples
from tests.passes.claiming import claimed
from tests.runtime.planning.test_tiers import play


def asked(*fetches: str, feeds: tuple[str, ...] = (), targets: tuple[str, ...] = ()) -> PassContext:
    ports = [tuple(OutputPort(name, 0) for name in names) for names in (fetches, feeds)]
    return PassContext(fetches=ports[0], feeds=ports[1], targets=targets, kernels=load_all())


def inputs(graph: NodeGraph, name: str) -> list[str]:
    return [port.node for port in graph[name].inputs]


def block() -> fe.Graph:
    """x -> a -> Identity b -> StopGradient c -> d; b -> e."""
    g = fe.Graph()
    a = g.ops.Neg(g.placeholder("float32", name="x"), name="a")
    b = g.ops.Identity(a, name="b")
    g.ops.Neg(g.ops.StopGradient(b, name="c"), name="d")
    g.ops.Neg(b, name="e")
    return g


def test_who_takes_one_takes_what_it_takes() -> None:
    made = skip_identities(block(), asked("d", "e"))
    assert inputs(made, "d") == inputs(made, "e") == ["a"]
    assert "b" not in made.nodes
    assert "c" not in made.nodes


@pytest.mark.parametrize(
    "context", [asked("d", "b"), asked("d", "e", feeds=("b",)), asked("d", targets=("b",))]
)
def test_what_is_fetched_fed_or_a_target_stays(context: PassContext) -> None:
    made = skip_identities(block(), context)
    assert "b" in made.nodes
    assert inputs(made, "d") == inputs(made, "e") == ["b"]
    assert "c" not in made.nodes


def test_what_waits_or_is_waited_for_stays() -> None:
    g = fe.Graph()
    a = g.ops.Neg(g.placeholder("float32", name="x"), name="a")
    with g.control_dependencies([a]):
        b = g.ops.Identity(a, name="b")
    c = g.ops.Identity(a, name="c")
    with g.control_dependencies([c]):
        g.ops.Add(b, c, name="d")
    assert skip_identities(g, asked("d")) is g


def test_what_reads_a_reference_stays() -> None:
    g = fe.Graph()
    v = g.ops.VariableV2(shape=[], dtype="float32", name="v")
    g.ops.Neg(g.ops.Identity(v, name="read"), name="y")
    handle = g.ops.VarHandleOp(shape=[], dtype="float32", name="handle")
    g.ops.ReadVariableOp(g.ops.Identity(handle, name="same"), dtype="float32", name="z")
    assert skip_identities(g, asked("y", "z")) is g


def test_what_is_on_another_device_stays() -> None:
    g = fe.Graph()
    a = g.ops.Neg(g.placeholder("float32", name="x"), name="a")
    with g.device("/cpu:1"):
        b = g.ops.Identity(a, name="b")
    g.ops.Neg(b, name="c")
    assert skip_identities(g, asked("c")) is g


def test_a_residual_is_computed_with_the_convolution_before_it() -> None:
    g = fe.Graph()
    ops = g.ops
    x = g.placeholder("float32", name="x")
    w = g.placeholder("float32", name="w")
    how: dict[str, Any] = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    before = ops.Identity(ops.Relu(x), name="input")
    end = ops.Identity(ops.Relu(ops.Conv2D(before, w, name="conv", **how)), name="end")
    ops.Relu(ops.AddV2(end, before), name="y")
    made = claimed(g, asked("y"), frozenset(node.name for node in g))
    assert {"conv", "y"} <= made["y"].attrs["program"].names


@settings(max_examples=examples(60))
@given(graphs())
def test_random_graphs_give_the_same_bits_and_state(case: GraphCase) -> None:
    ports = {name for fetches, feeds in case.runs for name in (*fetches, *feeds)}
    kept = {name.partition(":")[0] for name in ports}
    made = skip_identities(case.graph, asked(*kept, targets=(*case.setup, *case.targets)))
    gone = set(case.graph.nodes) - set(made.nodes)
    assert {case.graph[name].op for name in gone} <= {"Identity", "StopGradient", "PreventGradient"}
    changed = replace(case, graph=fe.Graph.from_graph_def(graph_to_def(made)))
    assert trio.run(lambda: play(changed, compiled=False)) == trio.run(lambda: play(case, compiled=False))


async def test_a_network_gives_what_it_gave() -> None:
    g = fe.Graph()
    ops = g.ops
    x = g.placeholder("float32", name="x")
    y = x
    for number in range(4):
        w = np.random.default_rng(number).standard_normal((300, 300)).astype(np.float32) / 17
        y = ops.Identity(
            ops.Relu(ops.Add(ops.Identity(ops.MatMul(y, g.constant(w))), y)), name=f"out{number}"
        )
    value = np.random.default_rng(9).standard_normal((300, 300)).astype(np.float32)
    async with fe.Session(g) as session:
        first = await session.run(y, {x: value})
        for _ in range(20):
            assert np.array_equal(await session.run(y, {x: value}), first)
