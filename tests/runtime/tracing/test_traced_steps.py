"""A traced step gives the bits of any step, and its trace has every node that ran, once, at its time."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Literal

import numpy as np
import pytest
import trio
import trio.testing
from hypothesis import given

import flowengine as fe
from flowengine.core import errors
from flowengine.runtime.planning.timings import PlanTimes
from flowengine.runtime.tracing.events import TraceEvent
from flowengine.testing.strategies import GraphCase, graphs
from tests.runtime.test_against_reference import check, opened

LEVELS = pytest.mark.parametrize("level", ["blocks", "nodes"])
Level = Literal["blocks", "nodes"]


async def traced(
    session: fe.Session, fetches: Any, feeds: Any = None, level: Level = "nodes", **rest: Any
) -> tuple[Any, fe.RunMetadata]:
    metadata = fe.RunMetadata()
    options = fe.RunOptions(trace=level, **rest)
    return await session.run(fetches, feeds, options=options, run_metadata=metadata), metadata


def names(metadata: fe.RunMetadata, *kinds: str) -> list[str]:
    return [event.name for event in metadata.events if event.kind in kinds]


@contextlib.asynccontextmanager
async def compiled(graph: fe.Graph) -> AsyncIterator[fe.Session]:
    async with opened(graph, "compiled") as session:
        yield session


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@LEVELS
@given(case=graphs())
def test_random_graphs_give_what_the_reference_gives(tier: str, level: Level, case: GraphCase) -> None:
    async def main() -> list[list[Any]]:
        async with opened(case.graph, tier) as session:
            await session.run([], targets=case.setup)
            found = []
            for fetches, feeds in case.runs:
                metadata = fe.RunMetadata()
                values = await session.run(
                    list(fetches),
                    feeds,
                    targets=case.targets,
                    options=fe.RunOptions(trace=level),
                    run_metadata=metadata,
                )
                found.append(list(values))
                hold_together(metadata)
            return found

    check(case, trio.run(main))


def hold_together(metadata: fe.RunMetadata) -> None:
    """Each event lies within the step, begins after its last input came, and nests within its thread's."""
    open_by_thread: dict[str, list[TraceEvent]] = {}
    for event in metadata.events:
        assert 0 <= event.began <= event.ended
        assert event.ready is None or event.ready <= event.began + 1e-9, event
        if event.kind in {"turn", "kernel", "block", "body", "node"}:
            around = open_by_thread.setdefault(event.thread, [])
            while around and around[-1].ended <= event.began:
                around.pop()
            assert not around or event.ended <= around[-1].ended, (event, around[-1])
            around.append(event)


@LEVELS
async def test_every_node_of_an_interpreted_step_has_a_time(level: Level) -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [2], name="x")
    g.ops.Tanh(g.ops.Neg(g.ops.Square(x, name="square"), name="neg"), name="y")
    async with fe.Session(g, config=fe.Config(compile_hot_plans=False)) as session:
        value, metadata = await traced(session, "y:0", {"x:0": [1.0, 2.0]}, level)
    np.testing.assert_allclose(value, np.tanh([-1.0, -4.0]), rtol=1e-6)
    assert names(metadata, "kernel") == ["square", "neg", "y"]
    for event in metadata.events:
        if event.kind == "kernel":
            assert event.outputs == (("float32", (2,), 8),)
            assert event.device.endswith("CPU:0")
            assert __file__ in event.line


