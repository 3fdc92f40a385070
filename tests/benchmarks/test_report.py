"""The table says of each line whether its limit is kept."""

from __future__ import annotations

import math

from tests.benchmarks.report import geometric_mean, markdown


def result(name: str, ours: float, theirs: float, limit: float | None = None) -> dict[str, object]:
    return {"name": name, "step": [ours, theirs], "limit": limit, "budget": limit}


def test_the_mean_leaves_out_what_libraries_do() -> None:
    results = [
        result("zoo/whitepaper_fig1", 2.0, 4.0),
        result("zoo/lstm_lm_full", 1.0, 8.0),
        result("zoo/googlenet_train", 100.0, 1.0),
        result("one_op_run", 100.0, 1.0),
    ]
    mean = geometric_mean(results)
    assert mean is not None
    assert math.isclose(mean["step"][0], 0.25)
    assert geometric_mean(results[2:]) is None


def test_a_table_has_a_row_for_each_result() -> None:
    text = markdown(
        [
            result("kept", 1e-5, 2e-5, 1.0),
            result("broken", 3.0, 2.0, 1.0),
            result("free", 0.003, 0.002),
            {"name": "bad", "error": "Engine: why"},
        ],
        ["ours", "theirs"],
    )
    lines = text.splitlines()
    assert lines[0] == "| work | ours | theirs | ratio | asked | kept |"
    assert lines[2] == "| kept | 10.0 us | 20.0 us | 0.50 | 1.00 | yes |"
    assert lines[3] == "| broken | 3.00 s | 2.00 s | 1.50 | 1.00 | **no** |"
    assert lines[4] == "| free | 3.00 ms | 2.00 ms | 1.50 |  |  |"
    assert lines[5].startswith("| bad | failed |")
