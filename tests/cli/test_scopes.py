"""`inspect --by scope`, and the warning of element-wise ops that repeat both inputs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.cli.main import main

Output = pytest.CaptureFixture[str]
Save = Callable[[fe.Graph], str]


def inspected(capsys: Output, *arguments: str) -> str:
    assert main(["inspect", *arguments]) == 0
    return capsys.readouterr().out


def network() -> fe.Graph:
    """Two scopes with a variable of 64 numbers and a table of 16 each."""
    g = fe.Graph()
    x = g.placeholder("float32", [None, 8], name="x")
    for layer in ("first", "second"):
        table = g.constant(np.arange(16, dtype=np.float32), name=f"{layer}/dense/table")
        w = g.ops.VariableV2(shape=[8, 8], dtype="float32", name=f"{layer}/dense/kernel")
        x = g.ops.MatMul(x, w, name=f"{layer}/dense/product")
        g.ops.Neg(table, name=f"{layer}/dense/unused")
    g.ops.Tanh(x, name="y")
    return g


def test_nodes_and_parameters_by_scope(capsys: Output, save: Save) -> None:
    g = network()
    path = save(g)
    document = json.loads(inspected(capsys, path, "--by", "scope", "--json"))
    found = {each["scope"]: each for each in document["scopes"]}
    assert found["first/dense"]["parameters"] == found["second/dense"]["parameters"] == 64 + 16
    assert found[""]["ops"] == {"Placeholder": 1, "Tanh": 1}
    assert sum(each["nodes"] for each in found.values()) == len(g)
    *_, last = inspected(capsys, path, "--by", "scope").splitlines()
    assert last.split() == [str(len(g)), "160", "total"]
    assert json.loads(inspected(capsys, path, "--json"))["parameters"]["total"] == 160


def test_deep_scopes_are_folded_to_a_screen(capsys: Output, save: Save) -> None:
    g = fe.Graph()
    for outer in range(4):
        for inner in range(30):
            g.constant(1.0, name=f"outer{outer}/inner{inner}/one")
    _, *rows = inspected(capsys, save(g), "--by", "scope").splitlines()
    assert [row.split()[2] for row in rows] == ["outer0", "outer1", "outer2", "outer3", "total"]
    assert "30 Const" in rows[0]


@pytest.mark.parametrize(
    ("x", "y", "warns"),
    [
        ([8], [8, 1], True),
        ([None], [None, 1], True),
        ([5, 1], [1, 5], True),
        ([8], [4, 8], False),
        ([8, 1], [8, 4], False),
        ([], [8, 1], False),
        ([1], [8], False),
        ([1, 1], [1], False),
        ([None, 4], [1, 4], False),
        ([None], [None], False),
    ],
)
def test_ops_that_repeat_both_inputs_are_named(
    capsys: Output, save: Save, x: list[Any], y: list[Any], warns: bool
) -> None:
    g = fe.Graph()
    a, b = g.placeholder("float32", x, name="a"), g.placeholder("float32", y, name="b")
    g.ops.SquaredDifference(a, b, name="error")
    path = save(g)
    text = inspected(capsys, path)
    assert ("element-wise ops that repeat both inputs" in text) == warns
    found = json.loads(inspected(capsys, path, "--json"))["broadcasts_of_both"]
    assert [each["name"] for each in found] == ["error"] * warns


def test_views_that_exclude_each_other_are_refused(capsys: Output, linear: str) -> None:
    assert main(["inspect", linear, "--by", "scope", "--stats"]) == 2
    assert "choose one" in capsys.readouterr().err
