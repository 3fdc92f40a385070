"""Loops of forms that are not compiled: the state machine runs them, and others beside them are compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from tests.runtime.loops.written import Frame, both, has_no_value, loops_written


def two_ways_in(g: fe.Graph, name: str, x: Any, y: Any, pred: Any, numbers: list[Any]) -> Any:
    """Build a loop whose value enters as x or as y, as a predicate says, and return its exit.

    numbers   where counting begins, where it ends, and one
    """
    ops = g.ops
    frame = Frame(g, name, numbers[:1], numbers[1:])
    ways = [ops.Switch(x, pred).output_true, ops.Switch(y, pred).output_false]
    enters = [ops.Enter(way, frame_name=name) for way in ways]
    frame.merges.append(ops.Merge([enters[0], enters[0], enters[1]]).output)
    count, value = frame.go_on(ops.Less(frame.merges[0], frame.constants[0]))
    frame.come_back(0, ops.Add(count, frame.constants[1]), [])
    frame.come_back(1, ops.Mul(value, value), [])
    return ops.Exit(frame.switches[1].output_false)


async def test_a_loop_of_two_ways_in() -> None:
    g = fe.Graph()
    x, y = (g.placeholder("float32", [], name=name) for name in "xy")
    p, n = g.placeholder("bool", [], name="p"), g.placeholder("int32", [], name="n")
    g.ops.Identity(two_ways_in(g, "loop", x, y, p, [g.constant(0), n, g.constant(1)]), name="out")
    assert loops_written(g, ["out:0"], ["x:0", "y:0", "p:0", "n:0"]) == 0
    feeds = {"x:0": np.float32(2), "y:0": np.float32(3), "p:0": True, "n:0": np.int32(2)}
    assert await both(g, ["out:0"], feeds) == [16]


async def test_a_loop_around_one_that_is_left_alone_is_left_alone() -> None:
    g = fe.Graph()
    ops = g.ops
    x, p, n = (
        g.placeholder("float32", [], name="x"),
        g.placeholder("bool", [], name="p"),
        g.placeholder("int32", [], name="n"),
    )
    outer = Frame(g, "outer", [g.constant(0), x], [n, g.constant(1), p])
    bound, one, pred = outer.constants
    count, value = outer.go_on(ops.Less(outer.merges[0], bound))
    numbers = [ops.Sub(one, one), one, one]
    inner = two_ways_in(g, "inner", value, ops.Neg(value), pred, numbers)
    outer.come_back(0, ops.Add(count, one), [])
    outer.come_back(1, inner, [])
    ops.Exit(outer.switches[1].output_false, name="out")
    assert loops_written(g, ["out:0"], ["x:0", "p:0", "n:0"]) == 0
    for rounds in (0, 1, 2):
        feeds = {"x:0": np.float32(3), "p:0": True, "n:0": np.int32(rounds)}
        assert await both(g, ["out:0"], feeds) == [3.0 ** (2**rounds)]


async def test_a_carried_reference_shows_what_its_variable_is_then() -> None:
    """The loop carries the variable itself: an update in one iteration is seen in the next."""
    g = fe.Graph()
    ops = g.ops
    n = g.placeholder("int32", [], name="n")
    v = ops.VariableV2(dtype="int32", shape=[], name="v")
    with g.control_dependencies([ops.Assign(v, g.constant(5)).op]):
        start = ops.Identity(g.constant(0))
    options: dict[str, Any] = {"frame_name": "loop"}
    frame = Frame(g, "loop", [start], [n, g.constant(1)])
    enter = ops.RefEnter(v, **options)
    frame.merges.append(ops.RefMerge([enter, enter]).output)
    count, _ = frame.merges
    verdict = ops.LoopCond(ops.Less(count, frame.constants[0]))
    going, reference = ops.Switch(count, verdict), ops.RefSwitch(frame.merges[1], verdict)
    frame.switches = [going, reference]
    add = ops.AssignAdd(reference.output_true, frame.constants[1])
    frame.come_back(0, ops.Add(going.output_true, frame.constants[1]), [add.op])
    g.set_back_edge(frame.merges[1], 1, ops.RefNextIteration(reference.output_true))
    with g.control_dependencies([ops.Exit(going.output_false, name="count")]):
        ops.Identity(v, name="after")
    assert loops_written(g, ["count:0", "after:0"], ["n:0"]) == 0
    assert await both(g, ["count:0", "after:0"], {"n:0": np.int32(3)}) == [3, 8]


@pytest.mark.parametrize("handed_on", [True, False])
@pytest.mark.parametrize("compiled", [True, False])
async def test_what_a_reference_shows_when_a_round_ends_is_carried(compiled: bool, handed_on: bool) -> None:
    """A NextIteration takes a value: what leaves the loop is not the memory of the variable."""
    g = fe.Graph()
    ops = g.ops
    n = g.placeholder("int32", [], name="n")
    v = ops.VariableV2(dtype="float32", shape=[2], name="v")
    ops.Assign(v, g.constant([1.0, 2.0]), name="set")
    ops.AssignAdd(v, g.constant([10.0, 10.0]), name="more")
    frame = Frame(g, "loop", [g.constant(0), g.constant([0.0, 0.0])], [n, g.constant(1)])
    reference = ops.RefEnter(v, frame_name="loop", is_constant=True)
    count, _ = frame.go_on(ops.Less(frame.merges[0], frame.constants[0]))
    following = ops.Add(count, frame.constants[1])
    frame.come_back(0, following, [])
    with g.control_dependencies([following.op]):
        frame.come_back(1, ops.RefIdentity(reference) if handed_on else reference, [following.op])
    ops.Exit(frame.switches[1].output_false, name="value")
    assert loops_written(g, ["value:0"], ["n:0"]) == 0
    async with fe.Session(g, config=fe.Config(compile_hot_plans=compiled)) as session:
        await session.run("set")
        value = await session.run("value:0", {"n:0": np.int32(2)})
        await session.run("more")
        assert value.tolist() == [1, 2]


async def test_a_loop_that_waits_where_its_rounds_meet_is_left_alone() -> None:
    g = fe.Graph()
    ops = g.ops
    n = g.placeholder("int32", [], name="n")
    frame = Frame(g, "loop", [], [n, g.constant(1)])
    enter = ops.Enter(g.constant(0), frame_name="loop")
    with g.control_dependencies([frame.constants[1].op]):
        frame.merges = [ops.Merge([enter, enter]).output]
    (count,) = frame.go_on(ops.Less(frame.merges[0], frame.constants[0]))
    frame.come_back(0, ops.Add(count, frame.constants[1]), [])
    ops.Exit(frame.switches[0].output_false, name="count")
    assert loops_written(g, ["count:0"], ["n:0"]) == 0
    assert await both(g, ["count:0"], {"n:0": np.int32(3)}) == [3]


async def test_a_loop_within_that_only_has_effects_keeps_the_one_around_it_alone() -> None:
    """Nothing of the inner one is taken: what waits for its end is all that the outer one has of it."""
    g = fe.Graph()
    ops = g.ops
    n = g.placeholder("int32", [], name="n")
    v = ops.VarHandleOp(dtype="int32", shape=[], shared_name="rounds", name="v")
    with g.control_dependencies([ops.AssignVariableOp(v, 0)]):
        start = ops.Identity(g.constant(0))
    outer = Frame(g, "outer", [start], [n, g.constant(1), v])
    bound, one, handle = outer.constants
    (count,) = outer.go_on(ops.Less(outer.merges[0], bound))
    inner = Frame(g, "inner", [], [one, one, handle])
    enter = ops.Enter(ops.Sub(one, one), frame_name="inner")
    inner.merges = [ops.Merge([enter, enter, enter]).output]
    (within,) = inner.go_on(ops.Less(inner.merges[0], inner.constants[0]))
    add = ops.AssignAddVariableOp(inner.constants[2], inner.constants[1])
    inner.come_back(0, ops.Add(within, inner.constants[1]), [add])
    over = ops.Exit(inner.switches[0].output_false)
    outer.come_back(0, ops.Add(count, one), [over.op])
    with g.control_dependencies([ops.Exit(outer.switches[0].output_false, name="count")]):
        ops.ReadVariableOp(v, dtype="int32", name="read")
    assert loops_written(g, ["count:0", "read:0"], ["n:0"]) == 0
    # Neither waits for a Switch: both run in the round that ends as well, four times two.
    assert await both(g, ["count:0", "read:0"], {"n:0": np.int32(3)}) == [3, 8]


@pytest.mark.parametrize("fed", ["a", "b"])
async def test_a_loop_whose_end_is_fed_leaves_others_compiled(fed: str) -> None:
    g = fe.Graph()
    ops = g.ops
    n = g.placeholder("int32", [], name="n")
    for name in "ab":
        frame = Frame(g, f"loop_{name}", [g.constant(0)], [n, g.constant(1)])
        (count,) = frame.go_on(ops.Less(frame.merges[0], frame.constants[0]))
        frame.come_back(0, ops.Add(count, frame.constants[1]), [])
        ops.Exit(frame.switches[0].output_false, name=name)
        with g.control_dependencies([g.operation(name)]):
            ops.Neg(n, name=f"{name}_over")
    fetches = ["a:0", "b:0", "a_over:0", "b_over:0"]
    assert loops_written(g, fetches, ["n:0"]) == 2
    assert loops_written(g, fetches, ["n:0", f"{fed}:0"]) == 1
    want = {"a": 3, "b": 3, fed: 7}
    got = await both(g, fetches, {"n:0": np.int32(3), f"{fed}:0": np.int32(7)})
    assert got == [want["a"], want["b"], -3, -3]


async def test_a_loop_that_asks_by_which_way_a_value_came_is_left_alone() -> None:
    """In from outside in the first round, back from the one before in all others."""
    g = fe.Graph()
    ops = g.ops
    n = g.placeholder("int32", [], name="n")
    frame = Frame(g, "loop", [g.constant(0)], [n, g.constant(1)])
    enter = ops.Enter(g.constant(0), frame_name="loop")
    counter = ops.Merge([enter, enter])
    frame.merges.append(counter.output)
    total, count = frame.go_on(ops.Less(counter.output, frame.constants[0]))
    frame.come_back(0, ops.Add(total, counter.value_index), [])
    frame.come_back(1, ops.Add(count, frame.constants[1]), [])
    ops.Exit(frame.switches[0].output_false, name="total")
    assert loops_written(g, ["total:0"], ["n:0"]) == 0
    for rounds in (0, 1, 2, 5):
        assert await both(g, ["total:0"], {"n:0": np.int32(rounds)}) == [max(rounds - 1, 0)]


async def test_a_loop_of_which_a_variable_waits_before_it_goes_on_is_left_alone() -> None:
    """Its control input may be dead: then the variable leaves no more, though the loop goes on."""
    g = fe.Graph()
    ops = g.ops
    n, p = g.placeholder("int32", [], name="n"), g.placeholder("bool", [], name="p")
    frame = Frame(g, "loop", [g.constant(0), g.constant(7)], [n, g.constant(1), p])
    bound, one, pred = frame.constants
    verdict = ops.LoopCond(ops.Less(frame.merges[0], bound))
    frame.switches = [ops.Switch(frame.merges[0], verdict)]
    with g.control_dependencies([ops.Identity(ops.Switch(one, pred).output_true).op]):
        frame.switches.append(ops.Switch(frame.merges[1], verdict))
    frame.come_back(0, ops.Add(frame.switches[0].output_true, one), [])
    frame.come_back(1, ops.Add(frame.switches[1].output_true, one), [])
    for name, switch in zip(("count", "value"), frame.switches, strict=True):
        ops.Exit(switch.output_false, name=name)
    assert loops_written(g, ["count:0", "value:0"], ["n:0", "p:0"]) == 0
    feeds = {"n:0": np.int32(3), "p:0": True}
    assert await both(g, ["count:0", "value:0"], feeds) == [3, 10]
    feeds["p:0"] = False
    assert await both(g, ["count:0"], feeds) == [3]
    await has_no_value(g, "value:0", feeds)
