"""Tensors and operations of another graph are never taken by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import flowengine as fe

FED: Final[dict[Any, Any]] = {"x:0": np.float32(1)}


def _graph() -> fe.Graph:
    g = fe.Graph()
    g.ops.Neg(g.placeholder("float32", [], name="x"), name="y")
    return g


ASKED: dict[str, Callable[[fe.blocking.Session, fe.Graph], Any]] = {
    "fetch": lambda session, other: session.run(other.tensor("y:0"), FED),
    "feed key": lambda session, other: session.run("y:0", {other.tensor("x:0"): 1.0}),
    "target": lambda session, other: session.run([], FED, targets=[other.tensor("y:0").op]),
    "operation": lambda session, other: session.run(other.tensor("y:0").op, FED),
    "in a structure": lambda session, other: session.run({"a": [other.tensor("y:0")]}, FED),
    "callable": lambda session, other: session.make_callable(["y:0"], [other.tensor("x:0")]),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_it_is_refused_with_both_graphs(ask: Callable[[fe.blocking.Session, fe.Graph], Any]) -> None:
    own, other = _graph(), _graph()
    with fe.blocking.Session(own) as session:
        with pytest.raises(fe.errors.InvalidArgumentError) as caught:
            ask(session, other)
        assert session.run(own.tensor("y:0"), {own.tensor("x:0"): 2.0}) == -2
    text = str(caught.value)
    assert "belongs to another graph" in text
    assert f"{id(other):#x}" in text
    assert f"{id(own):#x}" in text
