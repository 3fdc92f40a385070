"""Recorded cases over three processes: the values of one, wherever the nodes are."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowengine.testing.clusters import play_all
from flowengine.testing.recorded import find_cases

pytestmark = [pytest.mark.slow, pytest.mark.conformance]


async def test_the_recorded_graphs_of_this_repository(root: Path) -> None:
    results = await play_all(find_cases(root / "tests" / "conformance" / "recorded"), seed=0)
    assert len(results) >= 30
    assert {result.id: result.why for result in results if result.status != "pass"} == {}


async def test_training_graphs(shared: Path) -> None:
    wanted = ("mnist_mlp_fig1", "word2vec_nce_sgd", "nested_while_grad")
    cases = [case for case in find_cases(shared / "zoo" / "open") if Path(case).name in wanted]
    assert len(cases) == len(wanted)
    results = await play_all(cases, seed=2)
    assert {result.id: result.why for result in results if result.status != "pass"} == {}
