"""A step that is stopped before its nodes gives what any step gives, and shows each node's values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trio
import trio.testing
from hypothesis import given, settings

import flowengine as fe
from flowengine.core import errors
from flowengine.core.run_options import RunOptions, remote_timeout_of
from flowengine.testing.strategies import GraphCase, graphs
from tests.effort import examples
from tests.runtime.test_against_reference import check, opened, same_bits


async def stepped(session: fe.Session, fetches: Any, feeds: Any, **more: Any) -> tuple[Any, list[Any]]:
    """Run a step node by node; return its values and each node as it was when it had run."""
    seen = []
    async with fe.debug.Stepper(session, fetches, feeds, **more) as stepper:
        while not stepper.has_ended:
            before = stepper.node
            await stepper.step()
            ran = stepper.ran
            if before is not None:
                assert ran is not None
                seen.append(ran)
        return await stepper.finish(), seen


@settings(max_examples=examples(50))
@given(case=graphs())
def test_random_graphs_give_what_the_reference_gives(case: GraphCase) -> None:
    async def main() -> list[list[Any]]:
        async with opened(case.graph, "compiled") as session:
            await session.run([], targets=case.setup)
            return [
                [*(await stepped(session, [*fetches], feeds, targets=case.targets))[0]]
                for fetches, feeds in case.runs
            ]

    check(case, trio.run(main))


def program() -> tuple[fe.Graph, fe.Tensor]:
    """A graph with a call within a call, a loop and a conditional."""
    g = fe.Graph()

    @fe.function(g, ["float32"])
    def inner(a: fe.Tensor) -> fe.Tensor:
        return fe.exp(a, name="grow")

    @fe.function(g, ["float32"])
    def outer(a: fe.Tensor) -> fe.Tensor:
        result: fe.Tensor = inner(a, name="deeper") * 0.5
        return result

    x = g.placeholder("float32", [], name="x")
    y = outer(x, name="first")
    _, z = g.while_loop(
        lambda i, _: i < 3, lambda i, v: (i + 1, fe.tanh(v, name="shrink")), [g.constant(0), y]
    )
    return g, g.cond(z > 0.0, lambda: fe.sqrt(z, name="taken"), lambda: fe.log(z, name="left"))


async def test_each_node_is_seen_with_its_iteration_and_values() -> None:
    g, z = program()
    async with fe.Session(g) as session:
        value, seen = await stepped(session, z, {"x:0": 1.0})
        assert same_bits(value, await session.run(z, {"x:0": 1.0}))
    names = [node.name for node in seen]
    assert len([name for name in names if name.endswith("grow")]) == 1
    shrinks = [node for node in seen if node.name.endswith("shrink")]
    assert [node.iteration[-1][1] for node in shrinks] == [0, 1, 2]
    for node in shrinks:
        np.testing.assert_array_equal(node.outputs[0], np.tanh(node.inputs[0]))
    assert any(name.endswith("taken") for name in names)
    assert not any(name.endswith("left") for name in names)
    assert seen[0].outputs
    assert __file__ in shrinks[0].line


@pytest.mark.parametrize("until", ["grow", "*grow", "first/called/deeper/called/grow", "deeper/called/grow"])
async def test_a_node_in_a_function_is_found_by_its_name(until: str) -> None:
    g, z = program()
    async with fe.Session(g) as session, fe.debug.Stepper(session, z, {"x:0": 1.0}) as stepper:
        node = await stepper.go_on(until)
        assert node is not None
        assert node.op == "Exp"
        assert stepper.ran is None or stepper.ran.op != "Exp"
        assert await stepper.go_on(until) is None
        assert stepper.has_ended
        assert await stepper.finish() > 0


async def test_conditions_are_asked_before_each_node_that_is_named() -> None:
    g, z = program()
    asked = []

    def second(node: fe.debug.VisitedNode) -> bool:
        asked.append(node.name)
        return node.iteration[-1][1] == 2

    async with fe.Session(g) as session, fe.debug.Stepper(session, z, {"x:0": 1.0}) as stepper:
        node = await stepper.go_on("*shrink", when=second)
        assert node is not None
        assert node.iteration[-1][1] == 2
        assert len(asked) == 3
        assert str(node).startswith("while/shrink (Tanh), iteration while/while_context:2, ")
        after = await stepper.step(2)
        assert after is None or after.name != node.name


async def test_the_first_value_that_is_not_finite() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [2], name="x")
    y = fe.negative(fe.log(x, name="log"), name="negated")
    async with fe.Session(g) as session, fe.debug.Stepper(session, y, {x: [1.0, 0.0]}) as stepper:
        node = await stepper.go_on(when=lambda each: not each.has_finite_inputs)
        assert node is not None
        assert node.name == "negated"
        assert stepper.ran is not None
        assert stepper.ran.name == "log"


async def test_a_write_shows_the_value_before_it_and_a_stopped_step_has_not_made_it() -> None:
    g = fe.Graph()
    v = g.variable(1.0, name="v")
    added = v.assign_add(2.0, name="added")
    async with fe.Session(g) as session:
        await session.initialize()
        async with fe.debug.Stepper(session, added, {}) as stepper:
            await stepper.go_on(when=lambda node: "Assign" in node.op)
            assert float(await session.run(v)) == 1.0  # another step runs beside the one that is stopped
            await stepper.step()
            assert stepper.ran is not None
            assert 1.0 in [float(value) for value in stepper.ran.inputs if value is not None]
            assert float(await session.run(v)) == 3.0
        async with fe.debug.Stepper(session, added, {}) as stepper:
            await stepper.go_on(when=lambda node: "Assign" in node.op)
        assert float(await session.run(v)) == 3.0  # it was left before the write
        assert float(await session.run(added)) == 5.0


async def test_a_node_that_waits_is_waited_for_by_a_second_call(
    autojump_clock: trio.testing.MockClock,
) -> None:
    g = fe.Graph()
    q = g.ops.FIFOQueueV2(component_types=["float32"], name="queue")
    (taken,) = g.ops.QueueDequeueV2(q, component_types=["float32"], name="take")
    y = fe.negative(taken, name="y")
    g.ops.QueueEnqueueV2(q, [g.constant(4.0)], name="put")
    async with fe.Session(g) as session, fe.debug.Stepper(session, y, {}) as stepper:
        while stepper.node is not None and stepper.node.name != "take":
            await stepper.step()
        with trio.move_on_after(1.0) as scope:
            await stepper.step()
        assert scope.cancelled_caught
        assert not stepper.has_ended
        await session.run([], targets=["put"])
        node = await stepper.step()
        assert node is None or node.name == "y"
        assert float(await stepper.finish()) == -4.0


async def test_the_error_of_a_node_is_raised_once_where_it_comes() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [1], name="x")
    g.ops.CheckNumerics(fe.log(x), message="bad", name="checked")
    async with fe.Session(g) as session, fe.debug.Stepper(session, "checked:0", {x: [0.0]}) as stepper:
        await stepper.go_on("checked")
        with pytest.raises(errors.InvalidArgumentError, match="bad") as raised:
            await stepper.step()
        assert raised.value.node_name == "checked"
        assert stepper.node is None
        assert stepper.has_ended
        assert await stepper.step() is None


async def test_several_devices_stop_together() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [2], name="x")
    with g.device("/device:CPU:1"):
        y = fe.exp(x, name="there")
    with g.device("/device:CPU:0"):
        z = fe.add(fe.tanh(y, name="here"), fe.sin(x, name="beside"), name="sum")
    config = fe.Config(device_count={"CPU": 2})
    async with fe.Session(g, config=config) as session:
        value, seen = await stepped(session, z, {x: [1.0, 2.0]})
        assert same_bits(value, await session.run(z, {x: [1.0, 2.0]}))
    assert {node.name for node in seen} == {"there", "here", "beside", "sum"}
    assert len(seen) == 4


async def test_closing_the_session_ends_a_stopped_step() -> None:
    g, z = program()
    session = fe.Session(g)
    await session.__aenter__()
    async with fe.debug.Stepper(session, z, {"x:0": 1.0}) as stepper:
        assert stepper.node is not None
        await session.close()
        with pytest.raises(errors.CancelledError):
            await stepper.step()


async def test_a_stopped_step_ends_with_its_session_and_not_when_its_caller_goes_on() -> None:
    g, z = program()
    session = fe.Session(g)
    await session.__aenter__()
    async with fe.debug.Stepper(session, z, {"x:0": 1.0}) as stepper:
        await session.close()
        await trio.testing.wait_all_tasks_blocked()
        assert stepper.has_ended
        assert stepper.node is None


async def test_a_condition_that_fails_ends_the_step_with_its_error() -> None:
    g, z = program()

    def fails(node: fe.debug.VisitedNode) -> bool:
        raise ZeroDivisionError("in the condition")

    async with fe.Session(g) as session:
        async with fe.debug.Stepper(session, z, {"x:0": 1.0}) as stepper:
            with pytest.raises(ZeroDivisionError, match="in the condition"):
                await stepper.go_on(when=fails)
        assert float(await session.run(z, {"x:0": 1.0})) > 0


async def test_requests_that_do_not_fit_are_refused() -> None:
    g, z = program()
    async with fe.Session(g) as session:
        with pytest.raises(errors.NotFoundError, match="nowhere"):
            async with fe.debug.Stepper(session, "nowhere:0"):
                raise AssertionError
        stepper = fe.debug.Stepper(session, z, {"x:0": 1.0})
        with pytest.raises(errors.FailedPreconditionError, match="use it in `async with"):
            await stepper.step()
        async with stepper:
            with pytest.raises(errors.InvalidArgumentError, match="did you mean 'while/shrink'"):
                await stepper.go_on("while/shrunk")
            with pytest.raises(errors.InvalidArgumentError, match="count is at least 1"):
                await stepper.step(0)
            assert stepper.node is not None
        with pytest.raises(errors.FailedPreconditionError, match="make another"):
            async with stepper:
                raise AssertionError
    with pytest.raises(errors.InvalidArgumentError, match="one step has one of them"):
        RunOptions(guard=True, stepper=object())
    with pytest.raises(errors.InvalidArgumentError, match="stepper: the step runs in another process"):
        remote_timeout_of(RunOptions(stepper=object()))


def test_from_a_script() -> None:
    g, z = program()
    with fe.blocking.Session(g) as session:
        wanted = session.run(z, {"x:0": 1.0})
        with fe.blocking.Stepper(session, z, {"x:0": 1.0}) as stepper:
            assert stepper.node is not None
            node = stepper.go_on("*shrink", when=lambda node: node.iteration[-1][1] == 1)
            assert node is not None
            assert node.iteration[-1][1] == 1
            stepper.step()
            assert stepper.ran is not None
            assert stepper.ran.name == node.name
            assert same_bits(stepper.finish(), wanted)
            assert stepper.has_ended
        with fe.blocking.Stepper(session, z, {"x:0": 1.0}):
            assert same_bits(session.run(z, {"x:0": 1.0}), wanted)
        with pytest.raises(errors.NotFoundError, match="nowhere"), fe.blocking.Stepper(session, "nowhere:0"):
            raise AssertionError
    with pytest.raises(errors.InvalidArgumentError, match="in a trio program, use"):
        fe.blocking.Stepper(fe.Session(g), z)


def test_closing_a_blocking_session_ends_its_stopped_step() -> None:
    g, z = program()
    with fe.blocking.Session(g) as session, fe.blocking.Stepper(session, z, {"x:0": 1.0}) as stepper:
        session.close()
        with pytest.raises(errors.FailedPreconditionError):
            stepper.step()


async def test_a_step_after_a_search_runs_one_node() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [], name="x")
    y = fe.tanh(fe.exp(fe.sqrt(x, name="a"), name="b"), name="c")
    async with fe.Session(g) as session, fe.debug.Stepper(session, y, {x: 1.0}) as stepper:
        node = await stepper.go_on("b")
        assert node is not None
        assert node.name == "b"
        node = await stepper.step()
        assert node is not None
        assert node.name == "c"


async def test_the_node_that_is_shown_is_the_next_to_run_on_any_device() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [], name="x")
    ends = []
    for number in range(2):
        with g.device(f"/device:CPU:{number}"):
            y = x
            for place in range(4):
                y = fe.tanh(y, name=f"on_{number}_{place}")
            ends.append(y)
    async with (
        fe.Session(g, config=fe.Config(device_count={"CPU": 2})) as session,
        fe.debug.Stepper(session, ends, {x: 1.0}) as stepper,
    ):
        shown, ran = [], []
        while (node := stepper.node) is not None:
            shown.append(node.name)
            await stepper.step()
            assert stepper.ran is not None
            ran.append(stepper.ran.name)
    assert shown == ran
    assert sorted(ran) == [f"on_{number}_{place}" for number in range(2) for place in range(4)]


async def test_a_step_that_waits_is_stopped_before_no_node(autojump_clock: trio.testing.MockClock) -> None:
    g = fe.Graph()
    queue = g.ops.FIFOQueueV2(component_types=["float32"], name="queue")
    y = fe.tanh(g.ops.QueueDequeueV2(queue, component_types=["float32"], name="take")[0], name="y")
    g.ops.QueueEnqueueV2(queue, [g.constant(1.0)], name="put")
    async with fe.Session(g) as session, fe.debug.Stepper(session, y) as stepper:
        while stepper.node is not None and stepper.node.name != "take":
            await stepper.step()
        with trio.move_on_after(1) as scope:
            await stepper.step()
        assert scope.cancelled_caught
        assert stepper.node is None
        assert not stepper.has_ended
        await session.run([], targets=["put"])
        node = await stepper.step()
        assert node is not None
        assert node.name == "y"
