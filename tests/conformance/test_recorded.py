"""The cases recorded in this repository give the values that TensorFlow gave.

`record.py` says how each was made.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flowengine.runtime.planning import tiers
from tests.tools.recorded import find_cases
from tests.tools.replay import replay_case

pytestmark = [pytest.mark.conformance, pytest.mark.provided]

CASES = {Path(address).name: address for address in find_cases(Path(__file__).parent / "recorded")}


def test_the_recorded_cases_are_here() -> None:
    assert len(CASES) >= 30


@pytest.mark.parametrize("name", sorted(CASES))
def test_recorded_case_gives_what_tensorflow_gave(
    name: str, record_property: Callable[[str, object], None]
) -> None:
    record_property("conformance_cases", 1)
    result = replay_case(CASES[name])
    assert result.status == "pass", f"run {result.run} {result.fetch or ''}: {result.why}"


@pytest.mark.parametrize("name", sorted(CASES))
def test_recorded_case_gives_the_same_when_compiled_at_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "HOT_RUNS", 0)
    result = replay_case(CASES[name])
    assert result.status == "pass", f"run {result.run} {result.fetch or ''}: {result.why}"