async def test_kernels_of_several_inputs_and_outputs_have_one_event_each() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [2], name="x")
    packed = g.ops.Pack([x, fe.negative(x, name="neg"), x], name="pack")
    first, _, last = g.ops.Unpack(packed, num=3, name="unpack")
    ends = [fe.tanh(first, name="first"), fe.tanh(last, name="last")]
    async with fe.Session(g, config=fe.Config(compile_hot_plans=False)) as session:
        _, metadata = await traced(session, ends, {"x:0": [1.0, 2.0]})
    assert names(metadata, "kernel") == ["neg", "pack", "unpack", "first", "last"]
    kernels = {event.name: event for event in metadata.events if event.kind == "kernel"}
    assert [each is not None for each in kernels["unpack"].outputs] == [True, False, True]
    for name, source in (("pack", "neg"), ("unpack", "pack"), ("first", "unpack"), ("last", "unpack")):
        ready = kernels[name].ready
        assert ready is not None
        assert kernels[source].ended <= ready <= kernels[name].began, name


async def test_members_of_blocks_have_times_of_their_own_if_asked() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [2], name="x")
    g.ops.Tanh(g.ops.Neg(g.ops.Square(x, name="square"), name="neg"), name="y")
    async with compiled(g) as session:
        _, blocks = await traced(session, "y:0", {"x:0": [1.0, 2.0]}, "blocks")
        _, nodes = await traced(session, "y:0", {"x:0": [1.0, 2.0]}, "nodes")
    assert [event.members for event in blocks.events if event.kind == "block"] == [("neg", "square", "y")]
    assert names(blocks, "node") == []
    assert names(nodes, "node") == ["square", "neg", "y"]
    (block,) = [event for event in nodes.events if event.kind == "block"]
    members = [event for event in nodes.events if event.kind == "node"]
    assert sum(event.seconds for event in members) <= block.seconds
    assert names(nodes, "compile") == ["compiling"]


async def test_a_block_with_a_clock_teaches_its_plan_no_times(monkeypatch: pytest.MonkeyPatch) -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [2], name="x")
    g.ops.Tanh(g.ops.Neg(x, name="neg"), name="y")
    monkeypatch.setattr(PlanTimes, "region_took", None)
    async with compiled(g) as session:
        _, metadata = await traced(session, "y:0", {"x:0": [1.0, 2.0]}, "nodes")
    assert names(metadata, "node") == ["neg", "y"]


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
async def test_each_iteration_of_a_loop_has_its_own_events(tier: str) -> None:
    g = fe.Graph()
    n = g.placeholder("int32", [], name="n")
    (out,) = g.while_loop(
        lambda i: g.ops.Less(i, n, name="less"), lambda i: [g.ops.AddV2(i, g.constant(1), name="add")],
        [g.constant(0)], name="loop",
    )  # fmt: skip
    async with opened(g, tier) as session:
        value, metadata = await traced(session, out, {"n:0": 5})
    assert value == 5
    adds = [event for event in metadata.events if event.name.endswith("add") and event.kind != "turn"]
    assert [event.tag[-1][1] for event in adds] == [0, 1, 2, 3, 4]
    assert all(event.op == "AddV2" for event in adds)


async def test_an_item_in_a_loop_is_ready_since_its_last_input() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [2], name="x")

    def body(i: fe.Tensor, v: fe.Tensor) -> list[fe.Tensor]:
        return [i + 1, g.ops.Tanh(g.ops.Neg(v, name="neg"), name="shrink")]

    _, out = g.while_loop(lambda i, _: i < 3, body, [g.constant(0), x], name="loop")
    async with opened(g, "interpreted") as session:
        _, metadata = await traced(session, out, {"x:0": [1.0, 2.0]})
    by_name = {(event.name, event.tag): event for event in metadata.events if event.kind == "kernel"}
    shrinks = [event for (name, _), event in by_name.items() if name == "loop/shrink"]
    assert len(shrinks) == 3
    for event in shrinks:
        assert event.ready == by_name["loop/neg", event.tag].ended


