"""Loops of the compiled tier: which become Python's, what they leave behind, and that they share the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.core.arrays import to_array
from flowengine.resources.variable import Variable
from flowengine.runtime import blocks, bodies, ready_loop, turns
from flowengine.runtime.planning import tiers
from flowengine.runtime.planning.tiers import TieredPlan
from flowengine.testing.control import conditional, while_loop


@pytest.fixture(autouse=True)
def _compiled_from_the_first_run() -> Iterator[None]:
    before = tiers.HOT_RUNS
    tiers.HOT_RUNS = 0
    yield
    tiers.HOT_RUNS = before


async def both(graph: fe.Graph, fetches: list[str], feeds: dict[str, Any]) -> list[Any]:
    """What the compiled tier gives, which is what the interpreter gives."""
    results: list[list[Any]] = []
    for compiled in (True, False):
        async with fe.Session(graph, config=fe.Config(compile_hot_plans=compiled)) as session:
            results.append([to_array(value) for value in await session.run(fetches, feeds)])
    for got, want in zip(*results, strict=True):
        assert (got.dtype, got.shape, got.tobytes()) == (want.dtype, want.shape, want.tobytes())
    return results[0]


def loops_written(graph: fe.Graph, fetches: list[str], feeds: list[str]) -> int:
    with fe.blocking.Session(graph) as session:
        return session.explain(fetches, feeds, source=True).count("while True:")


class Frame:
    """One loop, written primitive by primitive."""

    def __init__(self, g: fe.Graph, name: str, starts: list[Any], constants: list[Any]) -> None:
        ops = g.ops
        self.graph = g
        self.merges = [ops.Merge([e, e]).output for e in (ops.Enter(s, frame_name=name) for s in starts)]
        self.constants = [ops.Enter(c, frame_name=name, is_constant=True) for c in constants]

    def go_on(self, verdict: Any) -> list[Any]:
        """The Switches' true sides."""
        ops = self.graph.ops
        verdict = ops.LoopCond(verdict)
        self.switches = [ops.Switch(merge, verdict) for merge in self.merges]
        return [switch.output_true for switch in self.switches]

    def come_back(self, index: int, value: Any, awaited: list[Any]) -> None:
        with self.graph.control_dependencies(awaited):
            back = self.graph.ops.NextIteration(value)
        self.graph.set_back_edge(self.merges[index], 1, back)


def there_and_back(g: fe.Graph) -> Any:
    """x = tanh(x), n times, each x pushed; then a product of what is popped."""
    ops = g.ops
    n = g.placeholder("int32", [], name="n")
    x = g.placeholder("float32", None, name="x")
    stack = ops.StackV2(g.constant(-1), elem_type="float32")
    there = Frame(g, "there", [g.constant(0), x], [n, stack, g.constant(1)])
    count, value = there.go_on(ops.Less(there.merges[0], there.constants[0]))
    more = ops.Add(count, there.constants[2])
    with g.control_dependencies([more]):
        push = ops.StackPushV2(there.constants[1], value)
    there.come_back(0, more, [push])
    there.come_back(1, ops.Tanh(value), [])
    counted, last = (ops.Exit(switch.output_false) for switch in there.switches)
    back = Frame(g, "back", [counted, last], [g.constant(1), stack])
    count, product = back.go_on(ops.GreaterEqual(back.merges[0], back.constants[0]))
    less = ops.Sub(count, back.constants[0])
    with g.control_dependencies([less]):
        popped = ops.StackPopV2(back.constants[1], elem_type="float32")
    with g.control_dependencies([popped]):
        trigger = ops.ControlTrigger()
    back.come_back(0, less, [trigger])
    back.come_back(1, ops.Mul(product, popped), [])
    with g.control_dependencies([back.switches[1].output_true.op]):
        late = ops.NoOp()
    with g.control_dependencies([late]):
        out = ops.Identity(back.switches[1].output_false)
    return ops.Exit(out, name="out")


async def test_the_loops_of_a_gradient_become_python() -> None:
    """Counters that wait for what is pushed and popped, and a value that leaves late."""
    g = fe.Graph()
    there_and_back(g)
    assert loops_written(g, ["out:0"], ["n:0", "x:0"]) == 2
    x = np.array([0.5, -2.0], np.float32)
    for n in (0, 1, 5):
        (got,) = await both(g, ["out:0"], {"n:0": np.int32(n), "x:0": x})
        value: Any = x
        product: Any = np.float32(1)
        for _ in range(n):
            value, product = np.tanh(value), product * value
        assert np.allclose(got, value * product)


