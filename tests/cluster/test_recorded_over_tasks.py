"""Recorded cases over three processes: the values of one, wherever the nodes are."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.tools.clusters import play_all
from tests.tools.recorded import find_cases, size_of
from tests.tools.workers import replay_all

pytestmark = [pytest.mark.slow, pytest.mark.conformance]


async def differing(cases: Iterable[str], seed: int, timeout_seconds: float = 20.0) -> dict[str, str]:
    """{case: why it does not pass} of those that pass in one process, and not over three."""
    failed = [
        result
        for result in await play_all(cases, seed=seed, timeout_seconds=timeout_seconds)
        if result.status != "pass"
    ]
    alone = {result.id: result.status for result in replay_all([result.address for result in failed])}
    return {result.id: result.why for result in failed if alone[result.id] == "pass"}


async def test_the_recorded_graphs_of_this_repository(root: Path) -> None:
    results = await play_all(find_cases(root / "tests" / "conformance" / "recorded"), seed=0)
    assert len(results) >= 30
    assert {result.id: result.why for result in results if result.status != "pass"} == {}


@pytest.mark.parametrize("bytes_max", [3_000_000, pytest.param(None, marks=pytest.mark.nightly)])
async def test_the_zoo(shared: Path, bytes_max: int | None) -> None:
    """Whole graphs, those that train and those that read files among them; at night the four largest, too."""
    cases = list(find_cases(shared / "zoo" / "open"))
    if bytes_max is not None:
        cases = [case for case in cases if size_of(case) <= bytes_max]
    assert len(cases) > 20
    # The largest take some seconds on a machine to themselves.
    assert await differing(cases, seed=2, timeout_seconds=120.0) == {}


@pytest.mark.parametrize("every", [60, pytest.param(1, marks=pytest.mark.nightly)])
async def test_the_recorded_cases(shared: Path, every: int) -> None:
    """One in sixty, or all, at night: each suite is there, for a suite's cases stand together."""
    cases = list(find_cases(shared / "conformance" / "open"))[::every]
    assert len(cases) > 4000 / every
    assert await differing(cases, seed=3) == {}
