"""A loop may become Python's only if it lives and dies as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.testing.control import conditional, while_loop


def count_to(g: fe.Graph, starts: list[Any], bound: Any, others: list[Any]) -> list[Any]:
    """The first of the variables counts; the others are multiplied with what comes from outside."""
    return while_loop(
        g,
        lambda i, *rest: g.ops.Less(i, rest[len(starts) - 1]),
        lambda i, *rest: [
            g.ops.Add(i, 1),
            *(g.ops.Mul(v, rest[-1]) for v in rest[: len(starts) - 1]),
        ],
        starts,
        invariants=[bound, *others],
    )


def lowered(g: fe.Graph, fetches: list[str], feeds: list[str]) -> bool:
    with fe.blocking.Session(g) as session:
        return "while True:" in session.explain(fetches, feeds, source=True)


def taken(g: fe.Graph, value: Any, pred: Any) -> Any:
    return g.ops.Switch(value, pred).output_true


@pytest.mark.parametrize(
    ("start", "variable", "bound", "other", "whole"),
    [
        (False, False, False, False, True),
        (True, True, True, True, True),
        (True, False, False, False, True),  # the counter decides
        (False, False, True, False, True),  # so does what it is compared with
        (False, True, False, False, False),
        (False, False, False, True, False),
        (True, False, False, True, True),  # dead as soon as the counter is
    ],
)
def test_a_loop_is_lowered_if_what_decides_is_as_dead_as_the_rest(
    start: bool, variable: bool, bound: bool, other: bool, whole: bool
) -> None:
    g = fe.Graph()
    pred = g.placeholder("bool", [], name="pred")
    x = g.placeholder("float32", [], name="x")
    n = g.placeholder("int32", [], name="n")

    def maybe(value: Any, conditionally: bool) -> Any:
        return taken(g, value, pred) if conditionally else value

    results = count_to(
        g,
        [maybe(g.constant(0), start), maybe(x, variable)],
        maybe(n, bound),
        [maybe(x, other)],
    )
    for number, result in enumerate(results):
        g.ops.Identity(result, name=f"y{number}")
    fetches = ["y0:0", "y1:0"]
    assert lowered(g, fetches, ["pred:0", "x:0", "n:0"]) == whole
    feeds: dict[str, Any] = {"pred:0": True, "x:0": np.float32(2), "n:0": np.int32(3)}
    for compiled in (True, False):
        with fe.blocking.Session(g, config=fe.Config(compile_hot_plans=compiled)) as session:
            for _ in range(12):
                assert session.run(fetches, feeds) == [3, 16.0]
            if not whole:
                assert session.run("y0:0", {**feeds, "pred:0": False}) == 3


def test_sides_of_two_predicates_may_both_be_dead() -> None:
    """The loop is the state machine's where a value comes from branches that close no conditional."""
    g = fe.Graph()
    p, q = (g.placeholder("bool", [], name=name) for name in "pq")
    x = g.placeholder("float32", [], name="x")
    n = g.placeholder("int32", [], name="n")
    for name, other in (("whole", p), ("apart", q)):
        sides = [taken(g, x, p), g.ops.Switch(x, other).output_false]
        start = g.ops.Merge(sides).output
        for number, result in enumerate(count_to(g, [g.constant(0), start], n, [x])):
            g.ops.Identity(result, name=f"{name}{number}")
    feeds = ["p:0", "q:0", "x:0", "n:0"]
    assert lowered(g, ["whole0:0", "whole1:0"], feeds)
    assert not lowered(g, ["apart0:0", "apart1:0"], feeds)
    dead = {"p:0": False, "q:0": True, "x:0": np.float32(2), "n:0": np.int32(3)}
    with fe.blocking.Session(g) as session:
        for _ in range(12):
            assert session.run(["apart0:0", "apart1:0"], {**dead, "p:0": True}) == [3, 16.0]
        assert session.run("apart0:0", dead) == 3


