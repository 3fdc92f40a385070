"""New versions of a model under load: no request fails, memory stays, and a broken version never answers."""

from __future__ import annotations

import os
import shutil
import threading
from collections import Counter
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import flowengine as fe
from tests.serving.clients import rows
from tests.serving.processes import GoodClient, resident_bytes, serving

pytest.importorskip("uvicorn", reason="`flowengine serve` needs uvicorn")
#: Reloads after which memory is at its level.
_SETTLED: Final = 5


def export_large(path: Path, nodes: int, size: int) -> None:
    """Write a model of y = 3 x whose graph has so many nodes, and so many bytes of variables."""
    graph = fe.Graph()
    x = graph.placeholder("float32", [None], name="x")
    weights = graph.variable(graph.ops.Fill([size // 4], np.float32(0)), name="weights")
    y = x * 3.0
    for _ in range((nodes - len(graph)) // 2):
        y = fe.add(y, 0.0)
    y = y + weights[0]
    with fe.blocking.Session(graph) as session:
        session.initialize()
        signatures: dict[str, Any] = {"serving_default": ({"x": x}, {"y": y})}
        session.call(fe.saved_model.save, path, signatures=signatures)


def place_version(model: Path, whole: Path, number: int) -> None:
    """Let a version appear at once, by links to the files of another, and remove the one before."""
    hidden = model.with_name(f".{model.name}-{number}")
    shutil.copytree(whole, hidden, copy_function=os.link)
    hidden.rename(model / str(number))
    shutil.rmtree(model / str(number - 1), ignore_errors=True)


@pytest.mark.parametrize(
    ("nodes", "size", "reloads"),
    [
        (500, 1 << 20, 12),
        pytest.param(12_000, 100 << 20, 500, marks=pytest.mark.nightly, id="whole"),
    ],
)
def test_reloads_under_load(nodes: int, size: int, reloads: int, tmp_path: Path) -> None:
    whole, models = tmp_path / "whole", tmp_path / "models"
    export_large(whole, nodes, size)
    (models / "m").mkdir(parents=True)
    place_version(models / "m", whole, 1)
    resident = []
    with serving(models, "--poll", "0.02") as server:
        server.until("'m', version 1: AVAILABLE")
        until = threading.Event()
        good = [GoodClient(server.port, number, until) for number in range(4)]
        for number in range(2, reloads + 2):
            place_version(models / "m", whole, number)
            server.until(f"'m', version {number}: AVAILABLE")
            server.until(f"'m', version {number - 1}: END")
            resident.append(resident_bytes(server))
        until.set()
        counts = sum((each.ended() for each in good), Counter())
    assert set(counts) == {"right"}, counts
    assert max(resident[_SETTLED:]) < 1.05 * resident[_SETTLED] + (4 << 20), resident


@pytest.mark.parametrize("fault", ["cut off", "missing", "shrinks", "no model"])
def test_a_broken_version_never_answers(fault: str, tmp_path: Path) -> None:
    whole, models = tmp_path / "whole", tmp_path / "models"
    export_large(whole, 100, 1 << 20)
    shutil.copytree(whole, models / "m" / "1")
    with serving(models, "--poll", "0.02") as server:
        server.until("'m', version 1: AVAILABLE")
        broken = tmp_path / "broken"
        shutil.copytree(whole, broken)
        data = broken / "variables" / "variables.data-00000-of-00001"
        if fault == "cut off":
            (broken / "saved_model.pb").write_bytes((whole / "saved_model.pb").read_bytes()[:-100])
        elif fault == "missing":
            data.unlink()
        elif fault == "shrinks":
            data.write_bytes(data.read_bytes()[: 1 << 19])
        else:
            shutil.rmtree(broken)
            broken.mkdir()
        broken.rename(models / "m" / "2")
        if fault != "no model":
            server.until("'m', version 2 does not answer")
            told = server.ask("/v1/models/m/versions/2")[1]["model_version_status"][0]
            assert told["state"] == "END"
            assert told["status"]["error_code"] != "OK"
            assert str(tmp_path) not in told["status"]["error_message"]
            assert 'status="fail"' in server.ask("/metrics")[1]
        assert server.ask("/v1/models/m:predict", rows(2.0)) == (200, {"predictions": [6.0]})
        assert server.ask("/v1/models/m/versions/2:predict", rows(2.0))[0] == 404
        # Once it is whole, it answers.
        shutil.rmtree(models / "m" / "2")
        shutil.copytree(whole, tmp_path / "again")
        (tmp_path / "again").rename(models / "m" / "2")
        server.until("'m', version 2: AVAILABLE")
