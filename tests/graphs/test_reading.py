"""Which nodes of a graph a step cannot fetch: those in loops, and in branches of conditionals."""

from __future__ import annotations

import trio
from hypothesis import given

import flowengine as fe
from flowengine.graphs.reading import conditional_nodes
from flowengine.testing.strategies import GraphCase, graphs


@given(graphs(max_depth=3))
def test_every_other_node_can_be_fetched(case: GraphCase) -> None:
    hidden = conditional_nodes(case.graph)
    needed = {node.name for node in case.graph if node.name not in hidden}
    names = [
        f"{name}:{slot}"
        for name in needed
        for slot, dtype in enumerate(case.graph[name].output_types)
        if not dtype.is_ref and dtype.name not in ("resource", "variant")
    ]

    async def main() -> None:
        async with fe.Session(case.graph) as session:
            await session.run([], targets=case.setup)
            await session.run(names, case.runs[0][1], targets=case.targets)

    trio.run(main)


def test_branches_and_loops_in_each_other() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [], name="x")

    def inside() -> fe.Tensor:
        is_small = g.ops.Less(x, 1.0)
        y: fe.Tensor = g.cond(is_small, lambda: g.ops.Neg(x, name="deep"), lambda: g.ops.Exp(x, name="other"))
        return y

    is_below = g.ops.Less(x, 0.0)
    y = g.cond(is_below, lambda: g.ops.Sin(inside(), name="behind"), lambda: g.ops.Cos(x, name="no"))

    def loop() -> fe.Tensor:
        (grown,) = g.while_loop(lambda v: g.ops.Less(v, 9.0), lambda v: [g.ops.Add(v, 1.0, name="more")], [x])
        return g.ops.Tan(grown, name="after")

    z = g.cond(is_below, loop, lambda: x)
    top = g.ops.Add(y, g.ops.Add(z, g.ops.Tanh(x, name="free")), name="top")
    hidden = {name.rpartition("/")[2] for name in conditional_nodes(g)}
    assert {"deep", "other", "behind", "no", "more", "after"} <= hidden
    assert hidden.isdisjoint({"free", "top", "x"})
    assert top.node_name not in conditional_nodes(g)
    assert y.node_name not in conditional_nodes(g)
