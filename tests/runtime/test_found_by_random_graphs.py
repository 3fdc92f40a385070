"""Small graphs that random ones were shrunk to when they found a fault, each in both tiers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.runtime.planning import tiers
from flowengine.testing.control import while_loop
from flowengine.testing.reference import evaluate


@pytest.fixture(params=["interpreted", "compiled"])
def run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a graph in one tier, compare with the reference, and return the values."""
    compiled = request.param == "compiled"
    if compiled:
        monkeypatch.setattr(tiers, "HOT_RUNS", 0)

    def runner(g: fe.Graph, fetches: list[str], feeds: dict[str, Any]) -> list[Any]:
        async def main() -> list[Any]:
            async with fe.Session(g, config=fe.Config(compile_hot_plans=compiled)) as session:
                return list(await session.run(fetches, feeds))

        values = trio.run(main)
        for value, want in zip(values, evaluate(g, fetches, feeds), strict=True):
            np.testing.assert_array_equal(value, want)
        return values

    return runner


def test_a_merge_of_a_forwarded_switch_output(run: Any) -> None:
    """The Identity is no item of the plan, yet the Merge waits for it."""
    g = fe.Graph()
    ops = g.ops
    p = g.placeholder("bool", [], name="p")
    switch = ops.Switch(g.constant(5), p)
    merged = ops.Merge([switch.output_false, ops.Identity(switch.output_true)])
    assert run(g, [merged.output.name, merged.value_index.name], {"p:0": True}) == [5, 1]
    assert run(g, [merged.output.name, merged.value_index.name], {"p:0": False}) == [5, 0]


def test_a_region_that_gives_what_it_got(run: Any) -> None:
    g = fe.Graph()
    ops = g.ops
    p = ops.Identity(g.placeholder("bool", [], name="p"))
    anchors, switch = ops.Switch(p, p), ops.Switch(g.tensor("p:0"), p)
    sides = []
    for anchor, value in zip(anchors, switch, strict=True):
        with g.control_dependencies([ops.Identity(anchor)]):
            sides.append(ops.Identity(value))
    merged = ops.Merge(sides)
    assert run(g, [merged.value_index.name], {"p:0": True}) == [1]


def test_a_loop_that_carries_what_depends_on_its_invariants_only(run: Any) -> None:
    """It is computed before the condition is looked at, and used after the body."""
    g = fe.Graph()
    ops = g.ops

    def body(i: Any, v: Any, x: Any) -> list[Any]:
        with g.control_dependencies(None):
            following = ops.Square(x)
        return [ops.Add(i, 1), ops.Identity(following)]

    x = g.placeholder("float32", [], name="x")
    _, v = while_loop(g, lambda i, v, x: ops.Less(i, 3), body, [g.constant(0), x], invariants=[x])
    assert run(g, [v.name], {"x:0": np.float32(3)}) == [9.0]
