"""One node in the place of several: who took from them or waited for them is told, everybody else is left."""

from __future__ import annotations

from dataclasses import replace

import flowengine as fe
from flowengine.ir.graph import OutputPort
from flowengine.ir.rewire import with_groups


def test_takers_and_waiters_are_told() -> None:
    g = fe.Graph()
    ops = g.ops
    x = g.placeholder("float32", [], name="x")
    first = ops.Neg(x, name="first")
    second = ops.Square(first, name="second")
    with g.control_dependencies([first, second]):
        ops.Identity(x, name="waits")
    ops.Add(second, ops.Exp(x, name="apart"), name="takes")
    group = replace(g["second"], inputs=(OutputPort("x", 0),))
    moved = {OutputPort("second", 0): OutputPort("second", 1)}
    changed = with_groups(g, {"second": group}, moved, {"first": "second", "second": "second"})
    assert [node.name for node in changed] == ["x", "second", "waits", "apart", "takes"]
    assert changed["second"].inputs == (OutputPort("x", 0),)
    assert changed["takes"].inputs == (OutputPort("second", 1), OutputPort("apart", 0))
    assert changed["waits"].control_inputs == ("second",), "once, though it waited for two of them"
    assert changed["waits"].inputs == (OutputPort("x", 0),)
    for name in ("x", "apart"):
        assert changed[name] is g[name], "who has nothing to do with it is the same node"
