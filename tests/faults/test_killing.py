"""Tasks and clients that are killed at random moments change nothing of what a run ends with."""

from __future__ import annotations

import secrets

import pytest

from tests.effort import IS_NIGHTLY
from tests.faults.killing import run

pytestmark = pytest.mark.slow


async def test_whoever_is_killed_the_run_ends_as_undisturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWENGINE_SILENCE_SECONDS", "")  # set by the run, and as it was afterwards
    seed = secrets.randbits(32) if IS_NIGHTLY else 1
    report = await run(50, 10, 10, seed) if IS_NIGHTLY else await run(4, 1, 0, seed)
    print(f"seed {seed}: {report}")
    assert report.different == []
    assert report.restarts
