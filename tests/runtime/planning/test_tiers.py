"""The compiled tier gives what the interpreter gives: values bit for bit, state, and errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing
from hypothesis import given, settings

import flowengine as fe
from flowengine.core.arrays import to_array
from flowengine.ir.graph import OutputPort
from flowengine.resources.variable import Variable
from flowengine.runtime.planning import tiers
from flowengine.runtime.planning.timings import ItemTimes
from flowengine.testing.strategies import GraphCase, graphs
from tests.effort import IS_NIGHTLY


@pytest.fixture(autouse=True)
def _compiled_from_the_first_run() -> Iterator[None]:
    before = tiers.HOT_RUNS
    tiers.HOT_RUNS = 0
    yield
    tiers.HOT_RUNS = before


#: How many random graphs are run with the tier on and off.
GRAPHS = 10_000 if IS_NIGHTLY else 25


def state_of(session: fe.Session) -> dict[str, Any]:
    """{variable: its value as bits, or None}, of all that a session holds."""
    held = session.resources.held(Variable)
    return {v.name: bits(v.read()) if v.is_initialized else None for v in held}


async def play(case: GraphCase, *, compiled: bool, threads: bool = True) -> list[Any]:
    config = fe.Config(compile_hot_plans=compiled, worker_threads=threads)
    async with fe.Session(case.graph, config=config) as session:
        await session.run([], targets=case.setup)
        results: list[Any] = []
        for fetches, feeds in case.runs:
            try:
                got = list(await session.run(list(fetches), feeds, targets=case.targets))
            except fe.errors.OpError as error:
                got = [type(error).__name__]
            results.append([v if isinstance(v, str) else bits(v) for v in got])
            results.append(state_of(session))
        return results


def bits(value: Any) -> tuple[Any, ...]:
    array = to_array(value)
    return (array.dtype, array.shape, array.tobytes() if array.dtype != object else array.tolist())


@settings(max_examples=GRAPHS)
@given(graphs())
def test_random_graphs_give_the_same_bits_and_state_with_the_tier_on_and_off(case: GraphCase) -> None:
    compiled = trio.run(lambda: play(case, compiled=True))
    interpreted = trio.run(lambda: play(case, compiled=False))
    assert compiled == interpreted


def ordered_updates(count: int) -> fe.Graph:
    """Updates of `count` variables one after another, which now and then wait for a queue."""
    g = fe.Graph()
    ops = g.ops
    queue = ops.FIFOQueueV2(component_types=["float32"], shapes=[[4]], capacity=2, name="queue")
    inits = []
    last: Any = None
    for index in range(count):
        variable = ops.VariableV2(dtype="float32", shape=[4], name=f"v{index}")
        inits.append(ops.Assign(variable, np.zeros(4, np.float32)))
        with g.control_dependencies([] if last is None else [last]):
            one = ops.Tanh(ops.Mul(g.constant(np.full(4, 2, np.float32)), float(index + 1)))
            if index % 4 == 3:
                with g.control_dependencies([ops.QueueEnqueueV2(queue, [one])]):
                    (one,) = ops.QueueDequeueV2(queue, component_types=["float32"])
            last = ops.AssignAdd(variable, one)
    g.group(*inits, name="init")
    g.group(last.op, name="update")
    return g


@pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "compiled"])
async def test_a_cancelled_step_has_had_its_effects_in_order(compiled: bool) -> None:
    """Whatever the moment: the first so many updates have happened, and none after them."""
    count = 16
    seen = set()
    async with fe.Session(ordered_updates(count), config=fe.Config(compile_hot_plans=compiled)) as session:
        for checkpoints in range(30):
            await session.run("init")
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(session.run, "update")
                    for _ in range(checkpoints):
                        await trio.lowlevel.checkpoint()
                    scope.cancel()
            values = await session.run([f"v{index}:0" for index in range(count)])
            changed = [bool(value.any()) for value in values]
            done = sum(changed)
            assert changed == [True] * done + [False] * (count - done)
            seen.add(done)
        assert {0, count} <= seen
        await session.run("init")
        await session.run("update")
        assert all(value.all() for value in await session.run([f"v{index}:0" for index in range(count)]))


def power_loop(graph: fe.Graph) -> Any:
    """`while i < n: x = x * x if i is even else x + 1`, with a conditional in the body."""
    ops = graph.ops
    n = graph.placeholder("int32", [], name="n")
    x = graph.placeholder("float32", None, name="x")
    enter_i = ops.Enter(graph.constant(0), frame_name="loop")
    enter_x = ops.Enter(x, frame_name="loop")
    bound = ops.Enter(n, frame_name="loop", is_constant=True)
    i = ops.Merge([enter_i, enter_i])[0]
    v = ops.Merge([enter_x, enter_x])[0]
    cond = ops.LoopCond(ops.Less(i, bound))
    i_in = ops.Switch(i, cond)[1]
    v_out, v_in = ops.Switch(v, cond)
    i_in, v_in = ops.Identity(i_in), ops.Identity(v_in)
    with graph.control_dependencies([i_in]):
        one, two, zero = graph.constant(1), graph.constant(2), graph.constant(0)
        one_f = graph.constant(1.0)
    even = ops.Equal(ops.FloorMod(i_in, two), zero, name="even")
    off, on = ops.Switch(v_in, even)
    plus = ops.Add(off, one_f, name="plus")
    square = ops.Mul(on, on, name="square")
    merged = ops.Merge([plus, square])[0]
    back_i = ops.NextIteration(ops.Add(i_in, one))
    back_v = ops.NextIteration(merged)
    graph.set_back_edge(i.op.name, 1, OutputPort(back_i.op.name, 0))
    graph.set_back_edge(v.op.name, 1, OutputPort(back_v.op.name, 0))
    return ops.Exit(v_out, name="out")


async def test_a_loop_with_a_conditional_becomes_one_region() -> None:
    graph = fe.Graph()
    out = power_loop(graph)
    async with fe.Session(graph) as session:
        source = session.explain(out, ["x:0", "n:0"], source=True)
        assert source.count("while True:") == 1
        assert "if not p" in source
        x = np.array([0.5, 2.0], np.float32)
        value = x
        for i in range(5):
            value = value * value if i % 2 == 0 else value + 1
        assert np.array_equal(await session.run(out, {"x:0": x, "n:0": 5}), value)
        assert np.array_equal(await session.run(out, {"x:0": x, "n:0": 0}), x)


async def test_an_error_in_a_region_names_node_inputs_frame_and_iteration_as_interpreted() -> None:
    graph = fe.Graph()
    out = power_loop(graph)
    y = graph.placeholder("float32", None, name="y")
    total = graph.ops.Add(graph.ops.Neg(out), y, name="total")
    messages = []
    for compiled in (True, False):
        async with fe.Session(graph, config=fe.Config(compile_hot_plans=compiled)) as session:
            with pytest.raises(fe.errors.InvalidArgumentError) as caught:
                await session.run(total, {"x:0": np.ones(2), "n:0": 3, "y:0": np.ones(3)})
            messages.append(str(caught.value))
            assert caught.value.node_name == "total"
    assert messages[0] == messages[1]


async def test_the_iteration_of_an_error_inside_a_compiled_loop() -> None:
    graph = fe.Graph()
    ops = graph.ops
    enter = ops.Enter(graph.constant(3), frame_name="down")
    ten = ops.Enter(graph.constant(10), frame_name="down", is_constant=True)
    one = ops.Enter(graph.constant(1), frame_name="down", is_constant=True)
    least = ops.Enter(graph.constant(-5), frame_name="down", is_constant=True)
    i = ops.Merge([enter, enter])[0]
    i_out, i_in = ops.Switch(i, ops.LoopCond(ops.Greater(i, least)))
    ops_div = ops.FloorDiv(ten, i_in, name="divide")
    with graph.control_dependencies([ops_div]):
        back = ops.NextIteration(ops.Sub(i_in, one, name="less"))
    graph.set_back_edge(i.op.name, 1, OutputPort(back.op.name, 0))
    out = ops.Exit(i_out)
    with graph.control_dependencies([]):
        pass
    messages = []
    for compiled in (True, False):
        async with fe.Session(graph, config=fe.Config(compile_hot_plans=compiled)) as session:
            with pytest.raises(fe.errors.InvalidArgumentError) as caught:
                await session.run(out)
            messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert "frame 'down' iteration 3" in messages[0]


async def test_a_long_compiled_loop_yields_and_can_be_cancelled() -> None:
    graph = fe.Graph()
    out = power_loop(graph)
    turns = 0

    async def host() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with fe.Session(graph) as session:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(host)
            with pytest.raises(fe.errors.DeadlineExceededError):
                await session.run(
                    out,
                    {"x:0": np.zeros(2), "n:0": 2**30},
                    options=fe.RunOptions(timeout_seconds=0.1),
                )
            nursery.cancel_scope.cancel()
        assert turns > 5
        assert (await session.run(out, {"x:0": np.zeros(1), "n:0": 1})).tolist() == [0]


async def test_a_region_leaves_room_for_what_waits() -> None:
    """A value that an asynchronous node waits for may come from the same step."""
    graph = fe.Graph()
    x = graph.placeholder("float32", [], name="x")
    queue = graph.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], name="queue")
    got = graph.ops.QueueDequeueV2(queue, component_types=["float32"], name="got")
    after = graph.ops.Add(graph.ops.Neg(got), x, name="after")
    before = graph.ops.Square(graph.ops.Neg(x), name="before")
    put = graph.ops.QueueEnqueueV2(queue, [before], name="put")
    async with fe.Session(graph) as session:
        result = await session.run([after], {"x:0": 3.0}, targets=[put])
    assert result == [-6.0]


async def test_names_and_constants_of_the_graph_never_enter_what_is_compiled() -> None:
    graph = fe.Graph()
    x = graph.placeholder("string", None, name="x")
    hostile = b'"""); import os #\n'
    y = graph.ops.StringJoin([x, graph.constant(hostile)], separator=hostile)
    z = graph.ops.StringJoin([y, y], separator=hostile)
    async with fe.Session(graph) as session:
        got = await session.run(z, {x: b"a"})
        source = session.explain(z, [x], source=True)
    once = b"a" + hostile + hostile
    assert got == once + hostile + once
    assert "import os" not in source