async def test_a_push_in_a_branch_is_popped_in_that_branch() -> None:
    g = fe.Graph()
    ops = g.ops
    n = g.placeholder("int32", [], name="n")
    stack = ops.StackV2(g.constant(-1), elem_type="int32")
    taken = ops.StackV2(g.constant(-1), elem_type="bool")
    there = Frame(g, "there", [g.constant(0)], [n, stack, taken, g.constant(1), g.constant(3)])
    (count,) = there.go_on(ops.Less(there.merges[0], there.constants[0]))
    _, handle, notes, one, three = there.constants
    pred = ops.Equal(ops.FloorMod(count, three), ops.Sub(one, one))
    noted = ops.StackPushV2(notes, pred)
    pushed = ops.StackPushV2(ops.Switch(handle, pred).output_true, ops.Switch(count, pred).output_true)
    with g.control_dependencies([pushed]):
        trigger = ops.ControlTrigger()
    there.come_back(0, ops.Add(count, one), [noted, trigger])
    counted = ops.Exit(there.switches[0].output_false)
    back = Frame(g, "back", [counted, g.constant(0)], [g.constant(1), stack, taken])
    count, total = back.go_on(ops.GreaterEqual(back.merges[0], back.constants[0]))
    one, handle, notes = back.constants
    less = ops.Sub(count, one)
    with g.control_dependencies([less]):
        pred = ops.StackPopV2(notes, elem_type="bool")
    popped = ops.StackPopV2(ops.Switch(handle, pred).output_true, elem_type="int32")
    off, on = ops.Switch(total, pred)
    merged = ops.Merge([off, ops.Add(on, popped)])
    with g.control_dependencies([popped]):
        trigger = ops.ControlTrigger()
    back.come_back(0, less, [trigger])
    back.come_back(1, ops.Add(merged.output, merged.value_index), [])
    ops.Exit(back.switches[1].output_false, name="out")
    assert loops_written(g, ["out:0"], ["n:0"]) == 2
    assert await both(g, ["out:0"], {"n:0": np.int32(8)}) == [0 + 3 + 6 + 3]


async def test_a_loop_of_which_a_part_may_be_dead_stays_with_the_state_machine() -> None:
    """Where only `x` comes from a branch that is not taken, the loop still counts."""
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


async def has_no_value(graph: fe.Graph, fetch: str, feeds: dict[str, Any]) -> None:
    """The compiled tier says of a fetch that it has no value, as the interpreter does."""
    for compiled in (True, False):
        async with fe.Session(graph, config=fe.Config(compile_hot_plans=compiled)) as session:
            with pytest.raises(fe.errors.InvalidArgumentError, match="has no value"):
                await session.run(fetch, feeds)


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
    """Where neither is alive there is no result; an `if` of one predicate would take the other side."""
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
    """What is on top of a loop runs in the first round wherever its own inputs are alive."""
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


async def test_nested_loops_with_a_conditional_a_tensor_array_and_constants() -> None:
    g = fe.Graph()
    ops = g.ops
    n = g.placeholder("int32", [], name="n")
    x = g.placeholder("float32", [2], name="x")
    array, flow = ops.TensorArrayV3(n, dtype="float32", clear_after_read=False)

    def inner(j: Any, a: Any, i: Any, x: Any) -> list[Any]:
        odd = ops.Equal(ops.FloorMod(ops.Add(i, j), 2), 1)
        (a,) = conditional(
            g,
            odd,
            lambda a, x: [ops.Add(a, x)],
            lambda a, x: [ops.Mul(a, x)],
            [a, x],
        )
        return [ops.Add(j, 1), a]

    def outer(i: Any, a: Any, flow: Any, n: Any, x: Any, array: Any) -> list[Any]:
        _, a = while_loop(
            g,
            lambda j, a, i, x: ops.LessEqual(j, i),
            inner,
            [g.constant(0), a],
            invariants=[i, x],
            name="inner",
        )
        return [ops.Add(i, 1), a, ops.TensorArrayWriteV3(array, i, a, flow)]

    _, _, flow = while_loop(
        g,
        lambda i, a, flow, n, x, array: ops.Less(i, n),
        outer,
        [g.constant(0), x, flow],
        invariants=[n, x, array],
        name="outer",
    )
    read = ops.TensorArrayGatherV3(array, ops.Range(0, n, 1), flow, dtype="float32", element_shape=None)
    ops.Identity(read, name="out")
    assert loops_written(g, ["out:0"], ["n:0", "x:0"]) == 2
    x_value = np.array([0.5, 1.5], np.float32)
    (got,) = await both(g, ["out:0"], {"n:0": np.int32(4), "x:0": x_value})
    value, rows = x_value, []
    for i in range(4):
        for j in range(i + 1):
            value = value + x_value if (i + j) % 2 else value * x_value
        rows.append(value)
    assert np.array_equal(got, rows)


