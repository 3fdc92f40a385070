"""Gradients that are added after a session over tasks has run: nodes that ran are of other making then."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

import flowengine as fe
from flowengine.testing.control import while_loop
from tests.cluster.test_sessions import cluster
from tests.gradients.test_functions import LIBRARY, function

X = 1.1


def over_tasks() -> tuple[fe.Graph, fe.Tensor, fe.Tensor]:
    """(graph, x, y): a variable on one task; calls, a choice and loops of both kinds of it on two others."""
    graph = fe.Graph.from_graph_def(LIBRARY)
    ops = graph.ops
    x = graph.placeholder("float64", [], name="x")
    with graph.device("/job:ps/task:0"):
        w = ops.VariableV2(shape=[], dtype="float64", name="w")
        ops.Assign(w, graph.constant(1.5, "float64"), name="init")
    with graph.device("/job:worker/task:0"):
        (called,) = ops.PartitionedCall(
            [ops.Mul(x, w)], Tout=["float64"], f=function("square"), name="called"
        )
        looped = ops.While(
            [graph.constant(0), called, x], cond=function("less"), body=function("round"), name="looped"
        )
    with graph.device("/job:worker/task:1"):
        (chosen,) = ops.If(
            ops.Greater(called, graph.constant(0.0, "float64")),
            [looped[1]],
            Tout=["float64"],
            then_branch=function("square"),
            else_branch=function("thrice"),
            name="chosen",
        )

        def body(i: fe.Tensor, v: fe.Tensor) -> Sequence[fe.Tensor]:
            return [ops.AddV2(i, 1), ops.Sin(v)]

        _, y = while_loop(graph, lambda i, v: ops.Less(i, 3), body, [graph.constant(0), chosen])
        ops.Identity(y, name="y")
    return graph, x, graph.tensor("y:0")


async def test_what_is_widened_after_a_step_is_taken_up_by_all_tasks(tmp_path: Path) -> None:
    graph, x, y = over_tasks()
    w = graph.tensor("w:0")
    feeds = {x: np.float64(X)}
    async with cluster(tmp_path, ps=1, worker=2) as (servers, query):
        target = servers["/job:worker/task:0"].target + query
        async with fe.Session(graph, target=target) as session, fe.Session(graph) as near:
            for each in (session, near):
                await each.run([], targets=["init"])
            first = await session.run(y, feeds)
            assert first == await near.run(y, feeds)
            fetches = [y]
            made = [y]
            for _ in range(2):
                made = [each for each in fe.gradients(made, [x, w]) if isinstance(each, fe.Tensor)]
                assert len(made) == 2
                fetches += made
                found = await session.run(fetches, feeds)
                assert found[0] == first
                np.testing.assert_allclose(found, await near.run(fetches, feeds), rtol=1e-12)
    assert {graph.operation(name).type for name in ("called", "looped", "chosen")} == {"IdentityN"}
