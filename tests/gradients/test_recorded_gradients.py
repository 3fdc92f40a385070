"""The recorded requests of TensorFlow's `tf.gradients`, against a floor that only rises.

They lie outside of this repository: see the fixture `shared`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.gradients import recorded
from tests.gradients.recorded import Outcome

pytestmark = [pytest.mark.conformance, pytest.mark.slow]

#: What must pass whatever the floor says: of all cases, and of each family and need that has many.
_LEAST_OF_ALL: Final = 0.99
_LEAST_OF_MANY: Final = 0.98
_MANY: Final = 50


@pytest.fixture(scope="module")
def outcomes(shared: Path) -> list[Outcome]:
    """Every case; at night in all three ways, else one in ten."""
    if not (shared / "gradients").is_dir():
        pytest.skip(f"{shared} holds no recorded gradients")
    played = recorded.play_all(shared, one_in=10)
    assert played, f"{shared} holds no recorded gradient"
    return played


def test_recorded_gradients_do_not_fall_below_the_floor(
    outcomes: list[Outcome],
    capsys: pytest.CaptureFixture[str],
    record_property: Callable[[str, object], None],
) -> None:
    record_property("conformance_cases", len(outcomes))
    with capsys.disabled():
        print(f"\n{recorded.table(outcomes)}", flush=True)
    _, passed = recorded.tally(outcomes)
    floor = recorded.read(recorded.FLOOR)
    assert {name: passed[name] for name, least in floor.items() if passed[name] < least} == {}


def test_enough_of_each_family_and_need_passes(outcomes: list[Outcome]) -> None:
    """Cases whose values are made of rounding errors alone are left out of their groups."""
    excused = recorded.read(recorded.EXCEPTIONS)
    noise = {name for name, why in excused.items() if why.startswith("rounding")}
    cases, passed = recorded.tally([each for each in outcomes if each.id not in noise])
    for name, count in cases.items():
        least = _LEAST_OF_ALL if name == "all" else _LEAST_OF_MANY if count >= _MANY else 1 - 1 / count
        assert passed[name] >= least * count, f"{name}: {passed[name]} of {count}"


def test_each_case_that_fails_has_its_reason(outcomes: list[Outcome]) -> None:
    excused = recorded.read(recorded.EXCEPTIONS)
    assert {each.id: each.why for each in outcomes if each.why and each.id not in excused} == {}