async def test_a_hot_plan_is_compiled_and_much_larger_feeds_are_interpreted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tiers, "HOT_RUNS", 3)
    graph = fe.Graph()
    x = graph.placeholder("float32", [None], name="x")
    y = graph.ops.Neg(graph.ops.Square(graph.ops.Neg(x)))
    async with fe.Session(graph) as session:
        for _ in range(4):
            await session.run(y, {x: np.ones(4)})
        plan = next(iter(session._plans.values())).plan
        assert isinstance(plan, tiers.TieredPlan)
        assert plan.compiled is not None
        metadata = fe.RunMetadata()
        await session.run(y, {x: np.ones(1_000_000)}, run_metadata=metadata)
        assert metadata.heavy_items == 3


@pytest.mark.parametrize("is_heavy", [False, True])
async def test_a_long_first_run_makes_hot_unless_something_in_it_was_heavy(
    monkeypatch: pytest.MonkeyPatch, is_heavy: bool
) -> None:
    """A heavy kernel prepares itself in its first run, whose time says little of the other nodes."""
    monkeypatch.setattr(tiers, "HOT_RUNS", 4)
    graph = fe.Graph()
    x = graph.placeholder("float32", [2], name="x")
    y = graph.ops.Neg(graph.ops.Square(x))
    async with fe.Session(graph) as session:
        await session.run(y, {x: [1.0, 2.0]})
        plan = next(iter(session._plans.values())).plan
    assert isinstance(plan, tiers.TieredPlan)
    plan.interpreted.items[0].times.was_heavy = is_heavy
    feeds = [np.ones(2, np.float32)]
    plan.learned.begin_again()
    assert plan.ran(feeds, 60.0) is not is_heavy
    assert plan.ran(feeds, 60.0)


