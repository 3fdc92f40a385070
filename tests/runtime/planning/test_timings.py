"""Timings that plans learn: one record makes one form, whatever ran before in the process."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.runtime.planning import tiers, timings
from flowengine.runtime.planning.tiers import TieredPlan
from flowengine.runtime.planning.timings import NEVER_RAN, ItemTimes, PlanTimes, RequestTimings
from flowengine.testing.strategies import GraphCase, graphs


def network(side: int) -> tuple[fe.Graph, dict[Any, Any]]:
    """Products of every size, and small nodes between them."""
    graph = fe.Graph()
    ops = graph.ops
    y = x = graph.placeholder("float32", [side, side], name="x")
    for layer in range(6):
        y = ops.MatMul(y, x, name=f"product{layer}")
        for _ in range(3):
            y = ops.Tanh(ops.Mul(y, graph.constant(np.float32(0.5))))
    ops.Sum(y, graph.constant([0, 1]), name="y")
    return graph, {"x:0": np.full((side, side), 0.01, np.float32)}


def only_plan(session: fe.Session) -> TieredPlan:
    (kept,) = session._plans.values()
    assert isinstance(kept.plan, TieredPlan)
    return kept.plan


async def record_of(side: int, runs: int) -> tuple[Any, str]:
    graph, feeds = network(side)
    async with fe.Session(graph) as session:
        for _ in range(runs):
            await session.run("y:0", feeds)
            await trio.testing.wait_all_tasks_blocked()
        return only_plan(session).learned.record(), session.explain("y:0", ["x:0"], form=True)


async def replayed(side: int, record: Any) -> str:
    graph, feeds = network(side)
    async with fe.Session(graph) as session:
        await session.run("y:0", feeds)
        only_plan(session).replay(record)
        return session.explain("y:0", ["x:0"], form=True)


@pytest.mark.parametrize("runs", [1, 2, 8])
@pytest.mark.parametrize("side", [4, 300])
async def test_two_sessions_that_replay_a_record_take_its_form(side: int, runs: int) -> None:
    record, form = await record_of(side, runs)
    written = json.loads(json.dumps(record))
    # Others run in between, of other sizes, and learn what they like.
    first = await replayed(side, written)
    await record_of(8, 12)
    await record_of(400, 3)
    second = await replayed(side, written)
    assert first == second == form


@settings(max_examples=20)
@given(
    st.lists(st.sampled_from([0.0, 20.0, 80.0, 300.0, 2000.0]), min_size=6, max_size=6),
    st.sampled_from([8, 64, 1200]),
)
def test_the_form_is_a_function_of_the_record(microseconds: list[float], members_max: int) -> None:
    """Products of drawn times: two sessions, with another one between them, take the same form."""

    async def main() -> None:
        record, _ = await record_of(4, 1)
        record["is_settled"] = True
        record["members_max"] = members_max
        for number, took in enumerate(microseconds):
            inline = record["interpreted"]["items"].get(f"product{number}", [1 << 14])[0]
            record["interpreted"]["items"][f"product{number}"] = [
                inline,
                1.0,
                took,
                0.0,
                took > 100.0,
                False,
                None,
            ]
        first = await replayed(4, record)
        assert "block of" in first
        await record_of(16, 6)
        assert await replayed(4, record) == first

    trio.run(main)


@settings(max_examples=20)
@given(graphs(runs=2))
def test_a_record_that_is_replayed_is_the_record(case: GraphCase) -> None:
    async def main() -> None:
        async with fe.Session(case.graph) as session:
            await session.run([], targets=case.setup)
            for fetches, feeds in (*case.runs, *case.runs, *case.runs):
                await session.run(list(fetches), feeds, targets=case.targets)
            for kept in session._plans.values():
                plan = kept.plan
                assert isinstance(plan, TieredPlan)
                before = plan.learned.record()
                form = plan.form()
                plan.replay(json.loads(json.dumps(before)))
                assert plan.learned.record() == before
                assert plan.form() == form

    trio.run(main)


async def test_a_plan_that_is_reset_is_as_it_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "HOT_RUNS", 2)
    graph, feeds = network(300)
    async with fe.Session(graph) as session:
        await session.run("y:0", feeds)
        plan = only_plan(session)
        plan.reset()
        fresh, form = plan.learned.record(), plan.form()
        for _ in range(4):
            await session.run("y:0", feeds)
        assert plan.learned.record() != fresh
        plan.reset()
        assert plan.learned.record() == fresh
        assert plan.form() == form
        want = await session.run("y:0", feeds)
        assert want == await session.run("y:0", feeds)


def test_a_region_is_slow_only_if_it_was_never_faster() -> None:
    slice_seconds = timings.SLOW_REGION_SECONDS
    times = ItemTimes(0)
    plan = PlanTimes({"a": times})
    plan.region_took(times, 0.5 * slice_seconds)
    plan.region_took(times, 3 * slice_seconds)
    assert plan.slow_regions == 0
    # Time after time it is the region after all.
    for number in range(2, 6):
        plan.region_took(times, 3 * slice_seconds)
        assert plan.slow_regions == max(0, number - timings.SLOW_RUNS + 1)
    plan.reset()
    assert (plan.slow_regions, times.fastest_seconds) == (0, NEVER_RAN)


def test_what_interrupts_a_region_now_and_then_is_not_held_against_it() -> None:
    """However long a session lives: else its regions would become ever smaller."""
    slice_seconds = timings.SLOW_REGION_SECONDS
    times = ItemTimes(0)
    plan = PlanTimes({"a": times})
    for _ in range(1000):
        plan.region_took(times, 0.9 * slice_seconds)
        for _ in range(timings.SLOW_RUNS - 1):
            plan.region_took(times, 3 * slice_seconds)
    assert plan.slow_regions == 0


def test_a_kernel_that_was_interrupted_once_is_still_small() -> None:
    times = ItemTimes(0)
    for took in (10.0, 16_000.0, 12.0, 9_000.0, 11.0):
        times.saw(took)
    assert times.microseconds == 0
    assert not times.is_guess


def test_what_a_region_took_on_a_thread_is_forgotten_slowly() -> None:
    times = ItemTimes(0)
    times.took_on_thread(1.0)
    assert times.fastest_seconds == 1.0
    times.took_on_thread(5.0)
    assert times.fastest_seconds == pytest.approx(1.1)
    times.took_on_thread(0.5)
    assert times.fastest_seconds == 0.5


def test_a_first_run_that_prepares_something_is_no_guide() -> None:
    times = ItemTimes(0)
    times.learn(200.0, 40_000.0, 1.0)
    assert times.is_guess
    times.learn(200.0 * times.pace, 190.0, times.pace)
    assert not times.is_guess
    assert times.microseconds == 190.0
    # Nor is one in which the machine did something else.
    times.learn(200.0 * times.pace, 9000.0, times.pace)
    assert times.microseconds == pytest.approx(209.0)
    # Larger inputs are something else.
    times.learn(800.0 * times.pace, 9000.0, times.pace)
    assert times.microseconds == 9000.0


@pytest.mark.parametrize("again", [False, True])
async def test_a_long_first_run_makes_hot_unless_something_in_it_was_measured_once(
    monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    monkeypatch.setattr(tiers, "HOT_RUNS", 4)
    graph, feeds = network(4)
    async with fe.Session(graph) as session:
        await session.run("y:0", feeds)
        plan = only_plan(session)
        plan.reset()
        for _ in range(2 if again else 1):
            plan.interpreted.times.items["product0"].saw(5000.0)
        assert plan.ran(list(feeds.values()), 60.0) is again


def test_beginning_again_keeps_what_the_items_took() -> None:
    times = ItemTimes(7)
    known = RequestTimings(100, 3)
    known.interpreted = PlanTimes({"a": times})
    known.runs, known.fed_bytes, known.is_settled = 5, 9, True
    times.learn(1000.0, 500.0, 1.0)
    known.begin_again()
    assert (known.runs, known.fed_bytes, known.is_settled, times.pace) == (0, 9, False, 0.5)
    known.reset()
    assert (known.fed_bytes, times.pace, times.inline_bytes) == (0, 1.0, 7)
