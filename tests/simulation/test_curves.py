"""The curves of the documentation, at sizes that take a second: what holds of them whatever the machine."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from tests.tools.charts import ChartLine, chart
from tests.tools.simulated_backups import (
    BackupReplicas,
    ComputeTime,
    normalised_speedups,
    train_replicas,
)
from tests.tools.simulated_null_steps import DATA_CENTRE, null_step_seconds


def test_scalar_steps_are_bound_by_messages() -> None:
    one, four = (null_step_seconds(workers, ps=2, rounds=3) for workers in (1, 4))
    # A worker sends and receives eight messages, and one goes each way before the first answer.
    assert one > 8 * DATA_CENTRE.piece_seconds
    assert one < 0.003
    assert one <= four < 4 * one


def test_dense_steps_are_bound_by_interfaces() -> None:
    seconds = {workers: null_step_seconds(workers, ps=2, model_bytes=1e8, rounds=3) for workers in (1, 2, 8)}
    # One worker's interface takes 0.1 s for it all; then each of two PS tasks sends half of it to everybody.
    assert seconds[1] == pytest.approx(0.1, rel=0.2)
    assert seconds[2] == pytest.approx(0.1, rel=0.3)
    assert seconds[8] == pytest.approx(0.4, rel=0.2)


@pytest.mark.slow
def test_backup_workers_make_steps_shorter() -> None:
    slow = ComputeTime(seconds=1.0, spread=0.02, straggler_share=0.1, straggler_factor=4.0)
    trained = [
        train_replicas(
            BackupReplicas(required=6, backups=backups, ps=2, model_bytes=1e6, compute=slow), steps=12
        )
        for backups in (0, 2)
    ]
    for each in trained:
        # The average of so many ones, times the rate: no gradient counted twice, none was lost.
        assert each.moved == -0.125
        assert len(each.seconds) == 12
    assert sum(trained[1].seconds) < 0.85 * sum(trained[0].seconds)
    speedups = normalised_speedups({0: trained[0].median, 2: trained[1].median}, 6)
    assert speedups[0] == 1
    assert speedups[2] == pytest.approx(trained[0].median / trained[1].median * 6 / 8)


def test_the_same_seed_gives_the_same_steps() -> None:
    model = BackupReplicas(required=3, backups=1, ps=1, model_bytes=1e6)
    assert train_replicas(model, steps=3).seconds == train_replicas(model, steps=3).seconds
    assert train_replicas(model, steps=3).seconds != train_replicas(model, steps=3, seed=1).seconds


@pytest.mark.parametrize("log", [False, True])
def test_a_chart_is_an_image(log: bool) -> None:
    lines = [
        ChartLine("a & b", [(1, 3.5), (10, 40.0), (500, 2000.0)]),
        ChartLine("c", [(1, 1.8)], dashed=True),
    ]
    svg = chart(lines, title="t <1>", x_label="x", y_label="y", log_x=log, log_y=log)
    root = ElementTree.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{space}circle")) == 4
    texts = [element.text for element in root.iter(f"{space}text")]
    assert "a & b" in texts
    assert "t <1>" in texts
    for circle in root.findall(f"{space}circle"):
        assert 0 < float(circle.attrib["cx"]) < 680
        assert 0 < float(circle.attrib["cy"]) < 400
