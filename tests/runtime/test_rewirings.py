"""Malformed loops: each gives what the reference interpreter gives, or an error that names what is wrong."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.ir.graph import OutputPort
from flowengine.kernels.load import load_all
from flowengine.passes.context import PassContext
from flowengine.passes.simplify.prune import prune
from flowengine.runtime.failures import cannot_go_on
from flowengine.runtime.planning.planner import make_plan
from flowengine.runtime.state import ExecutorState
from flowengine.testing.reference import evaluate
from tests.runtime.rewirings import FETCHES, RECORDED, Rewiring, draw, loops, rewired


class PassingClock(trio.abc.Clock):
    """Time is how often it was looked at, so that a loop that never ends meets its deadline anywhere."""

    def __init__(self) -> None:
        self._now = 0.0

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        self._now += 0.001
        return self._now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return 0.0


def answer(graph: fe.Graph, fetch: Any) -> Any:
    """The value of a fetch, or the error; any that is not ours is raised."""

    async def main() -> Any:
        async with fe.Session(graph) as session:
            return await session.run(fetch, options=fe.RunOptions(timeout_seconds=0.1))

    try:
        return trio.run(main, clock=PassingClock())
    except fe.errors.InternalError:
        raise
    except fe.errors.OpError as error:
        return error


def led_elsewhere(rewiring: Rewiring) -> fe.Graph | None:
    """The graph with one edge led elsewhere; None if it cannot even be imported."""
    try:
        return fe.Graph.from_graph_def(rewired(loops().to_graph_def(), rewiring).SerializeToString())
    except fe.errors.InvalidArgumentError:
        return None


@pytest.mark.parametrize("seed", range(8))
def test_every_rewiring_gives_the_reference_s_value_or_an_error_of_ours(seed: int) -> None:
    values = 0
    for rewiring in draw(loops(), 25, seed):
        graph = led_elsewhere(rewiring)
        if graph is None:
            continue
        for fetch in FETCHES:
            got = answer(graph, fetch)
            if isinstance(got, fe.errors.OpError):
                continue
            # The rest of the graph may be malformed: it is not asked for.
            pruned = prune(graph, PassContext(feeds=(), fetches=(OutputPort(fetch.partition(":")[0], 0),)))
            assert got == evaluate(pruned, [fetch])[0], f"{rewiring}, {fetch}"
            values += 1
    assert values


def test_what_tensorflow_gives_a_value_for_has_that_value_here() -> None:
    recorded = json.loads(RECORDED.read_text())
    assert len(recorded) == 200
    for node, place, source, answers in recorded:
        if not any(isinstance(there, float) for there in answers.values()):
            continue
        graph = led_elsewhere(Rewiring(node, place, source))
        for fetch, there in answers.items():
            if not isinstance(there, float):
                continue
            here = None if graph is None else answer(graph, fetch)
            # TensorFlow gives what such a tensor is in iteration 0.
            if not isinstance(here, fe.errors.OpError) or "cannot be fetched: it belongs" not in str(here):
                assert here == np.float32(there), f"input {place} of {node} from {source}: {fetch}"


def _count_to(g: fe.Graph, limit: int) -> tuple[Any, Any, Any]:
    """(the Enter, the Merge, the Switch) of a loop over 0, 1, ... with the name `loop`."""
    ops = g.ops
    enter = ops.Enter(g.constant(0.0), frame_name="loop", name="enter")
    upto = ops.Enter(g.constant(float(limit)), frame_name="loop", is_constant=True, name="upto")
    one = ops.Enter(g.constant(1.0), frame_name="loop", is_constant=True, name="one")
    merge = ops.Merge([enter, enter], name="merge").output
    switch = ops.Switch(merge, ops.LoopCond(ops.Less(merge, upto)), name="switch")
    g.set_back_edge(merge, 1, ops.NextIteration(ops.Add(switch.output_true, one)))
    return enter, merge, switch


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_an_exit_that_is_live_in_each_iteration_gives_its_first_value(limit: int) -> None:
    """Its consumers wait for one token: a second one is not counted, whatever else they wait for."""
    g = fe.Graph()
    _, merge, switch = _count_to(g, limit)
    end = g.ops.Exit(switch.output_false, name="end")
    each = g.ops.Exit(merge, name="each")
    both = g.ops.Sub(each, end, name="both")
    again = g.ops.Exit(switch.output_true, name="again")
    results = answer(g, [each.name, both.name, again.name])
    assert list(results) == [0, -limit, 0]


@pytest.mark.parametrize("op", ["Exit", "NextIteration"])
def test_what_belongs_into_a_loop_names_itself_outside_of_any(op: str) -> None:
    g = fe.Graph()
    end = g.create_op(op, [g.constant(1.0)], {}, "end")
    g.ops.Neg(end.outputs[0], name="behind")
    error = answer(g, "behind:0")
    assert isinstance(error, fe.errors.InvalidArgumentError)
    assert f"{op} 'end' is not inside a loop: no Enter leads to it" in str(error)


def test_an_enter_from_another_frame_names_both_frames_and_the_edge() -> None:
    g = fe.Graph()
    _, merge, switch = _count_to(g, 3)
    strange = g.ops.Enter(merge, frame_name="other", name="strange")
    g.ops.Exit(g.ops.Add(strange, switch.output_false, name="mixed"), name="end")
    error = answer(g, "end:0")
    assert isinstance(error, fe.errors.InvalidArgumentError)
    for part in ("'mixed' has inputs from two frames", "frame 'loop/other'", "frame 'loop'", "'strange'"):
        assert part in str(error)


def _with_an_inner_loop_that_never_ends_its_first_iteration(limit: int) -> fe.Graph:
    """The input of one of the inner loop's Enters is there in iteration 0 of the outer loop alone."""
    g = fe.Graph()
    ops = g.ops
    enter, _, switch = _count_to(g, limit)
    ops.Exit(switch.output_false, name="counted")
    late = ops.Enter(ops.Neg(enter, name="once"), frame_name="inner", name="late")
    always = ops.Enter(switch.output_true, frame_name="inner", name="always")
    for name, tensor in (("first", late), ("second", always)):
        ops.Exit(ops.Exit(ops.Merge([tensor, tensor]).output), name=name)
    return g