async def test_a_block_in_a_loop_has_the_iteration_of_its_call() -> None:
    """A loop that takes from a queue is interpreted; what it computes between is a block."""
    g = fe.Graph()
    q = g.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], name="q")

    def body(i: fe.Tensor, v: fe.Tensor) -> list[fe.Tensor]:
        (taken,) = g.ops.QueueDequeueV2(q, component_types=["float32"])
        grown = g.ops.Neg(g.ops.AddV2(v, g.ops.Reshape(taken, [])), name="neg")
        return [g.ops.AddV2(i, g.constant(1)), g.ops.Tanh(grown, name="shrink")]

    _, out = g.while_loop(lambda i, v: g.ops.Less(i, g.constant(3)), body, [g.constant(0), g.constant(1.0)])
    put = g.ops.QueueEnqueueManyV2(q, [g.placeholder("float32", [None], name="x")], name="put")
    async with compiled(g) as session:
        await session.run([], {"x:0": [1.0, 2.0, 3.0]}, targets=[put])
        _, metadata = await traced(session, out)
    for kind, name in (("block", "_region"), ("node", "neg"), ("node", "shrink")):
        found = [event for event in metadata.events if event.kind == kind and name in event.name]
        assert [event.tag[-1][1] for event in found if event.tag] == [0, 1, 2], name


async def test_an_item_is_ready_since_its_last_input_whatever_runs_before_it() -> None:
    """Items without inputs are ready from the start, and control flow between them makes others ready."""
    g = fe.Graph()
    p, x = g.placeholder("bool", [], name="p"), g.placeholder("float32", [2], name="x")
    ends = []
    for number in range(4):
        ends.append(g.ops.Exp(x, name=f"early{number}"))
        no, yes = g.ops.Switch(x, p)
        ends.append(g.ops.Merge([g.ops.Neg(no), g.ops.Tanh(yes)])[0])
    y = g.ops.AddN(ends)
    config = fe.Config(compile_hot_plans=False, merge_common_subexpressions=False)
    async with fe.Session(g, config=config) as session:
        _, metadata = await traced(session, y, {"p:0": True, "x:0": [1.0, 2.0]})
    kernels = [event for event in metadata.events if event.kind == "kernel"]
    early = [event for event in kernels if event.name.startswith("early")]
    assert len(early) == 4
    for event in early:
        assert event.ready is not None
        assert event.ready <= kernels[0].began, event


async def test_a_conditional_has_only_the_branch_that_ran() -> None:
    g = fe.Graph()
    p = g.placeholder("bool", [], name="p")
    x = g.placeholder("float32", [2], name="x")
    y = g.cond(p, lambda: g.ops.Tanh(x, name="yes"), lambda: g.ops.Neg(x, name="no"))
    for tier in ("interpreted", "compiled"):
        async with opened(g, tier) as session:
            for taken, other in ((True, False), (False, True)):
                _, metadata = await traced(session, y, {"p:0": taken, "x:0": [1.0, 2.0]})
                ran = [name.rpartition("/")[2] for name in names(metadata, "kernel", "node")]
                assert ("yes" in ran, "no" in ran) == (taken, other)


async def test_a_merge_of_a_branch_that_was_not_taken_is_not_recorded() -> None:
    g = fe.Graph()
    p, q = g.placeholder("bool", [], name="p"), g.placeholder("bool", [], name="q")
    x = g.placeholder("float32", [2], name="x")
    inner: list[fe.Tensor] = []

    def within() -> fe.Tensor:
        inner.append(g.cond(q, lambda: g.ops.Tanh(x), lambda: g.ops.Neg(x), name="inner"))
        return inner[0]

    y = g.cond(p, within, lambda: g.ops.Square(x), name="outer")
    async with fe.Session(g, config=fe.Config(compile_hot_plans=False)) as session:
        _, metadata = await traced(session, y, {"p:0": False, "q:0": True, "x:0": [1.0, 2.0]})
    ran = names(metadata, "kernel")
    assert any(name.endswith("Square") for name in ran)
    assert not [name for name in ran if "inner/" in name and "Switch" not in name]


