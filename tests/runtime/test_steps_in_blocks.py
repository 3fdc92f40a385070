"""Blocks that are lists of kernels give what their members give one by one, wherever they have to stop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trio
import trio.testing
from hypothesis import given, settings

import flowengine as fe
from flowengine.kernels.load import load_all
from flowengine.resources.variable import Variable
from flowengine.runtime import list_body, turn_queue
from flowengine.runtime.blocks import BlockRunner
from flowengine.runtime.external_work import StepDoors
from flowengine.runtime.list_body import open_block
from flowengine.runtime.planning.cold_blocks import in_blocks
from flowengine.runtime.planning.items import Kind
from flowengine.runtime.planning.plan import Plan
from flowengine.runtime.planning.planner import make_plan
from flowengine.runtime.state import ExecutorState
from flowengine.runtime.step import StepRunner
from flowengine.runtime.token_propagation import deliver_dead
from flowengine.testing.strategies import GraphCase, graphs
from tests.runtime.planning.test_tiers import GRAPHS, play


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """The plans in blocks that steps of this process ran."""
    return in_blocks_wherever_they_can_be(monkeypatch)


def in_blocks_wherever_they_can_be(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    ran: list[Plan] = []
    run = StepRunner.run

    async def run_in_blocks(self: StepRunner, plan: Plan, *rest: Any) -> list[Any]:
        blocks = in_blocks(plan, *plan.handles.start(plan.root, plan.sources, self.resources))
        if blocks is not None:
            ran.append(blocks)
        return await run(self, plan if blocks is None else blocks, *rest)

    monkeypatch.setattr(StepRunner, "run", run_in_blocks)
    return ran


@pytest.mark.parametrize("worth_threads", [False, True])
@settings(max_examples=GRAPHS)
@given(case=graphs())
def test_random_graphs_give_the_same_bits_and_state(case: GraphCase, worth_threads: bool) -> None:
    one_by_one = trio.run(lambda: play(case, compiled=False))
    with pytest.MonkeyPatch.context() as patch:
        in_blocks_wherever_they_can_be(patch)
        if worth_threads:
            # Each second member is: its block is opened there.
            asked = iter([False, True] * 10**6)
            patch.setattr(StepDoors, "is_worth_thread", lambda *_: next(asked))
        assert trio.run(lambda: play(case, compiled=False)) == one_by_one


def ladder(rungs: int) -> fe.Graph:
    g = fe.Graph()
    value = g.placeholder("float32", [], name="x")
    for number in range(rungs):
        value = g.ops.Add(g.ops.Neg(value), g.constant(np.float32(1)), name=f"rung{number}")
    return g


async def test_a_block_is_one_item_and_what_waits_for_the_same(plans: list[Plan]) -> None:
    async with fe.Session(ladder(20), config=fe.Config(compile_hot_plans=False)) as session:
        assert await session.run("rung19:0", {"x:0": 3.0}) == 3.0
    (block,) = (item for item in plans[0].items if item.kind == Kind.BLOCK)
    assert len(block.block.members) == 40


async def test_a_long_block_gives_the_host_its_turn(
    plans: list[Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_queue, "SLICE_SECONDS", 0.0)
    rounds = 0
    async with (
        fe.Session(ladder(100), config=fe.Config(compile_hot_plans=False)) as session,
        trio.open_nursery() as nursery,
    ):

        async def count() -> None:
            nonlocal rounds
            while True:
                await trio.lowlevel.checkpoint()
                rounds += 1

        nursery.start_soon(count)
        assert await session.run("rung99:0", {"x:0": 3.0}) == 3.0
        nursery.cancel_scope.cancel()
    assert plans
    assert rounds >= 200 // list_body._KERNELS_PER_CLOCK - 1


async def test_a_cancelled_step_has_had_the_effects_of_the_members_that_ran(
    plans: list[Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_queue, "SLICE_SECONDS", 0.0)
    g = fe.Graph()
    v = g.ops.VariableV2(shape=[], dtype="float32", name="v")
    g.ops.Assign(v, g.constant(np.float32(0)), name="init")
    last: Any = None
    for _ in range(200):
        with g.control_dependencies([] if last is None else [last]):
            last = g.ops.AssignAdd(v, g.constant(np.float32(1)))
    g.group(last.op, name="count")
    seen = set()
    async with fe.Session(g, config=fe.Config(compile_hot_plans=False)) as session:
        await session.run([], targets=["init"])
        await session.run([], targets=["count"])
        for checkpoints in range(12):
            await session.run([], targets=["init"])
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(lambda: session.run([], targets=["count"]))
                    for _ in range(checkpoints):
                        await trio.lowlevel.checkpoint()
                    scope.cancel()
            seen.add(int(await session.run("v:0")))
        assert len(plans) > 12
        assert len(seen) > 3
        assert not session._runner.running


async def test_a_block_waits_for_a_variable_that_a_thread_writes(plans: list[Plan]) -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [], name="x")
    v = g.ops.VariableV2(shape=[], dtype="float32", name="v")
    g.ops.Assign(v, g.constant(np.float32(5)), name="init")
    g.ops.Add(g.ops.Mul(x, x), g.ops.Identity(v), name="y")
    async with fe.Session(g, config=fe.Config(compile_hot_plans=False)) as session:
        await session.run([], targets=["init"])
        for _ in range(2):
            assert await session.run("y:0", {"x:0": 2.0}) == 9
        assert plans
        variable = session.resources.lookup("", "v", Variable)
        found: list[Any] = []

        async def step() -> None:
            found.append(await session.run("y:0", {"x:0": 3.0}))

        async with trio.open_nursery() as nursery:
            assert variable.acquire(object())
            nursery.start_soon(step)
            await trio.testing.wait_all_tasks_blocked()
            assert not found
            variable.release()
        assert found == [14]


async def test_an_error_is_that_of_the_member(plans: list[Plan], monkeypatch: pytest.MonkeyPatch) -> None:
    g = fe.Graph()
    x = g.placeholder("int32", [], name="x")
    g.ops.Neg(g.ops.FloorDiv(g.constant(np.int32(6)), x, name="bad"), name="y")
    ran = 0
    run_block = BlockRunner.run_block

    def counted(*arguments: Any) -> None:
        nonlocal ran
        ran += 1
        run_block(*arguments)

    monkeypatch.setattr(BlockRunner, "run_block", counted)
    async with fe.Session(g, config=fe.Config(compile_hot_plans=False)) as session:
        assert await session.run("y:0", {"x:0": 2}) == -3
        with pytest.raises(fe.errors.InvalidArgumentError) as raised:
            await session.run("y:0", {"x:0": 0})
    assert raised.value.node_name == "bad"
    assert raised.value.input_shapes == ("int32[]", "int32[]")
    assert ran == 2
    assert len(plans) == 2


def test_all_of_a_block_is_dead_where_what_it_waits_for_is() -> None:
    """Also members that take nothing of each other: what came dead went to the block alone."""
    g = fe.Graph()
    edge = {"tensor_name": "x:0", "send_device": "a", "recv_device": "b", "send_device_incarnation": 1}
    received = g.create_op("_Recv", (), {"tensor_type": "float32", **edge}, "received").outputs[0]
    ends = [g.ops.Neg(received, name="one"), g.ops.Exp(received, name="two")]
    plan = make_plan(g, fetches=[end.port for end in ends], registry=load_all())
    whole = in_blocks(plan, plan.root, plan.sources)
    assert whole is not None
    (block,) = (item for item in whole.items if item.kind == Kind.BLOCK)
    state = ExecutorState(whole.root)
    state.start(whole.sources)
    iteration = state.root
    deliver_dead(state.ready, [(block.local, -1, block)], iteration)
    assert state.is_dead(block, iteration)
    state.ready.clear()
    open_block(block.block, 0, iteration, state, is_dead=True)
    ready = [item for _, _, item, _ in state.ready]
    assert [item.name for item in ready] == ["one", "two"]
    assert all(state.is_dead(item, iteration) for item in ready)