def test_a_loop_that_never_ends_its_first_iteration_is_no_harm_where_all_fetches_have_come() -> None:
    g = _with_an_inner_loop_that_never_ends_its_first_iteration(3)
    assert list(answer(g, ["first:0", "second:0", "counted:0"])) == [0, 0, 3]


def test_a_loop_that_waits_for_an_enter_for_ever_says_which() -> None:
    """As many iterations as may be alive at a time wait for the inner loop, and so no more begin."""
    g = _with_an_inner_loop_that_never_ends_its_first_iteration(30)
    error = answer(g, ["first:0", "second:0", "counted:0"])
    assert isinstance(error, fe.errors.InvalidArgumentError)
    assert "Retval: tensor 'counted:0' has no value: frame 'loop/inner' waits for Enter 'late'" in str(error)
    assert "'once:0', which nothing brings any more in iteration 1 of frame 'loop'" in str(error)


def test_a_step_that_cannot_go_on_names_what_waits_and_for_what() -> None:
    """No graph is known that leads there: a ready item is lost on purpose."""
    g = fe.Graph()
    x = g.placeholder("float32", [], name="x")
    g.ops.Add(g.ops.Neg(x, name="minus"), g.ops.Exp(x, name="power"), name="sum")
    fetch = OutputPort("sum", 0)
    fed = (OutputPort("x", 0),)
    plan = make_plan(
        prune(g, PassContext(feeds=fed, fetches=(fetch,))), feeds=fed, fetches=(fetch,), registry=load_all()
    )
    state = ExecutorState(plan.root)
    state.start(plan.sources, plan.feeds, [np.float32(1)], plan.constants)
    item, iteration = state.ready.pop()[2:]
    state.finish_single(item, iteration, np.float32(1))
    other = state.ready.pop()[2]
    error = cannot_go_on(plan, state)
    assert isinstance(error, fe.errors.InternalError)
    assert f"Add 'sum' in the root frame awaits '{other.name}:0'" in str(error)


def _print_what_tensorflow_is_asked() -> None:
    graph = loops()
    print(
        json.dumps(
            {
                "graph": base64.b64encode(graph.to_graph_def().SerializeToString()).decode(),
                "fetches": FETCHES,
                "rewirings": draw(graph, 200, seed=0),
            }
        )
    )


if __name__ == "__main__":
    _print_what_tensorflow_is_asked()
