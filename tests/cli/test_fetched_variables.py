"""A variable's name on the shell stands for its value, whether a reference or a resource holds it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import flowengine as fe
from flowengine.cli.main import main

Output = pytest.CaptureFixture[str]


@pytest.fixture(params=[True, False], ids=["read", "unread"])
def path(request: pytest.FixtureRequest, save: Callable[[fe.Graph], str]) -> str:
    """`count` adds 2 to the variable w, which holds [1, 1] after `init`; the graph may read it or not."""
    g = fe.Graph()
    handle = g.ops.VarHandleOp(dtype="float32", shape=[2], shared_name="w", name="w")
    ones = np.ones(2, np.float32)
    g.ops.AssignVariableOp(handle, ones, name="init")
    g.ops.AssignAddVariableOp(handle, 2 * ones, name="count")
    if request.param:
        g.ops.ReadVariableOp(handle, dtype="float32", name="value")
    return save(g)


def test_a_fetch_is_the_value(path: str, capsys: Output) -> None:
    for name in ("w", "w:0"):
        assert main(["run", path, "--init", "init", "--fetch", name]) == 0
        assert capsys.readouterr().out == "w:0  float32 [2]\n[1., 1.]\n"
    assert main(["plan", path, "--fetch", "w"]) == 0
    assert "ReadVariableOp(w" in capsys.readouterr().out


def test_it_is_kept_after_all_steps(path: str, tmp_path: Path) -> None:
    kept = tmp_path / "w.npz"
    command = ["run", path, "--init", "init", "--target", "count", "--steps", "3", "--final", "w", "--force"]
    assert main([*command, "--output", str(kept)]) == 0
    with np.load(kept) as held:
        np.testing.assert_array_equal(held["w:0"], [7, 7])
    folder = str(tmp_path / "run")
    assert main([*command, "--output", str(kept), "--checkpoint", folder, "--recover"]) == 0
    with np.load(kept) as held:
        np.testing.assert_array_equal(held["w:0"], [7, 7])


def test_it_can_be_frozen(path: str, tmp_path: Path, capsys: Output) -> None:
    frozen = tmp_path / "frozen.pb"
    assert main(["freeze", path, "--init", "init", "--fetch", "w", "--output", str(frozen)]) == 0
    name = capsys.readouterr().out.partition(": ")[2].strip()
    assert main(["run", str(frozen), "--fetch", name]) == 0
    assert "[1., 1.]" in capsys.readouterr().out
