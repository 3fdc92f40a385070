"""Loops written by hand, and what the compiled tier and the interpreter make of a graph."""

from __future__ import annotations

from typing import Any

import pytest

import flowengine as fe
from flowengine.core.arrays import to_array
from flowengine.testing.control import while_loop


async def both(graph: fe.Graph, fetches: list[str], feeds: dict[str, Any]) -> list[Any]:
    """Return the values of the compiled tier, which must equal the interpreter's."""
    results: list[list[Any]] = []
    for compiled in (True, False):
        async with fe.Session(graph, config=fe.Config(compile_hot_plans=compiled)) as session:
            results.append([to_array(value) for value in await session.run(fetches, feeds)])
    for got, want in zip(*results, strict=True):
        assert (got.dtype, got.shape, got.tobytes()) == (want.dtype, want.shape, want.tobytes())
    return results[0]


def loops_written(graph: fe.Graph, fetches: list[str], feeds: list[str]) -> int:
    with fe.blocking.Session(graph) as session:
        return session.explain(fetches, feeds, source=True).count("while True:")


class Frame:
    """One loop, written primitive by primitive."""

    def __init__(self, g: fe.Graph, name: str, starts: list[Any], constants: list[Any]) -> None:
        ops = g.ops
        self.graph = g
        self.merges = [ops.Merge([e, e]).output for e in (ops.Enter(s, frame_name=name) for s in starts)]
        self.constants = [ops.Enter(c, frame_name=name, is_constant=True) for c in constants]

    def go_on(self, verdict: Any) -> list[Any]:
        """The Switches' true sides."""
        ops = self.graph.ops
        verdict = ops.LoopCond(verdict)
        self.switches = [ops.Switch(merge, verdict) for merge in self.merges]
        return [switch.output_true for switch in self.switches]

    def come_back(self, index: int, value: Any, awaited: list[Any]) -> None:
        with self.graph.control_dependencies(awaited):
            back = self.graph.ops.NextIteration(value)
        self.graph.set_back_edge(self.merges[index], 1, back)


async def has_no_value(graph: fe.Graph, fetch: str, feeds: dict[str, Any]) -> None:
    """The compiled tier says of a fetch that it has no value, as the interpreter does."""
    for compiled in (True, False):
        async with fe.Session(graph, config=fe.Config(compile_hot_plans=compiled)) as session:
            with pytest.raises(fe.errors.InvalidArgumentError, match="has no value"):
                await session.run(fetch, feeds)


def counting(g: fe.Graph, long_body: int = 0) -> None:
    """Each iteration adds one to `first`, then one to `second`."""
    ops = g.ops
    n = g.placeholder("int32", [], name="n")
    variables = [ops.VarHandleOp(dtype="int32", shape=[], shared_name=v, name=v) for v in ("first", "second")]
    g.group(*(ops.AssignVariableOp(v, 0) for v in variables), name="init")
    for v, name in zip(variables, ("a", "b"), strict=True):
        ops.ReadVariableOp(v, dtype="int32", name=name)

    def body(i: Any, n: Any, *handles: Any) -> list[Any]:
        last: list[Any] = []
        for handle in handles:
            with g.control_dependencies(last):
                last = [ops.AssignAddVariableOp(handle, 1)]
        with g.control_dependencies(last):
            i = ops.Add(i, 1)
        for _ in range(long_body):
            i = ops.Identity(ops.Maximum(i, 0))
        return [i]

    while_loop(g, lambda i, n, *_: ops.Less(i, n), body, [g.constant(0)], invariants=[n, *variables])
