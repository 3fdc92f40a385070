"""Loops are compiled from the first run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flowengine.runtime.planning import tiers


@pytest.fixture(autouse=True)
def _compiled_from_the_first_run() -> Iterator[None]:
    before = tiers.HOT_RUNS
    tiers.HOT_RUNS = 0
    yield
    tiers.HOT_RUNS = before
