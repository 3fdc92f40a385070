"""Random differentiable graphs with control flow: beside differences, and run by TensorFlow 1.15."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st

import flowengine as fe
from tests.effort import IS_NIGHTLY
from tests.gradients.smooth_differences import SmoothDerivatives
from tests.gradients.smooth_graphs import SmoothGraph, smooth_graphs
from tests.gradients.tensorflow_jobs import REASON, TENSORFLOW, Job, answers

#: How many graphs; those that TensorFlow runs are in processes of some hundred each.
EXAMPLES: Final = 2000 if IS_NIGHTLY else 20
BATCH: Final = 250
SEED: Final = 15
_QUIET: Final = list(HealthCheck)


@settings(max_examples=EXAMPLES, suppress_health_check=_QUIET)
@given(smooth=smooth_graphs(), chance=st.integers(0, 2**16))
def test_derivatives_of_both_orders_agree_with_differences(smooth: SmoothGraph, chance: int) -> None:
    assume(SmoothDerivatives(smooth, chance).agree())


@pytest.mark.skipif(TENSORFLOW is None, reason=REASON)
def test_tensorflow_runs_the_graphs_with_their_gradients(tmp_path: Path) -> None:
    asked: list[tuple[Job, list[Any]]] = []

    @seed(SEED)
    @settings(
        max_examples=EXAMPLES,
        suppress_health_check=_QUIET,
        phases=[Phase.generate],
        database=None,
        deadline=None,
    )
    @given(smooth=smooth_graphs(), chance=st.integers(0, 2**16))
    def ask(smooth: SmoothGraph, chance: int) -> None:
        asked.append(_asked(SmoothDerivatives(smooth, chance)))

    ask()
    assert len(asked) >= EXAMPLES / 2
    for start in range(0, len(asked), BATCH):
        folder = tmp_path / str(start)
        folder.mkdir()
        batch = asked[start : start + BATCH]
        for (_, ours), theirs in zip(batch, answers([job for job, _ in batch], folder), strict=True):
            assert not isinstance(theirs, str), theirs
            for got, want in zip(ours, theirs, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-9)


def _asked(derivatives: SmoothDerivatives) -> tuple[Job, list[Any]]:
    """The graph with its first gradients as a job of TensorFlow's, and what it gives here."""
    smooth = derivatives.smooth
    fetches = [*smooth.ys, *derivatives.firsts]
    with fe.blocking.Session(smooth.graph) as session:
        ours = session.run(fetches, smooth.feeds)
    graph = smooth.graph.to_graph_def().SerializeToString()
    feeds = {tensor.name: value for tensor, value in smooth.feeds.items()}
    return Job(graph, feeds, [tensor.name for tensor in fetches]), ours