def counting(g: fe.Graph, long_body: int = 0) -> None:
    """Each iteration adds one to `first`, then one to `second`."""
    ops = g.ops
    n = g.placeholder("int32", [], name="n")
    variables = [ops.VarHandleOp(dtype="int32", shape=[], shared_name=v, name=v) for v in ("first", "second")]
    g.group(*(ops.AssignVariableOp(v, 0) for v in variables), name="init")
    for v, name in zip(variables, ("a", "b"), strict=True):
        ops.ReadVariableOp(v, dtype="int32", name=name)

    def body(i: Any, n: Any, *handles: Any) -> list[Any]:
        last: list[Any] = []
        for handle in handles:
            with g.control_dependencies(last):
                last = [ops.AssignAddVariableOp(handle, 1)]
        with g.control_dependencies(last):
            i = ops.Add(i, 1)
        for _ in range(long_body):
            i = ops.Identity(ops.Maximum(i, 0))
        return [i]

    while_loop(g, lambda i, n, *_: ops.Less(i, n), body, [g.constant(0)], invariants=[n, *variables])


@pytest.mark.parametrize("turns", [0, 1, 6])
async def test_a_cancelled_loop_has_had_its_effects_in_order(turns: int) -> None:
    g = fe.Graph()
    counting(g)
    assert loops_written(g, ["while/Exit:0"], ["n:0"]) == 1
    async with fe.Session(g) as session:
        await session.run([], targets=["init"])
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.run, "while/Exit:0", {"n:0": np.int32(2**30)})
                counted = session.resources.lookup("localhost", "first", Variable)
                while not counted.read():
                    await trio.lowlevel.checkpoint()
                for _ in range(turns):
                    await trio.lowlevel.checkpoint()
                scope.cancel()
        a, b = await session.run(["a:0", "b:0"])
        assert a == b > 0, "a compiled loop is left between two iterations"
        assert await session.run("while/Exit:0", {"n:0": np.int32(3)}) == 3
        assert await session.run(["a:0", "b:0"]) == [a + 3, b + 3]


async def test_a_paused_loop_waits_while_a_thread_writes_its_variable() -> None:
    g = fe.Graph()
    counting(g)
    ended = trio.Event()
    async with fe.Session(g) as session:
        await session.run([], targets=["init"])

        async def count() -> None:
            await session.run("while/Exit:0", {"n:0": np.int32(40_000)})
            ended.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(count)
            await trio.lowlevel.checkpoint()
            assert not ended.is_set()
            variable = session.resources.lookup("localhost", "second", Variable)
            assert variable.acquire(object())
            await trio.testing.wait_all_tasks_blocked()
            before = int(variable.read())
            await trio.testing.wait_all_tasks_blocked()
            assert not ended.is_set()
            assert int(variable.read()) == before
            variable.release()
        assert await session.run(["a:0", "b:0"]) == [40_000, 40_000]


