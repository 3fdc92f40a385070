"""Which nodes of a saver only read and assign variables, so that the saver goes to these itself."""

from __future__ import annotations

from typing import Any

import pytest

import flowengine as fe
from flowengine.graphs.saving import SaverNodes
from flowengine.train.saver_nodes import resolve

NODES = SaverNodes("prefix:0", "save:0", "restore")


def written(change: str = "") -> fe.Graph:
    """Two variables with nodes that save and restore them, and one thing about these that is unusual."""
    g = fe.Graph()
    ops = g.ops
    v, w = (ops.VariableV2(shape=[2], dtype="float32", name=name) for name in "vw")
    prefix = g.placeholder("string", [], name="prefix")
    saved: list[Any] = [v, w]
    names = ["v", "w"]
    if change == "saves what is computed":
        saved[1] = ops.Neg(w)
    if change == "saves behind a control edge":
        with g.control_dependencies([ops.NoOp(name="before")]):
            saved[1] = ops.Identity(w)
    if change == "saves one under two names":
        saved, names = [v, v, w], ["u", "v", "w"]
    save = ops.SaveV2(prefix, names, [""] * len(names), saved)
    with g.control_dependencies([save]):
        ops.Identity(prefix, name="save")
    stored = ["v"] if change == "restores fewer names than tensors" else ["v", "w"]
    if change == "restores under another name":
        stored = ["v", "x"]
    first, second = ops.RestoreV2(prefix, stored, ["", ""], dtypes=["float32", "float32"])
    if change == "restores what is computed":
        second = ops.Neg(second)
    assigned = [ops.Assign(v, first)]
    if change != "restores one alone":
        assigned.append(ops.Assign(w, ops.Identity(second)))
    g.group(*assigned, name="restore")
    return g


def test_nodes_that_only_read_and_assign_are_passed_by() -> None:
    found = resolve(written(), NODES)
    assert found is not None
    assert [(each.name, each.node) for each in found] == [(b"v", "v"), (b"w", "w")]


@pytest.mark.parametrize(
    "change",
    [
        "saves what is computed",
        "saves behind a control edge",
        "saves one under two names",
        "restores fewer names than tensors",
        "restores under another name",
        "restores what is computed",
        "restores one alone",
    ],
)
def test_nodes_that_do_more_are_run(change: str) -> None:
    assert resolve(written(change), NODES) is None
