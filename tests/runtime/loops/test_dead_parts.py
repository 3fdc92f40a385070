"""Loops of which a part is dead: what is compiled all the same, and what has no value in either tier."""

from __future__ import annotations

import numpy as np
import pytest

import flowengine as fe
from tests.runtime.loops.written import Frame, both, has_no_value, loops_written


async def test_a_loop_of_which_a_part_may_be_dead_stays_with_the_state_machine() -> None:
    """If only `x` comes from a branch that is not taken, the loop still counts."""
    g = fe.Graph()
    ops = g.ops
    x = g.placeholder("float32", [], name="x")
    pred = g.placeholder("bool", [], name="pred")
    frame = Frame(g, "loop", [g.constant(0), ops.Switch(x, pred).output_true], [g.constant(3), g.constant(1)])
    count, value = frame.go_on(ops.Less(frame.merges[0], frame.constants[0]))
    frame.come_back(0, ops.Add(count, frame.constants[1]), [])
    frame.come_back(1, ops.Tanh(value), [])
    ops.Exit(frame.switches[0].output_false, name="count")
    ops.Exit(frame.switches[1].output_false, name="value")
    assert loops_written(g, ["count:0"], ["x:0", "pred:0"]) == 1, "nothing of it is dead"
    assert loops_written(g, ["count:0", "value:0"], ["x:0", "pred:0"]) == 0
    assert await both(g, ["count:0", "value:0"], {"x:0": np.float32(1), "pred:0": True})
    async with fe.Session(g) as session:
        assert await session.run("count:0", {"x:0": np.float32(1), "pred:0": False}) == 3


@pytest.mark.parametrize("form", ["waits", "takes", "takes, and lies before"])
async def test_what_waits_for_the_end_of_a_loop_happens_once(form: str) -> None:
    """A node in the frame that waits for what leaves it is dead in every round but the last."""
    g = fe.Graph()
    ops = g.ops
    n = g.placeholder("int32", [], name="n")
    variable = ops.VarHandleOp(dtype="int32", shape=[], shared_name="times", name="times")
    with g.control_dependencies([ops.AssignVariableOp(variable, 0)]):
        start = ops.Identity(g.constant(0))
    frame = Frame(g, "loop", [start, g.constant(1)], [n, g.constant(1), variable])
    count, one = frame.go_on(ops.Less(frame.merges[0], frame.constants[0]))
    frame.come_back(0, ops.Add(count, frame.constants[1]), [])
    frame.come_back(1, ops.Identity(one), [])
    left = ops.Identity(frame.switches[1].output_false, name="left")
    with g.control_dependencies([left] if form == "waits" else []):
        add = ops.AssignAddVariableOp(frame.constants[2], frame.constants[1] if form == "waits" else left)
    with g.control_dependencies([add]):
        after = ops.Identity(frame.switches[0].output_false)
    with g.control_dependencies([ops.Exit(after, name="count")]):
        ops.ReadVariableOp(variable, dtype="int32", name="read")
    if form.endswith("before"):
        found = g.to_graph_def()
        last = [node for node in found.node if node.name == "left"]
        others = [node for node in found.node if node.name != "left"]
        del found.node[:]
        found.node.extend([*others, *last])
        g = fe.Graph.from_graph_def(found)
    for rounds in (0, 1, 4):
        assert await both(g, ["count:0", "read:0"], {"n:0": np.int32(rounds)}) == [rounds, 1]


@pytest.mark.parametrize("form", ["carried", "awaited"])
async def test_a_round_that_carries_nothing_is_the_last_for_what_it_carries(form: str) -> None:
    """A NextIteration that takes one side of a conditional, or waits for it, is dead where that is dead."""
    g = fe.Graph()
    ops = g.ops
    n, k = (g.placeholder("int32", [], name=name) for name in ("n", "k"))
    frame = Frame(g, "loop", [g.constant(0), g.constant(7)], [n, g.constant(1), k])
    count, value = frame.go_on(ops.Less(frame.merges[0], frame.constants[0]))
    side = ops.Switch(value, ops.Less(count, frame.constants[2])).output_true
    frame.come_back(0, ops.Add(count, frame.constants[1]), [])
    other = ops.Add(side, frame.constants[1])
    if form == "carried":
        frame.come_back(1, other, [])
    else:
        frame.come_back(1, ops.Add(value, frame.constants[1]), [other.op])
    ops.Exit(frame.switches[0].output_false, name="count")
    ops.Exit(frame.switches[1].output_false, name="value")
    assert loops_written(g, ["count:0", "value:0"], ["n:0", "k:0"]) == 0
    assert await both(g, ["count:0", "value:0"], {"n:0": np.int32(3), "k:0": np.int32(3)}) == [3, 10]
    assert await both(g, ["count:0"], {"n:0": np.int32(3), "k:0": np.int32(2)}) == [3]
    await has_no_value(g, "value:0", {"n:0": np.int32(3), "k:0": np.int32(2)})


async def test_sides_of_two_predicates_are_joined_as_they_come() -> None:
    """If neither side is alive there is no result; an `if` of one predicate would take the other side."""
    g = fe.Graph()
    ops = g.ops
    x, y = (g.placeholder("float32", [], name=name) for name in ("x", "y"))
    p, q = (g.placeholder("bool", [], name=name) for name in ("p", "q"))
    sides = [ops.Switch(x, p).output_true, ops.Switch(y, q).output_false]
    ops.Add(ops.Merge([ops.Neg(each) for each in sides]).output, 1.0, name="out")
    feeds = {"x:0": np.float32(2), "y:0": np.float32(5)}
    assert await both(g, ["out:0"], {**feeds, "p:0": True, "q:0": True}) == [-1]
    assert await both(g, ["out:0"], {**feeds, "p:0": False, "q:0": False}) == [-4]
    await has_no_value(g, "out:0", {**feeds, "p:0": False, "q:0": True})


async def test_an_effect_of_a_loop_happens_though_its_counter_never_came() -> None:
    """A node that takes only loop invariants runs in the first iteration if its own inputs are alive."""
    g = fe.Graph()
    ops = g.ops
    p = g.placeholder("bool", [], name="p")
    variable = ops.VarHandleOp(dtype="int32", shape=[], shared_name="times", name="times")
    ops.AssignVariableOp(variable, 0, name="init")
    ops.ReadVariableOp(variable, dtype="int32", name="read")
    start = ops.Switch(g.constant(0), p)
    frame = Frame(g, "loop", [start.output_true], [g.constant(3), g.constant(1), variable])
    add = ops.AssignAddVariableOp(frame.constants[2], frame.constants[1])
    (count,) = frame.go_on(ops.Less(frame.merges[0], frame.constants[0]))
    frame.come_back(0, ops.Add(count, frame.constants[1]), [])
    with g.control_dependencies([add]):
        left = ops.Identity(frame.switches[0].output_false)
    ops.Merge([ops.Exit(left), ops.Neg(start.output_false)], name="out")
    for is_begun, value, times in ((True, 3, 4), (False, 0, 1)):
        for compiled in (True, False):
            async with fe.Session(g, config=fe.Config(compile_hot_plans=compiled)) as session:
                await session.run((), targets=["init"])
                assert await session.run("out:0", {"p:0": is_begun}) == value
                assert await session.run("read:0") == times