def test_a_loop_within_a_branch_is_lowered_with_it() -> None:
    g = fe.Graph()
    pred = g.placeholder("bool", [], name="pred")
    x = g.placeholder("float32", [], name="x")
    n = g.placeholder("int32", [], name="n")

    def branch(x: Any, n: Any) -> list[Any]:
        return [count_to(g, [g.constant(0), x], n, [x])[1]]

    (y,) = conditional(g, pred, branch, lambda x, n: [g.ops.Neg(x)], [x, n])
    g.ops.Identity(y, name="y")
    with fe.blocking.Session(g) as session:
        source = session.explain("y:0", ["pred:0", "x:0", "n:0"], source=True)
        assert source.count("while True:") == 1
        assert "if p" in source
        for _ in range(12):
            for way, want in ((True, 16.0), (False, -2.0)):
                feeds = {"pred:0": way, "x:0": np.float32(2), "n:0": np.int32(3)}
                assert session.run("y:0", feeds) == want


def test_an_enter_that_waits_for_a_branch_is_as_dead_as_the_branch() -> None:
    g = fe.Graph()
    ops = g.ops
    pred = g.placeholder("bool", [], name="pred")
    x = g.placeholder("float32", [], name="x")
    anchor = ops.Identity(taken(g, pred, pred))
    options: dict[str, Any] = {"frame_name": "loop"}
    with g.control_dependencies([anchor]):
        late = ops.Enter(x, **options)
    enters = [ops.Enter(g.constant(0), **options), late]
    merges = [ops.Merge([enter, enter]).output for enter in enters]
    three, one = (ops.Enter(g.constant(c), is_constant=True, **options) for c in (3, 1))
    goes_on = ops.LoopCond(ops.Less(merges[0], three))
    switches = [ops.Switch(merge, goes_on) for merge in merges]
    following = [ops.Add(switches[0].output_true, one), ops.Tanh(switches[1].output_true)]
    for merge, value in zip(merges, following, strict=True):
        g.set_back_edge(merge, 1, ops.NextIteration(value))
    for number, switch in enumerate(switches):
        ops.Exit(switch.output_false, name=f"y{number}")
    assert not lowered(g, ["y0:0", "y1:0"], ["pred:0", "x:0"])


@pytest.mark.parametrize("form", ["enters once", "waits for what enters once", "comes back"])
def test_what_runs_in_some_rounds_only_stays_with_the_state_machine(form: str) -> None:
    g = fe.Graph()
    ops = g.ops
    variable = ops.VarHandleOp(dtype="int32", shape=[], shared_name="v", name="v")
    ops.AssignVariableOp(variable, 0, name="init")
    ops.ReadVariableOp(variable, dtype="int32", name="read")
    enter = ops.Enter(g.constant(0), frame_name="loop")
    three, one, handle = (
        ops.Enter(c, frame_name="loop", is_constant=True) for c in (g.constant(3), g.constant(1), variable)
    )
    i = ops.Merge([enter, enter]).output
    out, inside = ops.Switch(i, ops.LoopCond(ops.Less(i, three)))
    back = ops.NextIteration(ops.Add(inside, one))
    g.set_back_edge(i, 1, back)
    if form == "enters once":
        ops.AssignAddVariableOp(handle, ops.Add(enter, one), name="effect")
        times = 1
    elif form == "waits for what enters once":
        with g.control_dependencies([enter]):
            ops.AssignAddVariableOp(handle, one, name="effect")
        times = 1
    else:
        with g.control_dependencies([back]):
            ops.AssignAddVariableOp(handle, one, name="effect")
        times = 3
    ops.Exit(out, name="y")
    assert lowered(g, ["y:0"], [])
    for compiled in (True, False):
        with fe.blocking.Session(g, config=fe.Config(compile_hot_plans=compiled)) as session:
            for _ in range(12):
                session.run([], targets=["init"])
                assert session.run("y:0", targets=["effect"]) == 3
                assert session.run("read:0") == times