async def test_a_session_that_does_not_compile_never_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "HOT_RUNS", 0)
    graph = fe.Graph()
    x = graph.placeholder("float32", [2], name="x")
    y = graph.ops.Neg(graph.ops.Square(graph.ops.Neg(x)))
    for compiles in (False, True):
        async with fe.Session(graph, config=fe.Config(compile_hot_plans=compiles)) as session:
            await session.run(y, {x: [1.0, 2.0]})
            plan = next(iter(session._plans.values())).plan
            assert isinstance(plan, tiers.TieredPlan)
            assert (plan.compiled is not None) is compiles


async def test_a_step_that_is_counted_says_what_it_held() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [1000], name="x")
    y = x
    for _ in range(10):
        y = graph.ops.Tanh(y)
    metadata = fe.RunMetadata()
    async with fe.Session(graph, config=fe.Config(count_allocations=True)) as session:
        for _ in range(6):
            await session.run(y, {x: np.ones(1000, np.float32)}, run_metadata=metadata)
            assert metadata.allocations == 10
            assert metadata.peak_bytes == 8000
    async with fe.Session(graph) as session:
        await session.run(y, {x: np.ones(1000, np.float32)}, run_metadata=metadata)
        assert metadata.allocations is None


def test_jobs_that_ran_at_one_time_correct_the_pace_once() -> None:
    """Several iterations of a loop may have a kernel in flight, all estimated at the pace of the first."""
    times = ItemTimes(0)
    for _ in range(5):
        times.learn(1000.0, 400.0, 1.0)
    assert times.pace == pytest.approx(0.4)


