"""What is read of a function's body, and how its nodes are called where they come to stand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import flowengine as fe
from flowengine.functions.bodies import behind_identities, renamed_attrs
from flowengine.ir.graph import OutputPort


def test_a_value_comes_from_behind_what_only_hands_it_on() -> None:
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [], name="x")
    ops.Identity(ops.Identity(x, name="first"), name="second")
    with graph.control_dependencies([ops.NoOp(name="effect")]):
        waits = ops.Identity(x, name="waits")
    ops.Identity(waits, name="behind")
    body: Any = SimpleNamespace(graph=graph)
    wanted = {"x": "x", "first": "x", "second": "x", "waits": "waits", "behind": "waits"}
    for name, source in wanted.items():
        assert behind_identities(body, OutputPort(name, 0)) == OutputPort(source, 0)


def test_frames_and_colocations_are_called_as_where_they_stand() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [], name="x")
    graph.ops.Enter(x, frame_name="loop", name="enter")
    for name, together in (("together", ["loc:@x", "loc:@elsewhere"]), ("apart", ["loc:@elsewhere"])):
        graph.create_op("Neg", [x], {"_class": together}, name)
    found = {
        name: renamed_attrs(graph[name], "call/", {"x", "enter"}) for name in ("enter", "together", "apart")
    }
    assert found["enter"]["frame_name"] == b"call/loop"
    assert found["together"]["_class"] == (b"loc:@call/x",)
    assert "_class" not in found["apart"]
    assert graph["enter"].attrs["frame_name"] == b"loop", "the body itself is as it was"
