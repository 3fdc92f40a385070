"""The benchmark of the host's lateness: its arithmetic, and that each of its processes answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks import lateness
from tests.benchmarks.against.trees import ROOT, Tree


def document(late: float, steps: float, kernel: float = 1e-4) -> dict[str, Any]:
    return {
        "late": {"0.5": late / 2, "0.99": late, "1.0": 2 * late},
        "steps_per_second": steps,
        "processor_per_step": 3e-3,
        "inline": 1.0,
        "least": {"y": 3e-3, "kernel": kernel, "null": 1e-5},
    }


def findings(free: float, limited: float, null: float, steps: float) -> lateness.Findings:
    found = lateness.Findings()
    for side, count in (("old", 300.0), ("new", steps)):
        for load, late in (("free", free), ("limited", limited), ("null", null)):
            for disturbed in (1.0, 0.9, 9.0):
                found.add(side, load, document(late * disturbed, count))
    return found


def test_a_host_that_waits_for_two_slices_is_in_time() -> None:
    judged = lateness.verdicts(findings(4e-3, 3.3e-3, 3.9e-3, 295.0), "new", "old")
    assert [kept for *_, kept in judged] == [True] * 5
    assert judged[0][1] == pytest.approx(4 / 3.3)
    assert judged[1][1:3] == pytest.approx((4.0, 4.1))


def test_each_thing_that_is_asked_can_be_missed() -> None:
    judged = lateness.verdicts(findings(5e-3, 3e-3, 4.5e-3, 280.0), "new", "old")
    assert [kept for *_, kept in judged] == [False] * 5
    assert len(lateness.verdicts(findings(5e-3, 3e-3, 4.5e-3, 280.0), "new", None)) == 3


def test_the_table_has_a_row_for_each_side_and_load() -> None:
    rows = findings(4e-3, 3e-3, 1e-3, 300.0).rows()
    assert len(rows) == 1 + 6
    assert rows[1].split() == ["old", "free", "2.00", "4.00", "8.00", "300", "3.000", "1.00"]


@pytest.mark.slow
@pytest.mark.parametrize("load", sorted(lateness.LOADS))
def test_a_process_answers_for_each_load(load: str, tmp_path: Path) -> None:
    lateness.write(tmp_path)
    found = lateness.measure(Tree("here", ROOT, "0"), load, tmp_path, 0.2, None)
    assert found["late"]["0.5"] <= found["late"]["0.99"] <= found["late"]["1.0"]
    assert (found["steps_per_second"] > 0) == (load != "alone")
    assert 0 < found["least"]["null"] < found["least"]["kernel"] < found["least"]["y"]
