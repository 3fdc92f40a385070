"""Graphs whose steps may run in the thread that calls a façade, and which of them went to the portal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import flowengine as fe

#: Runs after which a plan has its final form.
SETTLED = 6


class Starts(list[Any]):
    """The calls that were started in a portal."""


@contextmanager
def starts(session: Any) -> Iterator[Starts]:
    """Note each call that goes to the portal of a session."""
    portal, seen = session._portal, Starts()
    start = portal.start

    def noted(function: Callable[..., Any], **options: bool) -> Any:
        seen.append(function)
        return start(function, **options)

    portal.start = noted
    try:
        yield seen
    finally:
        del portal.start


def in_place(session: Any, step: Callable[[], Any]) -> Any:
    """Return the result of a step that ran in place; the portal may have been busy the first times."""
    for _ in range(200):
        with starts(session) as seen:
            given_back = step()
        if not seen:
            return given_back
    raise AssertionError("no step ran in place")


def squares() -> fe.Graph:
    graph = fe.Graph()
    graph.ops.Square(graph.placeholder("float32", [], name="x"), name="y")
    return graph


def counters(shape: list[int] | None = None) -> fe.Graph:
    """Two variables that one step adds to, one after the other."""
    graph = fe.Graph()
    ops = graph.ops
    by = graph.placeholder("float32", shape or [], name="by")
    variables = []
    for name in ("a", "b"):
        variable = ops.VariableV2(dtype="float32", shape=shape or [], name=name)
        ops.Assign(variable, np.zeros(shape or [], np.float32), name=f"{name}/init")
        ops.Identity(variable, name=f"{name}/read")
        variables.append(variable)
    added = ops.AssignAdd(variables[0], by, name="a/add")
    with graph.control_dependencies([added]):
        ops.AssignAdd(variables[1], by, name="b/add")
    return graph


INIT = ["a/init", "b/init"]


ADD = ["a/add", "b/add"]
