"""Leavings of a cancelled step: drawn programs of effects, drawn moments, both tiers.

A program is some lanes that know nothing of each other. A lane is a chain of effects on a variable and two
queues of its own, each after the one before: straight ones, loops of them, conditionals, and waits for a
queue that may never be filled. A last effect waits for all lanes. Whatever the moment, each lane must have
stopped between two of its effects, and the last one may only be there if nothing is missing: a step run node
by node leaves nothing else, and neither may one that runs as generated loops.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.runtime import ready_loop, resumable_blocks, turn_queue
from flowengine.runtime.planning import tiers
from flowengine.testing.control import conditional, while_loop

#: (what it does, a number): see `Lane.effects`.
Statement = tuple[str, int]


@dataclass(frozen=True)
class Lane:
    statements: tuple[Statement, ...]
    #: Numbers that wait in its source when the step begins; a lane that wants more can only be cancelled.
    supply: int

    def effects(self) -> list[Statement]:
        """Each effect by itself, in order."""
        result: list[Statement] = []
        for what, number in self.statements:
            if what in ("add", "put"):
                result.append((what, number))
            elif what == "take":
                taken = sum(done == "take" for done, _ in result)
                result += [("take", 1), ("add", taken)]
            elif what == "loop":
                for i in range(number):
                    result += [("add", i), ("add", 1)]
            elif what == "mixed loop":
                for i in range(number):
                    result += [("put", i), ("add", 1)]
            else:
                for i in range(number):
                    result.append(("add", 2 if i % 2 else 5))
        return result

    @property
    def ends(self) -> bool:
        return sum(what == "take" for what, _ in self.effects()) <= self.supply

    def leavings(self) -> list[tuple[int, tuple[int, ...], int]]:
        """(the variable, the sink's numbers, numbers taken from the source) after each of its effects."""
        total, taken = 0, 0
        sunk: tuple[int, ...] = ()
        states = [(total, sunk, taken)]
        for what, number in self.effects():
            if what == "take" and taken == self.supply:
                break
            if what == "add":
                total += number
            elif what == "put":
                sunk = (*sunk, number)
            else:
                taken += 1
            states.append((total, sunk, taken))
        return states


def build(lanes: Sequence[Lane]) -> fe.Graph:
    g = fe.Graph()
    ops = g.ops
    inits, lasts = [], []
    for number, lane in enumerate(lanes):
        total = ops.VarHandleOp(dtype="int32", shape=[], shared_name=f"total{number}")
        inits.append(ops.AssignVariableOp(total, 0))
        ops.ReadVariableOp(total, dtype="int32", name=f"total{number}/read")
        source, sink = (
            ops.FIFOQueueV2(component_types=["int32"], shapes=[[]], shared_name=f"{kind}{number}")
            for kind in ("source", "sink")
        )
        with g.name_scope(f"lane{number}"):
            ops.QueueEnqueueManyV2(source, [g.placeholder("int32", [None], name="numbers")], name="fill")
            for kind, queue in (("source", source), ("sink", sink)):
                size = ops.QueueSizeV2(queue, name=f"{kind}_size")
                ops.QueueDequeueManyV2(queue, size, component_types=["int32"], name=f"{kind}_drain")
            lasts.append(_lane(g, lane, total, source, sink))
    ended = ops.VarHandleOp(dtype="int32", shape=[], shared_name="ended")
    inits.append(ops.AssignVariableOp(ended, 0))
    ops.ReadVariableOp(ended, dtype="int32", name="ended/read")
    g.group(*inits, name="init")
    with g.control_dependencies(lasts):
        ops.AssignAddVariableOp(ended, 1, name="step")
    return g


def _lane(g: fe.Graph, lane: Lane, total: Any, source: Any, sink: Any) -> Any:
    ops = g.ops
    last = g.group(name="begin")
    for what, number in lane.statements:
        with g.control_dependencies([last]):
            value = g.constant(number)
            if what == "add":
                last = ops.AssignAddVariableOp(total, value)
                continue
            if what == "put":
                last = ops.QueueEnqueueV2(sink, [value])
                continue
            if what == "take":
                taken = ops.QueueDequeueV2(source, component_types=["int32"])[0]
                last = ops.AssignAddVariableOp(total, taken)
                continue
            zero = g.constant(0)
        body = {"loop": _adds, "mixed loop": _puts, "conditional loop": _chooses}[what]
        (after,) = while_loop(
            g,
            lambda i, n, *_: ops.Less(i, n),
            lambda i, n, total, sink, body=body: [body(g, i, total, sink)],
            [zero],
            invariants=[value, total, sink],
        )
        last = after.op
    return last


def _adds(g: fe.Graph, i: Any, total: Any, sink: Any) -> Any:
    with g.control_dependencies([g.ops.AssignAddVariableOp(total, i)]):
        one = g.constant(1)
    with g.control_dependencies([g.ops.AssignAddVariableOp(total, one)]):
        return g.ops.Add(i, 1)


def _puts(g: fe.Graph, i: Any, total: Any, sink: Any) -> Any:
    with g.control_dependencies([g.ops.QueueEnqueueV2(sink, [i])]):
        one = g.constant(1)
    with g.control_dependencies([g.ops.AssignAddVariableOp(total, one)]):
        return g.ops.Add(i, 1)


def _chooses(g: fe.Graph, i: Any, total: Any, sink: Any) -> Any:
    def add(number: int) -> Any:
        def branch(total: Any, i: Any) -> list[Any]:
            with g.control_dependencies([g.ops.AssignAddVariableOp(total, number)]):
                return [g.ops.Add(i, 1)]

        return branch

    (following,) = conditional(g, g.ops.Equal(g.ops.FloorMod(i, 2), 1), add(2), add(5), [total, i])
    return following


async def snapshot(session: fe.Session, lanes: Sequence[Lane]) -> tuple[int, list[Any]]:
    """(the last effect's variable, what each lane has left), which empties the queues."""
    states = []
    for number, lane in enumerate(lanes):
        scope = f"lane{number}"
        total = int(await session.run(f"total{number}/read:0"))
        sunk = (await session.run(f"{scope}/sink_drain:0")).tolist()
        rest = (await session.run(f"{scope}/source_drain:0")).tolist()
        assert rest == list(range(lane.supply))[lane.supply - len(rest) :]
        states.append((total, tuple(sunk), lane.supply - len(rest)))
    return int(await session.run("ended/read:0")), states


async def run_cancelled(
    session: fe.Session, run_step: Callable[[], Awaitable[Any]], lanes: Sequence[Lane], moment: int | None
) -> bool:
    """A step from the beginning, cancelled when the host has had so many turns. Whether it was.

    run_step   runs it, without having to plan it first
    moment   None: when there is nothing more that it could do
    """
    await session.run("init")
    for number, lane in enumerate(lanes):
        numbers = np.arange(lane.supply, dtype=np.int32)
        await session.run([], {f"lane{number}/numbers:0": numbers}, targets=[f"lane{number}/fill"])
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def step() -> None:
                await run_step()
                nursery.cancel_scope.cancel()

            nursery.start_soon(step)
            if moment is None:
                await trio.testing.wait_all_tasks_blocked()
            for _ in range(moment or 0):
                await trio.lowlevel.checkpoint()
            scope.cancel()
    return scope.cancelled_caught


@contextlib.contextmanager
def finest_slices() -> Iterator[None]:
    """Every item and every round of a generated loop gives the host its turn."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiers, "HOT_RUNS", 0)
        patch.setattr(turn_queue, "SLICE_SECONDS", -1.0)
        patch.setattr(ready_loop, "ITEMS_PER_CLOCK", 1)
        patch.setattr(resumable_blocks, "_MASK_MAX", 0)
        yield


statements = st.one_of(
    st.tuples(st.sampled_from(["add", "put"]), st.integers(1, 9)),
    st.tuples(st.just("take"), st.just(0)),
    st.tuples(st.sampled_from(["loop", "mixed loop", "conditional loop"]), st.integers(0, 4)),
)
lanes_drawn = st.lists(
    st.builds(Lane, st.lists(statements, min_size=1, max_size=5).map(tuple), st.integers(0, 3)),
    min_size=1,
    max_size=3,
)


@pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "compiled"])
@given(lanes=lanes_drawn, moments=st.lists(st.integers(0, 150), min_size=1, max_size=4))
def test_a_cancelled_step_stops_each_lane_between_two_effects(
    compiled: bool, lanes: list[Lane], moments: list[int]
) -> None:
    async def main() -> None:
        allowed = [lane.leavings() for lane in lanes]
        whole = [states[-1] for states in allowed]
        ends = all(lane.ends for lane in lanes)
        graph = build(lanes)
        async with fe.Session(graph, config=fe.Config(compile_hot_plans=compiled)) as session:
            run_step = session.make_callable("step")
            ended, states = 0, [(0, (), 0)]
            for moment in [*moments, None]:
                was_cancelled = await run_cancelled(session, run_step, lanes, moment)
                ended, states = await snapshot(session, lanes)
                for state, among in zip(states, allowed, strict=True):
                    assert state in among
                if ended:
                    assert ends
                    assert states == whole
                assert was_cancelled or ended
            # Nothing is left over that could hold up or change the next step.
            assert ended == ends
            assert states == whole

    with finest_slices():
        trio.run(main)


async def test_the_drawn_loops_are_generated_and_stopped_in_their_midst() -> None:
    """That the property looks at what it is about.

    Trio lets the tasks of a turn run in an order of chance, so that one more or less of a loop's rounds falls
    between two moments: there are many more rounds here than stops are asked for.
    """
    lanes = [Lane((("loop", 30), ("conditional loop", 30)), 0)]
    after_first = lanes[0].leavings()[60][0]
    graph = build(lanes)
    seen = set()
    with finest_slices():
        async with fe.Session(graph) as session:
            assert session.explain([], targets=["step"], source=True).count("while True:") == 2
            run_step = session.make_callable("step")
            for moment in range(80):
                await run_cancelled(session, run_step, lanes, moment)
                _, ((total, _, _),) = await snapshot(session, lanes)
                seen.add(total)
    last = lanes[0].leavings()[-1][0]
    assert sum(0 < total < after_first for total in seen) > 8
    assert sum(after_first < total < last for total in seen) > 8
