"""Drawn programs with variables, conditionals, loops and gradients: nothing of them needs the collector.

A graph that was built in Python stays, for its collections and contexts refer to it; one that was read goes.
"""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.passes.blocks.compiled_regions import CompiledRegion
from flowengine.runtime.executor import Executor
from flowengine.runtime.planning.items import Item, StaticFrame
from flowengine.runtime.planning.plan import Plan
from flowengine.runtime.planning.preparing import PreparedPlan
from flowengine.runtime.planning.tiers import TieredPlan
from flowengine.session import Session
from tests.effort import examples

_KINDS: Final = {CompiledRegion, Executor, Item, Plan, PreparedPlan, Session, StaticFrame, TieredPlan}


def _held() -> Counter[str]:
    """How many objects of sessions and plans there are in this process."""
    return Counter(type(each).__name__ for each in gc.get_objects() if type(each) in _KINDS)


def _branch(graph: fe.Graph, value: Any, weight: Any) -> Any:
    return graph.cond(fe.reduce_sum(value) > 0.0, lambda: value * weight, lambda: value - 1.0)


def _loop(graph: fe.Graph, value: Any, weight: Any) -> Any:
    return graph.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, fe.tanh(a * weight)), [0, value])[1]


def _branch_in_loop(graph: fe.Graph, value: Any, weight: Any) -> Any:
    def body(i: Any, a: Any) -> Any:
        return i + 1, graph.cond(i > 1, lambda: a * weight, lambda: fe.tanh(a))

    return graph.while_loop(lambda i, a: i < 3, body, [0, value])[1]


def _loop_in_branch(graph: fe.Graph, value: Any, weight: Any) -> Any:
    return graph.cond(fe.reduce_sum(value) > 0.0, lambda: _loop(graph, value, weight), lambda: value)


def _gradient(graph: fe.Graph, value: Any, weight: Any) -> Any:
    return fe.gradients(fe.reduce_sum(value * weight), [weight])[0] + value


def _scan(graph: fe.Graph, value: Any, weight: Any) -> Any:
    return graph.scan(lambda total, each: fe.tanh(total + each), value, 0.0) * weight


_STAGES: Final = (_branch, _loop, _branch_in_loop, _loop_in_branch, _gradient, _scan)


def _program(stages: Sequence[Callable[..., Any]], *, trains: bool, use_resource: bool) -> fe.Graph:
    """`y` of `x` through the stages; `train` where it trains."""
    graph = fe.Graph()
    value = graph.placeholder("float32", [3], name="x")
    weight = graph.variable(np.full(3, 0.5, np.float32), name="w", use_resource=use_resource)
    for stage in stages:
        value = stage(graph, value, weight)
    if trains:
        fe.optimizers.Adam(0.1).minimize(fe.reduce_sum(value * weight), name="train")
    fe.identity(value, name="y")
    graph.group(*(each.initializer for each in graph.collection("variables")), name="init")
    return graph


async def _use(graph: fe.Graph, steps: int) -> None:
    targets = ["train"] if "train" in graph else []
    async with fe.Session(graph) as session:
        await session.run([], targets=["init"])
        call = session.make_callable("y", ["x"], targets)
        for _ in range(steps):
            await session.run(["y:0"], {"x:0": [1.0, -2.0, 0.5]}, targets=targets)
            await call([1.0, 2.0, 3.0])
        with pytest.raises(fe.errors.InvalidArgumentError):
            await session.run("y:0", {"x:0": [1.0, 2.0]})


programs = st.builds(
    _program,
    st.lists(st.sampled_from(_STAGES), min_size=1, max_size=3),
    trains=st.booleans(),
    use_resource=st.booleans(),
)


@settings(max_examples=examples(20))
@given(programs, st.sampled_from([1, 12]))
def test_sessions_and_graphs_that_were_read_go_by_themselves(program: fe.Graph, steps: int) -> None:
    content = program.to_meta_graph().SerializeToString()

    async def main() -> None:
        before = _held()
        await _use(program, steps)
        assert _held() == before
        read = fe.Graph.from_graph_def(content)
        await _use(read, steps)
        ref = weakref.ref(read)
        del read
        assert ref() is None
        assert _held() == before

    gc.collect()
    gc.disable()
    try:
        trio.run(main)
    finally:
        gc.enable()
