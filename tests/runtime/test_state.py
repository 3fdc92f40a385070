"""The state machine alone: frames, iterations and dead tokens by plain calls, no trio."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.graphs.tensor import Tensor
from flowengine.ir.graph import OutputPort
from flowengine.kernels.load import load_all
from flowengine.passes.context import PassContext
from flowengine.passes.simplify.prune import prune
from flowengine.runtime.frames import IterationState
from flowengine.runtime.planning.items import Item, Kind
from flowengine.runtime.planning.plan import Plan
from flowengine.runtime.planning.planner import make_plan
from flowengine.runtime.prepared_start import take_results
from flowengine.runtime.state import ExecutorState


class Hand:
    """Runs a plan by hand, one item at a time, and remembers what ran."""

    def __init__(
        self, graph: fe.Graph, fetches: Sequence[Tensor], feeds: dict[str, Any] | None = None
    ) -> None:
        given = feeds or {}
        fed = tuple(OutputPort(name, 0) for name in given)
        wanted = tuple(OutputPort(t.op.name, t.slot) for t in fetches)
        pruned = prune(graph, PassContext(feeds=fed, fetches=wanted))
        self.plan: Plan = make_plan(pruned, feeds=fed, fetches=wanted, registry=load_all())
        self.state = ExecutorState(self.plan.root)
        plan = self.plan
        self.state.start(plan.sources, plan.feeds, list(given.values()), plan.constants)
        #: (name, tag, whether it was dead)
        self.log: list[tuple[str, tuple[tuple[str, int], ...], bool]] = []
        self.alive_most = 0

    def step(self) -> bool:
        entry = self.state.take_ready()
        if entry is None:
            return False
        item, iteration = entry
        self.alive_most = max(self.alive_most, len(iteration.frame.iterations))
        dead = self.state.is_dead(item, iteration) and not item.runs_dead
        self.log.append((item.name, iteration.tag(), dead))
        if dead:
            self.state.finish_dead(item, iteration)
        else:
            self.run(item, iteration)
        return True

    def run(self, item: Item, iteration: IterationState) -> None:
        args = iteration.entries[item.start : item.stop]
        state = self.state
        if item.kind == Kind.SWITCH:
            state.finish_switch(item, iteration, args[0], int(bool(args[1])))
        elif item.kind == Kind.MERGE:
            state.finish_merge(item, iteration)
        elif item.kind == Kind.ENTER:
            state.finish_enter(item, iteration, args[0])
        elif item.kind == Kind.EXIT:
            state.finish_exit(item, iteration, args[0])
        elif item.kind == Kind.NEXT_ITERATION:
            state.finish_next_iteration(item, iteration, args[0])
        elif item.kind == Kind.FORWARD:
            state.finish_single(item, iteration, args[0])
        elif item.kind == Kind.CONSTANT:
            state.finish_single(item, iteration, item.value)
        elif item.kind == Kind.TRIGGER:
            state.finish(item, iteration, ())
        else:
            state.finish_single(item, iteration, item.function(*args))

    def all(self) -> list[Any]:
        while self.step():
            pass
        assert self.state.done
        return take_results(self.plan, self.state.root)

    def ran(self, name: str) -> list[tuple[tuple[tuple[str, int], ...], bool]]:
        return [(tag, dead) for n, tag, dead in self.log if n == name]


def while_loop(
    graph: fe.Graph, limit: int, start: Any, *, frame: str = "loop", parallel_iterations: int = 10
) -> tuple[Tensor, Tensor]:
    """`i < limit: i += 1, total += i` from (0, start); returns the two Exits."""
    ops = graph.ops
    enter_i = ops.Enter(graph.constant(0), frame_name=frame, parallel_iterations=parallel_iterations)
    enter_t = ops.Enter(start, frame_name=frame, parallel_iterations=parallel_iterations)
    bound = ops.Enter(
        graph.constant(limit), frame_name=frame, is_constant=True, parallel_iterations=parallel_iterations
    )
    i = ops.Merge([enter_i, enter_i])[0]
    total = ops.Merge([enter_t, enter_t])[0]
    cond = ops.LoopCond(ops.Less(i, bound))
    i_out, i_in = ops.Switch(i, cond)
    t_out, t_in = ops.Switch(total, cond)
    with graph.control_dependencies([i_in]):
        one = graph.constant(1)
    next_i = ops.Add(i_in, one)
    back_i = ops.NextIteration(next_i)
    back_t = ops.NextIteration(ops.Add(t_in, next_i, name="accumulate"))
    graph.set_back_edge(i.op.name, 1, OutputPort(back_i.op.name, 0))
    graph.set_back_edge(total.op.name, 1, OutputPort(back_t.op.name, 0))
    return ops.Exit(i_out), ops.Exit(t_out)


def test_a_chain_runs_in_construction_order() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [], name="x")
    a = graph.ops.Neg(x, name="a")
    b = graph.ops.Neg(x, name="b")
    c = graph.ops.Add(b, a, name="c")
    hand = Hand(graph, [c], {"x": np.float32(2)})
    assert hand.all() == [-4]
    assert [name for name, _, _ in hand.log] == ["a", "b", "c"]


def test_a_loop_gives_its_last_values() -> None:
    graph = fe.Graph()
    i, total = while_loop(graph, 5, graph.constant(100))
    assert Hand(graph, [i, total]).all() == [5, 115]


def test_a_loop_that_never_runs_gives_what_entered() -> None:
    graph = fe.Graph()
    i, total = while_loop(graph, 0, graph.constant(7))
    hand = Hand(graph, [i, total])
    assert hand.all() == [0, 7]
    assert hand.ran("accumulate") == [((("loop", 0),), True)]


def test_every_iteration_has_its_own_tag() -> None:
    graph = fe.Graph()
    _, total = while_loop(graph, 3, graph.constant(0))
    hand = Hand(graph, [total])
    hand.all()
    live = [tag for tag, dead in hand.ran("accumulate") if not dead]
    assert live == [(("loop", 0),), (("loop", 1),), (("loop", 2),)]


@pytest.mark.parametrize("parallel_iterations", [1, 2, 5])
def test_no_more_iterations_live_than_are_allowed(parallel_iterations: int) -> None:
    graph = fe.Graph()
    _, total = while_loop(graph, 20, graph.constant(0), parallel_iterations=parallel_iterations)
    hand = Hand(graph, [total])
    assert hand.all() == [210]
    assert hand.alive_most <= parallel_iterations


def test_iterations_are_freed_as_they_are_done() -> None:
    graph = fe.Graph()
    _, total = while_loop(graph, 50, graph.constant(0), parallel_iterations=3)
    hand = Hand(graph, [total])
    assert hand.all() == [1275]
    assert not hand.state.frames


def test_a_loop_inside_a_loop_has_a_frame_for_each_outer_iteration() -> None:
    graph = fe.Graph()
    ops = graph.ops
    enter_i = ops.Enter(graph.constant(0), frame_name="outer")
    enter_s = ops.Enter(graph.constant(0), frame_name="outer")
    bound = ops.Enter(graph.constant(3), frame_name="outer", is_constant=True)
    i = ops.Merge([enter_i, enter_i])[0]
    s = ops.Merge([enter_s, enter_s])[0]
    cond = ops.LoopCond(ops.Less(i, bound))
    _, i_in = ops.Switch(i, cond)
    s_out, s_in = ops.Switch(s, cond)
    with graph.control_dependencies([i_in]):
        one, zero, two = graph.constant(1), graph.constant(0), graph.constant(2)
    # Inside: j < 2, sum += 1.
    inner = "inner"
    ej = ops.Enter(zero, frame_name=inner)
    es = ops.Enter(s_in, frame_name=inner)
    eb = ops.Enter(two, frame_name=inner, is_constant=True)
    e1 = ops.Enter(one, frame_name=inner, is_constant=True)
    j = ops.Merge([ej, ej])[0]
    t = ops.Merge([es, es])[0]
    inner_cond = ops.LoopCond(ops.Less(j, eb))
    _, j_in = ops.Switch(j, inner_cond)
    t_out, t_in = ops.Switch(t, inner_cond)
    back_j = ops.NextIteration(ops.Add(j_in, e1))
    back_t = ops.NextIteration(ops.Add(t_in, e1, name="count"))
    graph.set_back_edge(j.op.name, 1, OutputPort(back_j.op.name, 0))
    graph.set_back_edge(t.op.name, 1, OutputPort(back_t.op.name, 0))
    inner_sum = ops.Exit(t_out)
    back_i = ops.NextIteration(ops.Add(i_in, one))
    back_s = ops.NextIteration(inner_sum)
    graph.set_back_edge(i.op.name, 1, OutputPort(back_i.op.name, 0))
    graph.set_back_edge(s.op.name, 1, OutputPort(back_s.op.name, 0))
    hand = Hand(graph, [ops.Exit(s_out)])
    assert hand.all() == [6]
    live = {tag for tag, dead in hand.ran("count") if not dead}
    assert live == {(("outer", o), ("inner", n)) for o in range(3) for n in range(2)}


def test_a_conditional_runs_one_side_only() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [], name="x")
    p = graph.placeholder("bool", [], name="p")
    off, on = graph.ops.Switch(x, p)
    left = graph.ops.Neg(off, name="left")
    right = graph.ops.Square(on, name="right")
    value, index = graph.ops.Merge([left, right])
    for taken in (False, True):
        hand = Hand(graph, [value, index], {"x": np.float32(3), "p": np.bool_(taken)})
        assert hand.all() == [9 if taken else -3, int(taken)]
        assert hand.ran("left") == [((), taken)]
        assert hand.ran("right") == [((), not taken)]


def test_deadness_goes_along_control_edges_but_not_into_a_merge() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [], name="x")
    p = graph.placeholder("bool", [], name="p")
    off, on = graph.ops.Switch(x, p)
    left = graph.ops.Neg(off, name="left")
    right = graph.ops.Neg(on, name="right")
    with graph.control_dependencies([left]):
        after = graph.ops.Square(x, name="after")
        value, _ = graph.ops.Merge([right, after], name="merge")
    hand = Hand(graph, [value], {"x": np.float32(3), "p": np.bool_(True)})
    assert hand.all() == [-3]
    assert hand.ran("after") == [((), True)]


def test_a_dead_loop_ends_and_gives_dead() -> None:
    graph = fe.Graph()
    x = graph.placeholder("int32", [], name="x")
    p = graph.placeholder("bool", [], name="p")
    off, on = graph.ops.Switch(x, p)
    _, total = while_loop(graph, 3, on)
    value, index = graph.ops.Merge([graph.ops.Neg(off), total])
    assert Hand(graph, [value, index], {"x": np.int32(4), "p": np.bool_(False)}).all() == [-4, 0]
    assert Hand(graph, [value, index], {"x": np.int32(4), "p": np.bool_(True)}).all() == [10, 1]


def test_fetching_a_dead_value_names_the_tensor() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [], name="x")
    p = graph.placeholder("bool", [], name="p")
    _, on = graph.ops.Switch(x, p, name="fork")
    with pytest.raises(fe.errors.InvalidArgumentError, match=r"fork:1.*not taken"):
        Hand(graph, [on], {"x": np.float32(3), "p": np.bool_(False)}).all()


def test_a_control_trigger_runs_although_its_input_is_dead() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [], name="x")
    p = graph.placeholder("bool", [], name="p")
    _, on = graph.ops.Switch(x, p)
    dead = graph.ops.Neg(on, name="dead")
    with graph.control_dependencies([dead]):
        trigger = graph.ops.ControlTrigger(name="trigger")
    with graph.control_dependencies([trigger]):
        after = graph.ops.Neg(x, name="after")
    hand = Hand(graph, [after], {"x": np.float32(3), "p": np.bool_(False)})
    assert hand.all() == [-3]
    assert hand.ran("trigger") == [((), False)]


@pytest.mark.parametrize("runs", [False, True])
def test_what_runs_dead_or_live_runs_behind_a_loop_in_either_case(runs: bool) -> None:
    """A dead loop gives its dead tokens when it is over: a Send to another device would wait for them."""
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("int32", [], name="x")
    p = graph.placeholder("bool", [], name="p")
    # Its one variable is dead: a loop with a live one goes round, and what is dead in it never comes out.
    enter = ops.Enter(ops.Switch(x, p).output_true, frame_name="loop")
    bound = ops.Enter(graph.constant(10), frame_name="loop", is_constant=True)
    value = ops.Merge([enter, enter])[0]
    last, going = ops.Switch(value, ops.LoopCond(ops.Less(value, bound)))
    back = ops.NextIteration(ops.Add(going, going))
    graph.set_back_edge(value.op.name, 1, OutputPort(back.op.name, 0))
    total = ops.Exit(last)
    behind = ops.Neg(total, name="behind")
    with graph.control_dependencies([behind]):
        trigger = ops.ControlTrigger(name="trigger")
    with graph.control_dependencies([trigger]):
        after = ops.Neg(x, name="after")
    hand = Hand(graph, [after], {"x": np.int32(4), "p": np.bool_(runs)})
    assert hand.all() == [-4]
    assert hand.ran("behind") == [((), not runs)]
    assert hand.ran("trigger") == [((), False)]


def test_a_constant_enter_that_arrives_last_reaches_every_iteration() -> None:
    graph = fe.Graph()
    late = graph.ops.Neg(graph.ops.Neg(graph.placeholder("int32", [], name="late")))
    ops = graph.ops
    enter = ops.Enter(graph.constant(0), frame_name="loop")
    i = ops.Merge([enter, enter])[0]
    bound = ops.Enter(late, frame_name="loop", is_constant=True)
    out, into = ops.Switch(i, ops.LoopCond(ops.Less(i, bound)))
    step = ops.Enter(graph.constant(1), frame_name="loop", is_constant=True)
    back = ops.NextIteration(ops.Add(into, step))
    graph.set_back_edge(i.op.name, 1, OutputPort(back.op.name, 0))
    assert Hand(graph, [ops.Exit(out)], {"late": np.int32(4)}).all() == [4]


@pytest.mark.parametrize("taken", [False, True])
@pytest.mark.parametrize("waits", [False, True])
def test_a_merge_gets_the_dead_tokens_of_the_sides_that_switches_do_not_take(
    taken: bool, waits: bool
) -> None:
    """With a control edge or without, its dead inputs are counted: here they come from live Switches."""
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [], name="x")
    p = graph.placeholder("bool", [], name="p")
    first = ops.Neg(x, name="first")
    off, on = ops.Switch(x, p)
    _, also_on = ops.Switch(x, p)
    with graph.control_dependencies([first] if waits else []):
        inner, _ = ops.Merge([on, also_on], name="inner")
    ops.Neg(inner, name="behind")
    last, which = ops.Merge([graph.tensor("behind:0"), ops.Square(off)], name="last")
    hand = Hand(graph, [last, which], {"x": np.float32(3), "p": np.bool_(taken)})
    assert hand.all() == [-3 if taken else 9, int(not taken)]
    assert hand.ran("behind") == [((), not taken)]


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("number", [0, 1, 15, 16, 17, 40])
def test_a_merge_says_which_of_many_inputs_came(number: int, waits: bool) -> None:
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [], name="x")
    which = graph.placeholder("int32", [], name="which")
    first = ops.Neg(x, name="first")
    inputs = []
    for each in range(41):
        _, on = ops.Switch(x, ops.Equal(which, graph.constant(each)))
        inputs.append(ops.Mul(on, graph.constant(np.float32(each))))
    with graph.control_dependencies([first] if waits else []):
        value, index = ops.Merge(inputs)
    got = Hand(graph, [value, index], {"x": np.float32(2), "which": np.int32(number)}).all()
    assert got == [2 * number, number]
    assert got[1].dtype == np.int32
