"""Loops of which a single node lies on another device: every node of nested loops, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.core.errors import OpError
from flowengine.devices.device import LOCAL_TASK
from flowengine.graphs.tensor import Tensor
from flowengine.ir.graph import NodeGraph
from flowengine.passes.context import PassContext
from flowengine.passes.place.colocate import colocate
from flowengine.testing.control import conditional, while_loop
from flowengine.testing.reference import evaluate


class Alone:
    """One node on the second device, with those that must be where it is; all others on the first."""

    def __init__(self, graph: NodeGraph, name: str) -> None:
        groups = colocate(graph)
        chosen = groups.find(groups.names.index(name))
        self._there = {each for index, each in enumerate(groups.names) if groups.find(index) == chosen}

    def __call__(self, graph: NodeGraph, context: PassContext) -> Mapping[str, str]:
        return {node.name: f"{LOCAL_TASK}/device:CPU:{int(node.name in self._there)}" for node in graph}


def nested() -> fe.Graph:
    """A loop in a loop; the inner one goes round as often as the outer one has."""
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("int32", [], name="x")
    zero, one = graph.constant(0), ops.Identity(graph.constant(1))

    def outer(i: Tensor, total: Tensor, step: Tensor, limit: Tensor) -> list[Tensor]:
        def inner(j: Tensor, sum_: Tensor, step: Tensor, _: Tensor) -> list[Tensor]:
            return [ops.Add(j, step), ops.Add(sum_, ops.Mul(j, step))]

        _, total = while_loop(
            graph,
            lambda j, sum_, step, bound: ops.Less(j, bound),
            inner,
            [ops.Sub(i, i), total],
            invariants=[step, i],
            name="inner",
        )
        return [ops.Add(i, step), total]

    i, total = while_loop(
        graph,
        lambda i, total, step, limit: ops.Less(i, limit),
        outer,
        [zero, x],
        invariants=[one, ops.Add(x, one)],
        name="outer",
    )
    ops.Add(total, i, name="y")
    return graph


def branching() -> fe.Graph:
    """A conditional in a loop, whose sides lie on different devices in turn."""
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("int32", [], name="x")

    def body(i: Tensor, total: Tensor, step: Tensor, two: Tensor) -> list[Tensor]:
        is_odd = ops.Equal(ops.FloorMod(i, two), step)
        (grown,) = conditional(
            graph,
            is_odd,
            lambda t, s: [ops.Add(t, s)],
            lambda t, s: [ops.Mul(t, ops.Add(s, s))],
            [total, step],
        )
        return [ops.Add(i, step), grown]

    _, total = while_loop(
        graph,
        lambda i, total, step, two: ops.Less(i, ops.Mul(two, two)),
        body,
        [graph.constant(0), x],
        invariants=[ops.Identity(graph.constant(1)), ops.Identity(graph.constant(2))],
    )
    ops.Neg(total, name="y")
    return graph


GRAPHS = {"nested": nested, "branching": branching}


@pytest.mark.parametrize("shape", GRAPHS)
@pytest.mark.parametrize("compiled", [False, True])
def test_any_single_node_of_a_loop_may_lie_on_another_device(
    shape: str, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if compiled:
        monkeypatch.setattr("flowengine.runtime.planning.tiers.HOT_RUNS", 0)
    names = [node.name for node in GRAPHS[shape]() if node.op != "Const"]

    async def run(name: str) -> list[Any]:
        graph = GRAPHS[shape]()
        config = fe.Config(device_count={"CPU": 2}, compile_hot_plans=compiled)
        async with fe.Session(graph, config=config, placer=Alone(graph, name)) as session:
            with trio.fail_after(120):
                return [await session.run("y:0", {"x:0": np.int32(x)}) for x in (3, 0)]

    graph = GRAPHS[shape]()
    want = [evaluate(graph, ["y:0"], {"x:0": np.int32(x)})[0] for x in (3, 0)]
    failed = {}
    for name in names:
        try:
            got = trio.run(run, name)
        except (OpError, trio.TooSlowError) as error:
            failed[name] = str(error)[:80]
        else:
            if got != want:
                failed[name] = str(got)
    assert not failed
    assert len(names) > 25