async def test_a_switch_has_its_output_at_the_slot_that_was_taken() -> None:
    g = fe.Graph()
    p, x = g.placeholder("bool", [], name="p"), g.placeholder("float32", [2], name="x")
    no, yes = g.ops.Switch(x, p, name="switch")
    y, _ = g.ops.Merge([g.ops.Neg(no), g.ops.Tanh(yes)])
    async with fe.Session(g, config=fe.Config(compile_hot_plans=False)) as session:
        for taken in (False, True):
            _, metadata = await traced(session, y, {"p:0": taken, "x:0": [1.0, 2.0]})
            (switch,) = [event for event in metadata.events if event.name == "switch"]
            known = [slot for slot, each in enumerate(switch.outputs) if each is not None]
            assert known == [int(taken)]


async def test_marks_of_a_loop_leave_room_for_its_nodes() -> None:
    """A loop looks at the clock in each iteration; only its pauses may take room in the trace."""
    g = fe.Graph()
    (out,) = g.while_loop(
        lambda i: g.ops.Less(i, g.constant(100)),
        lambda i: [g.ops.AddV2(i, g.constant(1))],
        [g.constant(0)],
    )
    async with compiled(g) as session:
        _, metadata = await traced(session, out)
        nodes = len(names(metadata, "node"))
        assert nodes >= 300
        _, metadata = await traced(session, out, trace_events=nodes + 20)
    assert metadata.dropped_events == 0


@pytest.mark.parametrize("level", ["blocks", "nodes"])
async def test_a_function_of_one_kernel_or_block_has_an_event(level: Level) -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [2], name="x")

    @fe.function(g, ["float32"])
    def body(v: fe.Tensor) -> fe.Tensor:
        return v.graph.ops.Tanh(v.graph.ops.Neg(v, name="neg"), name="shrink")

    y = body(x)
    metadata = fe.RunMetadata()
    async with compiled(g) as session:
        for _ in range(6):
            _, metadata = await traced(session, y, {"x:0": [1.0, 2.0]}, level)
    seen = {member for event in metadata.events for member in (*event.members, event.name)}
    assert {"neg", "shrink"} <= {name.rpartition("/")[2] for name in seen}


async def test_a_failed_kernel_that_waits_says_why(autojump_clock: trio.testing.MockClock) -> None:
    g = fe.Graph()
    q = g.ops.FIFOQueueV2(component_types=["float32"], name="q")
    (taken,) = g.ops.QueueDequeueV2(q, component_types=["float32"], name="take")
    g.ops.QueueCloseV2(q, name="close")
    metadata = fe.RunMetadata()
    async with fe.Session(g) as session, trio.open_nursery() as nursery:

        async def take() -> None:
            with pytest.raises(errors.OutOfRangeError):
                await session.run(taken, options=fe.RunOptions(trace="nodes"), run_metadata=metadata)

        nursery.start_soon(take)
        await trio.testing.wait_all_tasks_blocked()
        await session.run("close")
    (waited,) = [event for event in metadata.events if event.kind == "async"]
    assert "closed" in waited.detail["error"]


async def test_a_step_that_fails_keeps_the_part_that_ran() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", None, name="x")
    y = g.ops.Neg(x, name="neg")
    g.ops.Reshape(y, g.constant([7]), name="bad")
    for tier in ("interpreted", "compiled"):
        async with opened(g, tier) as session:
            metadata = fe.RunMetadata()
            with pytest.raises(errors.InvalidArgumentError, match="bad"):
                await session.run(
                    "bad:0", {"x:0": [1.0]}, options=fe.RunOptions(trace="nodes"), run_metadata=metadata
                )
            assert "neg" in names(metadata, "kernel", "node")
            assert any("error" in event.detail for event in metadata.events)
            hold_together(metadata)


