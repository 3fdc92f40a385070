"""The executor gives what the reference interpreter gives, bit for bit, whatever callers do."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
import trio
from hypothesis import given, note
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core.arrays import to_array
from flowengine.resources.container import ResourceManager
from flowengine.runtime.planning import tiers
from flowengine.testing.reference import evaluate
from flowengine.testing.strategies import GraphCase, graphs

TIERS = pytest.mark.parametrize("tier", ["interpreted", "compiled"])


@contextlib.asynccontextmanager
async def opened(graph: fe.Graph, tier: str) -> AsyncIterator[fe.Session]:
    """A session whose plans are compiled before their first run, or never."""
    before = tiers.HOT_RUNS
    tiers.HOT_RUNS = 0 if tier == "compiled" else before
    try:
        async with fe.Session(graph, config=fe.Config(compile_hot_plans=tier == "compiled")) as session:
            yield session
    finally:
        tiers.HOT_RUNS = before


def same_bits(got: Any, want: Any) -> bool:
    """Equal type, shape and values; any two NaNs are the same."""
    a, b = to_array(got), to_array(want)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind == "f":
        nan = np.isnan(a) & np.isnan(b)
        return bool(np.all(nan | ((a == b) & (np.signbit(a) == np.signbit(b)))))
    return bool(np.array_equal(a, b))


def expected(case: GraphCase) -> list[list[Any]]:
    """Return the values that the reference gives for each run."""
    resources = ResourceManager()
    evaluate(case.graph, [], {}, case.setup, resources=resources)
    return [
        [np.array(v) for v in evaluate(case.graph, fetches, feeds, case.targets, resources=resources)]
        for fetches, feeds in case.runs
    ]


def check(case: GraphCase, got: list[list[Any]]) -> None:
    for number, ((fetches, _), have, want) in enumerate(zip(case.runs, got, expected(case), strict=True)):
        for name, a, b in zip(fetches, have, want, strict=True):
            assert same_bits(a, b), f"run {number}: {name} is {a!r}, the reference says {b!r}"


async def play(case: GraphCase, session: fe.Session) -> list[list[Any]]:
    await session.run([], targets=case.setup)
    return [
        list(await session.run(list(fetches), feeds, targets=case.targets)) for fetches, feeds in case.runs
    ]


@TIERS
@given(graphs())
def test_random_graphs_give_what_the_reference_gives(tier: str, case: GraphCase) -> None:
    async def main() -> list[list[Any]]:
        async with opened(case.graph, tier) as session:
            return await play(case, session)

    check(case, trio.run(main))


@TIERS
@given(graphs(max_statements=4, max_depth=3, runs=1))
def test_deeply_nested_control_flow_gives_what_the_reference_gives(tier: str, case: GraphCase) -> None:
    async def main() -> list[list[Any]]:
        async with opened(case.graph, tier) as session:
            return await play(case, session)

    check(case, trio.run(main))


@TIERS
@given(graphs())
def test_a_graph_that_was_written_and_read_again_gives_the_same(tier: str, case: GraphCase) -> None:
    written = case.graph.to_graph_def().SerializeToString()

    async def main() -> list[list[Any]]:
        async with opened(fe.Graph.from_graph_def(written), tier) as session:
            return await play(case, session)

    check(case, trio.run(main))


@TIERS
@given(graphs(), st.integers(0, 255))
def test_overwriting_feeds_and_fetches_changes_nothing_else(tier: str, case: GraphCase, junk: int) -> None:
    """A feed is the caller's again when the step ends, a fetch is the caller's own at once."""

    def scribble(value: Any) -> None:
        if isinstance(value, np.ndarray):
            value.view(np.uint8).fill(junk) if value.ndim else value.fill(junk)

    async def main() -> list[list[Any]]:
        results = []
        async with opened(case.graph, tier) as session:
            await session.run([], targets=case.setup)
            for fetches, feeds in case.runs:
                own = {name: value.copy() for name, value in feeds.items()}
                values = list(await session.run(list(fetches), own, targets=case.targets))
                results.append([np.array(v) for v in values])
                for value in (*values, *own.values()):
                    scribble(value)
        return results

    check(case, trio.run(main))


@TIERS
@given(graphs())
def test_results_that_stay_alive_do_not_change(tier: str, case: GraphCase) -> None:
    """The values that one step returned are the same after later steps wrote the variables."""

    async def main() -> None:
        async with opened(case.graph, tier) as session:
            await session.run([], targets=case.setup)
            kept: list[tuple[Any, Any]] = []
            for fetches, feeds in (*case.runs, *case.runs):
                values = await session.run(list(fetches), feeds, targets=case.targets)
                kept += [(value, np.array(value)) for value in values]
            for value, copy in kept:
                assert same_bits(value, copy)

    trio.run(main)


@TIERS
@given(graphs(variables=False, runs=2))
def test_concurrent_steps_of_one_session_do_not_mix(tier: str, case: GraphCase) -> None:
    async def main() -> list[list[Any]]:
        results: list[list[Any]] = [[] for _ in case.runs]

        async def step(number: int) -> None:
            fetches, feeds = case.runs[number]
            for _ in range(2):
                results[number] = list(await session.run(list(fetches), feeds, targets=case.targets))

        async with opened(case.graph, tier) as session, trio.open_nursery() as nursery:
            for number in range(len(case.runs)):
                nursery.start_soon(step, number)
        return results

    check(case, trio.run(main))


#: What ops say of a division by zero: those called truncated an error of another class, as in TensorFlow.
_FAILURES = (fe.errors.InvalidArgumentError, fe.errors.InternalError)


@TIERS
@given(graphs(variables=False, failing=True))
def test_a_step_fails_where_the_reference_fails_and_the_next_one_is_right(tier: str, case: GraphCase) -> None:
    """Folding, merging and compiling neither hide an error nor bring one forward."""

    async def main() -> list[Any]:
        outcomes: list[Any] = []
        async with opened(case.graph, tier) as session:
            for fetches, feeds in (*case.runs, *case.runs):
                try:
                    outcomes.append(await session.run(list(fetches), feeds, targets=case.targets))
                except _FAILURES as error:
                    outcomes.append(error)
        return outcomes

    outcomes = trio.run(main)
    for (fetches, feeds), outcome in zip((*case.runs, *case.runs), outcomes, strict=True):
        try:
            want = evaluate(case.graph, fetches, feeds, case.targets)
        except _FAILURES:
            # Of several divisions that fail any may be the first; each says it in its own way.
            assert isinstance(outcome, _FAILURES), outcome
            assert "division by zero" in outcome.message
            assert outcome.node_name is not None
            truncates = case.graph[outcome.node_name].op == "TruncateDiv"
            assert isinstance(outcome, fe.errors.InternalError) == truncates, outcome
        else:
            assert not isinstance(outcome, Exception), outcome
            for name, a, b in zip(fetches, outcome, want, strict=True):
                assert same_bits(a, b), f"{name} is {a!r}, the reference says {b!r}"


@given(graphs(runs=1))
def test_a_feed_of_the_wrong_type_is_refused_and_the_session_goes_on(case: GraphCase) -> None:
    async def main() -> list[list[Any]]:
        async with fe.Session(case.graph) as session:
            fetches, feeds = case.runs[0]
            name = next(iter(feeds))
            with pytest.raises((fe.errors.OpError, TypeError, ValueError)) as caught:
                await session.run(list(fetches), {**feeds, name: np.full((7, 7), b"x", object)})
            note(str(caught.value))
            return await play(case, session)

    check(case, trio.run(main))
