"""How often the ready loop looks at the clock: once for many small items, more often where they are slow."""

from __future__ import annotations

from itertools import count

import pytest

import flowengine as fe
from flowengine.runtime import ready_loop
from flowengine.runtime.blocks import CLOCK_SECONDS
from flowengine.runtime.planning.tiers import TieredPlan
from flowengine.testing.control import while_loop

#: Of a loop, whose items are no block: about six in each.
ITERATIONS = 400


@pytest.mark.parametrize(
    ("seconds", "items_per_clock"),
    [
        (0.9 * CLOCK_SECONDS, 0),
        (2 * CLOCK_SECONDS, 1),
        (100 * CLOCK_SECONDS, 1),
    ],
)
async def test_slow_items_have_it_look_more_often(
    monkeypatch: pytest.MonkeyPatch, seconds: float, items_per_clock: int
) -> None:
    """Each look finds that so much time has gone by since the one before."""
    looks = 0
    clock = count(0.0, seconds)

    def now() -> float:
        nonlocal looks
        looks += 1
        return next(clock)

    graph = fe.Graph()
    ops = graph.ops
    number, _ = while_loop(
        graph,
        lambda i, n: ops.Less(i, n),
        lambda i, n: [ops.Add(i, 1), n],
        [graph.constant(0), graph.placeholder("int32", [], name="n")],
    )
    async with fe.Session(graph, config=fe.Config(compile_hot_plans=False)) as session:
        await session.run(number, {"n:0": 1})
        monkeypatch.setattr(ready_loop, "perf_counter", now)
        # Of the turn it is asked elsewhere, by the clock that everybody has.
        monkeypatch.setattr(ready_loop.ReadyLoop, "_is_spent", lambda self, now: False)
        assert await session.run(number, {"n:0": ITERATIONS}) == ITERATIONS
        (kept,) = session._plans.values()
        assert isinstance(kept.plan, TieredPlan)
        assert kept.plan.interpreted.times.items_per_clock == items_per_clock
    # A look for sixteen items, or for each.
    assert (looks > 4 * ITERATIONS) if items_per_clock else (looks < ITERATIONS)