async def test_a_cancelled_step_keeps_the_part_that_ran(autojump_clock: trio.testing.MockClock) -> None:
    g = fe.Graph()
    q = g.ops.FIFOQueueV2(component_types=["float32"], name="q")
    (taken,) = g.ops.QueueDequeueV2(q, component_types=["float32"], name="take")
    g.ops.Neg(taken, name="y")
    metadata = fe.RunMetadata()
    async with fe.Session(g) as session:
        with trio.move_on_after(5) as scope:
            await session.run("y:0", options=fe.RunOptions(trace="nodes"), run_metadata=metadata)
    assert scope.cancelled_caught
    (waited,) = [event for event in metadata.events if event.kind == "async"]
    assert waited.name == "take"
    assert "'q'" in waited.detail["waits_for"]
    assert "y" not in names(metadata, "kernel", "node")


async def test_a_trace_is_bounded_and_says_what_it_left_out() -> None:
    g = fe.Graph()
    (out,) = g.while_loop(lambda i: g.ops.Less(i, g.constant(50)), lambda i: [g.ops.AddV2(i, g.constant(1))],
                          [g.constant(0)])  # fmt: skip
    for tier in ("interpreted", "compiled"):
        async with opened(g, tier) as session:
            _, whole = await traced(session, out)
            _, bounded = await traced(session, out, trace_events=20)
            assert len(bounded.events) <= 20
            assert bounded.dropped_events > 50
            assert whole.dropped_events == 0
            assert '"dropped_events"' in bounded.timeline()


async def test_a_step_that_stood_in_line_shows_its_admission(
    autojump_clock: trio.testing.MockClock,
) -> None:
    g = fe.Graph()
    q = g.ops.FIFOQueueV2(component_types=["float32"], name="q")
    (taken,) = g.ops.QueueDequeueV2(q, component_types=["float32"], name="take")
    x = g.placeholder("float32", [2], name="x")
    g.ops.Neg(x, name="y")
    found: list[fe.RunMetadata] = []

    async with fe.Session(g, config=fe.Config(max_steps=1)) as session, trio.open_nursery() as nursery:

        async def second() -> None:
            _, metadata = await traced(session, "y:0", {"x:0": [1.0, 2.0]})
            found.append(metadata)

        async def first() -> None:
            with trio.move_on_after(3):
                await session.run(taken)

        nursery.start_soon(first)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(second)
    (metadata,) = found
    assert metadata.admission_seconds == pytest.approx(3, abs=0.1)
    (waited,) = [event for event in metadata.events if event.name.startswith("admission")]
    assert waited.kind == "wait"
    assert waited.seconds == pytest.approx(3, abs=0.1)
    assert names(metadata, "plan") == ["planning"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trace": "everything"}, "trace is 'everything'"),
        ({"trace": "nodes", "trace_events": 0}, "trace_events is 0"),
        ({"trace": "nodes", "trace_events": 2.5}, "trace_events is 2.5"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=message):
        fe.RunOptions(**options)


async def test_a_trace_without_metadata_is_refused() -> None:
    g = fe.Graph()
    y = g.ops.Neg(g.constant(1.0))
    async with fe.Session(g) as session:
        with pytest.raises(errors.InvalidArgumentError, match=r"run_metadata=fe\.RunMetadata"):
            await session.run(y, options=fe.RunOptions(trace="nodes"))
        with pytest.raises(errors.FailedPreconditionError, match="was not traced"):
            fe.RunMetadata().profile()


async def test_a_step_without_a_trace_has_the_executor_of_any_step(monkeypatch: pytest.MonkeyPatch) -> None:
    from flowengine.runtime.tracing.executor import TracedExecutor

    monkeypatch.setattr(TracedExecutor, "__init__", None)
    g = fe.Graph()
    y = g.ops.Neg(g.placeholder("float32", [], name="x"))
    metadata = fe.RunMetadata()
    async with fe.Session(g) as session:
        assert await session.run(y, {"x:0": 2.0}, run_metadata=metadata) == -2.0
    assert metadata.events == ()