async def test_a_fault_of_the_compiler_leaves_the_host_running(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def faulty(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(tiers, "heating", faulty)
    monkeypatch.setattr(tiers, "HOT_RUNS", 2)
    g = fe.Graph()
    y = g.placeholder("float32", [4], name="x")
    for _ in range(2 * tiers.INLINE_NODES):
        y = g.ops.Neg(y)
    async with fe.Session(g) as session:
        for _ in range(5):
            assert (await session.run(y, {"x:0": [1.0] * 4})).tolist() == [1.0] * 4
            await trio.testing.wait_all_tasks_blocked()
        plan = next(iter(session._plans.values())).plan
        while not caplog.records:
            await trio.lowlevel.checkpoint()
        assert isinstance(plan, tiers.TieredPlan)
        assert plan.compiled is None
    assert "could not be compiled and stays interpreted" in caplog.text
    assert "a fault of ours" in caplog.text


async def test_slow_regions_are_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the interpreter has seen the nodes again, and as any plan that becomes hot."""
    monkeypatch.setattr(tiers, "HOT_RUNS", 2)
    graph = fe.Graph()
    y = x = graph.placeholder("float32", [4], name="x")
    for _ in range(tiers.INLINE_NODES // 2 - 5):
        y = graph.ops.Tanh(graph.ops.Add(y, x))

    def largest(plan: Any) -> int:
        return max(len(item.node.attrs["program"].units) for item in plan.compiled.items if item.region)

    async with fe.Session(graph, config=fe.Config()) as session:
        for _ in range(2):
            await session.run(y, {x: [1.0] * 4})
        plan = next(iter(session._plans.values())).plan
        assert isinstance(plan, tiers.TieredPlan)
        plan.learned.members_max = before = largest(plan)
        assert plan.compiled is not None
        plan.compiled.times.slow_regions = 3
        seen = []
        for _ in range(3):
            await session.run(y, {x: [1.0] * 4})
            seen.append(plan.compiled is not None)
        assert seen == [False, True, True]
        assert largest(plan) == before // 2


async def test_a_slow_kernel_of_small_inputs_is_noted() -> None:
    """Cuts between regions depend on the times of kernels, however small their inputs are."""
    times = ItemTimes(0)
    times.saw(10.0)
    assert times.microseconds == 0
    for took in (900.0, 200.0, 300.0):
        times.saw(took)
    assert times.microseconds == 200.0
    times.saw(3.0)  # the first calls had to import something
    assert times.microseconds == 3.0

    graph = fe.Graph()
    ops = graph.ops
    boxes = graph.placeholder("float32", [2000, 4], name="boxes")
    scores = graph.placeholder("float32", [2000], name="scores")
    chosen = ops.NonMaxSuppressionV2(boxes, scores, graph.constant(100), graph.constant(np.float32(0.6)))
    numbers = np.random.default_rng(0).random((2000, 5), np.float32)
    async with fe.Session(graph, config=fe.Config(compile_hot_plans=False)) as session:
        for _ in range(2):
            await session.run(chosen, {boxes: numbers[:, :4], scores: numbers[:, 4]})
        plan = next(iter(session._plans.values())).plan
        assert isinstance(plan, tiers.TieredPlan)
        assert any(item.times.microseconds for item in plan.interpreted.items)


@pytest.mark.parametrize("fed", [0, 1])
async def test_who_takes_a_fed_output_takes_the_feed(fed: int) -> None:
    """Whichever output of a node it is, and though the node runs for another one."""
    g = fe.Graph()
    x = g.placeholder("float32", [2], name="x")
    parts = g.ops.Split(0, g.ops.Neg(x), num_split=2)
    ends = [g.ops.Neg(g.ops.Mul(part, 2.0)) for part in parts]
    async with fe.Session(g) as session:
        for _ in range(tiers.HOT_RUNS + 2):
            got = await session.run(ends, {x: [1.0, 2.0], parts[fed]: [5.0]})
            assert [each.tolist() for each in got] == ([[-10], [4]] if fed == 0 else [[2], [-10]])