class Clock:
    """Tells a millisecond more at each look: so many looks, so many milliseconds."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return self.looks * 0.001


async def turns_of_host(run: Callable[[], Any]) -> int:
    turns = 0

    async def host() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(host)
        await run()
        nursery.cancel_scope.cancel()
    return turns


@pytest.mark.parametrize("form", ["nested", "long body"])
async def test_nested_loops_and_long_bodies_yield(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock by which every look is late, each look gives the host a turn."""
    g = fe.Graph()
    if form == "nested":

        def inner(i: Any, n: Any) -> list[Any]:
            (j,) = while_loop(
                g,
                lambda j, n: g.ops.Less(j, n),
                lambda j, n: [g.ops.Add(j, 1)],
                [g.constant(0)],
                invariants=[n],
                name="inner",
            )
            return [g.ops.Add(i, g.ops.Sign(j))]

        n = g.placeholder("int32", [], name="n")
        while_loop(g, lambda i, n: g.ops.Less(i, n), inner, [g.constant(0)], invariants=[n])
        least = 10 * 10
    else:
        counting(g, long_body=500)
        least = 10 * 500 // 64
    clock = Clock()
    for module in (ready_loop, blocks, bodies, turns):
        monkeypatch.setattr(module, "perf_counter", clock)
    async with fe.Session(g) as session:
        await session.run([], targets=["init"] if form == "long body" else [])
        assert loops_written(g, ["while/Exit:0"], ["n:0"]) == (2 if form == "nested" else 1)
        _, before, given = [
            await turns_of_host(partial(session.run, "while/Exit:0", {"n:0": np.int32(n)}))
            for n in (0, 0, 10)
        ]
    # The first run plans; what a step gives that goes no round is no turn of the loop.
    assert given - before >= least


async def test_a_loop_that_grows_heavy_goes_back_to_worker_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is fed stays as small as it was: only the loop itself shows that it has become slow."""
    monkeypatch.setattr(tiers, "HOT_RUNS", 2)
    g = fe.Graph()
    ops = g.ops
    size = g.placeholder("int32", [], name="size")

    def body(i: Any, total: Any, size: Any) -> list[Any]:
        matrix = ops.Fill(ops.Pack([size, size]), 0.5)
        return [ops.Add(i, 1), ops.Add(total, ops.Sum(ops.MatMul(matrix, matrix), [0, 1]))]

    while_loop(
        g,
        lambda i, total, size: ops.Less(i, 20),
        body,
        [g.constant(0), g.constant(0.0)],
        invariants=[size],
    )
    async with fe.Session(g) as session:
        for _ in range(4):
            await session.run("while/Exit_1:0", {"size:0": np.int32(2)})
        plan = next(iter(session._plans.values())).plan
        assert isinstance(plan, TieredPlan)
        assert "while True:" in "".join(plan.sources())
        monkeypatch.setattr(bodies, "_SLOW_ITERATION_SECONDS", 0.001)
        heavy = False
        for _ in range(12):
            await session.run("while/Exit_1:0", {"size:0": np.int32(700)})
            heavy = heavy or any(item.times.was_heavy for item in plan.interpreted.items)
            if "while True:" not in "".join(plan.sources()):
                break
        else:
            pytest.fail("the loop stayed a region")
        assert heavy


@pytest.mark.parametrize("fault", ["pop", "push", "read", "write", "divide"])
async def test_errors_in_compiled_loops_are_told_as_interpreted(fault: str) -> None:
    g = fe.Graph()
    ops = g.ops
    x = g.placeholder("float32", [2], name="x")
    stack = ops.StackV2(g.constant(2), elem_type="float32", stack_name="kept")
    array, flow = ops.TensorArrayV3(g.constant(3), dtype="float32", tensor_array_name="row")

    def body(i: Any, flow: Any, x: Any, stack: Any, array: Any) -> list[Any]:
        three = g.constant(3)
        if fault == "pop":
            flow = ops.Sum(ops.StackPopV2(stack, elem_type="float32"), [0])
        elif fault == "push":
            flow = ops.Add(flow, ops.Sum(ops.StackPushV2(stack, x), [0]))
        elif fault == "read":
            flow = ops.Add(flow, ops.TensorArrayReadV3(array, ops.Add(i, three), flow, dtype="float32"))
        elif fault == "write":
            flow = ops.TensorArrayWriteV3(array, ops.Mul(i, 2), x, flow)
        else:
            i = ops.Add(i, ops.FloorDiv(three, ops.Sub(three, ops.Add(i, 1))))
        return [ops.Add(i, 1), flow]

    while_loop(
        g,
        lambda i, *_: ops.Less(i, 10),
        body,
        [g.constant(0), flow],
        invariants=[x, stack, array],
    )
    told = []
    for compiled in (True, False):
        async with fe.Session(g, config=fe.Config(compile_hot_plans=compiled)) as session:
            with pytest.raises(fe.errors.InvalidArgumentError) as caught:
                await session.run("while/Exit_1:0", {"x:0": np.ones(2)})
            told.append(str(caught.value))
    assert loops_written(g, ["while/Exit_1:0"], ["x:0"]) == 1
    assert told[0] == told[1]
    assert "iteration" in told[0]
