"""Offloaded runs: a worker thread that has the executor gives the same values, and leaves it free."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing
from hypothesis import given, settings

import flowengine as fe
from flowengine.core import dtypes
from flowengine.core.shapes import TensorShape
from flowengine.kernels.load import load_all
from flowengine.kernels.registry import KernelRegistry
from flowengine.resources.variable import Variable
from flowengine.runtime import lanes
from flowengine.runtime.offload import Offload
from flowengine.runtime.offloaded_runs import OffloadedRun
from flowengine.runtime.planning import offloaded_run_items, signatures, tiers
from flowengine.testing.strategies import GraphCase, graphs
from tests.runtime.planning.test_tiers import GRAPHS, play

EYE = np.eye(8, dtype=np.float32)
READS, TAKES = offloaded_run_items.READS, offloaded_run_items.TAKES
#: Runs until something has been seen that which thread is the first decides.
_ATTEMPTS = 20


@pytest.fixture
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever can begin an offloaded run does."""
    force(monkeypatch)


def force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offloaded_run_items, "_WORTH_MICROSECONDS", -1.0)
    monkeypatch.setattr(lanes, "HEAVY_MICROSECONDS", -1.0)
    monkeypatch.setattr(signatures, "INLINE_BYTES", -1)
    monkeypatch.setattr(signatures, "ESTIMATE_BYTES", -1)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[OffloadedRun]:
    """The offloaded runs that were begun."""
    made: list[OffloadedRun] = []
    before = OffloadedRun.__init__

    def init(self: OffloadedRun, *args: Any) -> None:
        made.append(self)
        before(self, *args)

    monkeypatch.setattr(OffloadedRun, "__init__", init)
    return made


class Products:
    """MatMuls that tell who runs them, and wait for `let` where `gates` says so.

    ran      (number of the call, thread)
    gates    {number of a call: what is called before it computes}
    """

    def __init__(self) -> None:
        self.ran: list[tuple[int, str]] = []
        self.gates: dict[int, Callable[[], object]] = {}
        self.kernels = KernelRegistry(parent=load_all())
        self.kernels.kernel("MatMul", heavy=lambda a, b: 5000.0)(self._product)

    def _product(self, a: Any, b: Any) -> Any:
        number = len(self.ran)
        self.ran.append((number, threading.current_thread().name))
        gate = self.gates.get(number)
        if gate is not None:
            gate()
        return a @ b


class Gate:
    """A kernel that has been reached, and goes on when it is let."""

    def __init__(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self.reached = trio.Event()
        self.let = threading.Event()

    def __call__(self) -> None:
        self._token.run_sync_soon(self.reached.set)
        assert self.let.wait(30)


def chain(graph: fe.Graph, x: Any, factor: Any, count: int) -> Any:
    for number in range(count):
        x = graph.ops.MatMul(x, factor, name=f"product{number}")
    return x


@pytest.fixture
def _compiled_from_the_first_run() -> Iterator[None]:
    before = tiers.HOT_RUNS
    tiers.HOT_RUNS = 0
    yield
    tiers.HOT_RUNS = before


@pytest.mark.usefixtures("_compiled_from_the_first_run")
@pytest.mark.parametrize("compiled", [False, True])
@settings(max_examples=GRAPHS)
@given(case=graphs())
def test_random_graphs_give_the_same_bits_and_state(case: GraphCase, compiled: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        here = trio.run(lambda: play(case, threads=False, compiled=compiled))
        force(patch)
        there = trio.run(lambda: play(case, threads=True, compiled=compiled))
    assert there == here


@pytest.mark.usefixtures("_always")
async def test_the_event_loop_is_free_while_products_follow_each_other(counted: list[OffloadedRun]) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [8, 8], name="x")
    y = chain(graph, x, x, 5)
    products = Products()
    gates = [Gate() for _ in range(5)]
    products.gates = dict(enumerate(gates))
    results: list[Any] = []
    async with fe.Session(graph, kernels=products.kernels) as session, trio.open_nursery() as nursery:

        async def run() -> None:
            results.append(await session.run(y, {x: 2 * EYE}))

        nursery.start_soon(run)
        for gate in gates:
            await gate.reached.wait()
            gate.let.set()
    np.testing.assert_array_equal(results[0], 64 * EYE)
    assert len(counted) == 1
    assert len({thread for _, thread in products.ran}) == 1
    assert products.ran[0][1] != threading.current_thread().name


async def test_a_plan_whose_products_take_little_has_none(counted: list[OffloadedRun]) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [8, 8], name="x")
    y = chain(graph, x, x, 5)
    async with fe.Session(graph, kernels=Products().kernels) as session:
        for _ in range(3):
            await session.run(y, {x: EYE})
    assert not counted


@pytest.mark.usefixtures("_always")
async def test_a_cancelled_step_ends_after_the_product_that_runs(counted: list[OffloadedRun]) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [8, 8], name="x")
    y = chain(graph, x, x, 5)
    products = Products()
    async with fe.Session(graph, kernels=products.kernels) as session:
        gate = products.gates[1] = Gate()
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lambda: session.run(y, {x: EYE}))
                await gate.reached.wait()
                scope.cancel()
        # Nobody waits for what only computes.
        assert not gate.let.is_set()
        gate.let.set()
        products.gates.clear()
        np.testing.assert_array_equal(await session.run(y, {x: 2 * EYE}), 64 * EYE)
    assert len(products.ran) == 2 + 5


@pytest.mark.usefixtures("_always")
async def test_a_cancelled_step_that_may_write_waits_for_the_item_that_runs() -> None:
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [8, 8], name="x")
    v = ops.VariableV2(shape=[8, 8], dtype="float32", name="v")
    init = ops.Assign(v, x, name="init")
    y = chain(graph, x, x, 3)
    add = ops.AssignAdd(v, y, name="add")
    products = Products()
    async with fe.Session(graph, kernels=products.kernels) as session:
        await session.run([], {x: EYE}, targets=[init.op])
        gate = products.gates[0] = Gate()
        ended = trio.Event()
        scope = trio.CancelScope()

        async def run() -> None:
            with scope:
                await session.run([], {x: EYE}, targets=[add.op])
            ended.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await gate.reached.wait()
            scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert not ended.is_set()
            gate.let.set()
        assert len(products.ran) == 1
        assert all(each.writer is None for each in session.resources.held(Variable))
        np.testing.assert_array_equal(await session.run(v), EYE)


@pytest.mark.usefixtures("_always")
async def test_what_a_step_only_reads_can_be_written_by_others_meanwhile() -> None:
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [8, 8], name="x")
    v = ops.VariableV2(shape=[8, 8], dtype="float32", name="v")
    assign = ops.Assign(v, x, name="assign")
    y = chain(graph, x, v, 4)
    products = Products()
    results: list[Any] = []
    async with fe.Session(graph, kernels=products.kernels) as session, trio.open_nursery() as nursery:
        await session.run([], {x: 2 * EYE}, targets=[assign.op])
        gate = products.gates[1] = Gate()

        async def run() -> None:
            results.append(await session.run(y, {x: EYE}))

        nursery.start_soon(run)
        await gate.reached.wait()
        await session.run([], {x: 5 * EYE}, targets=[assign.op])
        np.testing.assert_array_equal(await session.run(v), 5 * EYE)
        gate.let.set()
    # As it was when the offloaded run began, in all of it: nothing orders the two steps.
    np.testing.assert_array_equal(results[0], 16 * EYE)


@pytest.mark.usefixtures("_always")
async def test_who_waits_for_a_variable_gets_it_after_the_item_that_runs() -> None:
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [8, 8], name="x")
    v = ops.VariableV2(shape=[8, 8], dtype="float32", name="v")
    assign = ops.Assign(v, x, name="assign")
    y = chain(graph, x, x, 4)
    add = ops.AssignAdd(v, y, name="add")
    products = Products()
    seen: list[tuple[int, Any]] = []
    async with fe.Session(graph, kernels=products.kernels) as session, trio.open_nursery() as nursery:
        await session.run([], {x: EYE}, targets=[assign.op])
        first, last = products.gates[1], products.gates[3] = Gate(), Gate()

        async def read() -> None:
            seen.append((len(products.ran), await session.run(v)))
            last.let.set()

        nursery.start_soon(lambda: session.run([], {x: EYE}, targets=[add.op]))
        await first.reached.wait()
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        assert not seen
        first.let.set()
    np.testing.assert_array_equal(seen[0][1], EYE)


@pytest.mark.usefixtures("_always")
async def test_what_only_the_event_loop_can_run_comes_in_between(counted: list[OffloadedRun]) -> None:
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [8, 8], name="x")
    queue = ops.FIFOQueueV2(component_types=["float32"], shapes=[[8, 8]], capacity=1, name="queue")
    y = chain(graph, x, x, 2)
    put = ops.QueueEnqueueV2(queue, [y], name="put")
    with graph.control_dependencies([put]):
        taken = ops.QueueDequeueV2(queue, component_types=["float32"], name="take")
    z = ops.MatMul(taken[0], x, name="last")
    products = Products()
    async with fe.Session(graph, kernels=products.kernels) as session:
        np.testing.assert_array_equal(await session.run(z, {x: 2 * EYE}), 16 * EYE)
    assert len(counted) == 2
    assert len({thread for _, thread in products.ran}) == 1


@pytest.mark.usefixtures("_always")
async def test_items_that_wait_sends_and_recvs_leave_an_offloaded_run_through_the_outbox(
    counted: list[OffloadedRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [8, 8], name="x")
    with graph.device("CPU:1"):
        far = ops.Neg(x, name="far")
    with graph.device("CPU:0"):
        queue = ops.FIFOQueueV2(component_types=["float32"], capacity=_ATTEMPTS, name="queue")
        first = ops.MatMul(x, x, name="first")
        put = ops.QueueEnqueueV2(queue, [first], name="put")
        # Begun late: what it brings is wanted after the third product.
        fetched = ops.MatMul(chain(graph, first, x, 3), far, name="fetched")
    with graph.device("CPU:1"):
        near = ops.Neg(first, name="near")
    left: set[str] = set()
    issue = Offload.issue

    def counting(self: Offload, doing: Any) -> None:
        if self.is_away and threading.current_thread() is not threading.main_thread():
            left.add(doing.func.__name__)
        issue(self, doing)

    monkeypatch.setattr(Offload, "issue", counting)
    products = Products()
    config = fe.Config(device_count={"CPU": 2})
    found: list[Any] = []
    async with fe.Session(graph, config=config, kernels=products.kernels) as session:

        async def run() -> None:
            found[:] = await session.run([fetched, near], {x: 2 * EYE}, targets=[put])

        # Where something comes in between two products, the loop's thread does what follows the first.
        for _ in range(_ATTEMPTS):
            gate = products.gates[len(products.ran) + 1] = Gate()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run)
                with trio.fail_after(120):
                    await gate.reached.wait()
                gate.let.set()
            np.testing.assert_array_equal(found[0], -64 * EYE)
            np.testing.assert_array_equal(found[1], -4 * EYE)
            if len(left) == 3:
                break
    assert left == {"begin_async", "send", "receive"}
    assert counted


@pytest.mark.usefixtures("_always")
async def test_an_error_is_located_as_anywhere() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", None, name="x")
    other = graph.placeholder("float32", None, name="other")
    y = graph.ops.Add(graph.ops.MatMul(x, x, name="product"), other, name="sum")
    async with fe.Session(graph, kernels=Products().kernels) as session:
        with pytest.raises(fe.errors.InvalidArgumentError, match="'sum'") as caught:
            await session.run(y, {x: EYE, other: np.ones((3, 5), np.float32)})
        assert caught.value.input_shapes == ("float32[8,8]", "float32[3,5]")
        np.testing.assert_array_equal(await session.run(y, {x: EYE, other: EYE}), 2 * EYE)


def begun_with(variable: Variable, *uses: int) -> tuple[OffloadedRun, Any]:
    """An offloaded run that begins with an item at the root which uses a variable so, and that item."""
    item = SimpleNamespace(local=0, start=0)
    taken = tuple((0, use) for use in uses)
    items: Any = SimpleNamespace(at_root=((item, taken),), variables=_Uses({id(item): taken}))
    state: Any = SimpleNamespace(root=SimpleNamespace(pending=[1], entries=[variable]), ready=[])
    return OffloadedRun(items, state, lanes.Ownership(), lambda: False), item


class _Uses(dict[int, tuple[tuple[int, int], ...]]):
    """A table of the uses that items make of variables, for items that cannot be hashed."""

    def get(self, item: Any, default: Any = None) -> Any:
        return super().get(id(item), default)


def _variable() -> Variable:
    variable = Variable("v", dtypes.float32, TensorShape([]))
    variable.assign(np.float32(3))
    return variable


def test_a_variable_that_somebody_writes_is_not_lent_to_an_offloaded_run() -> None:
    """It may be half written; and what is written then is seen by whoever reads it on the event loop."""
    variable = _variable()
    assert variable.acquire("somebody")
    offloaded, item = begun_with(variable, READS)
    args: list[Any] = [variable]
    assert not offloaded.resolve(item, args)
    variable.release()
    assert not offloaded.resolve(item, args)
    assert args == [variable]
    offloaded.end()


def test_a_variable_that_is_only_lent_is_not_written_by_an_offloaded_run() -> None:
    """An item in a loop may write what those at the root only read: it is left to the event loop."""
    variable = _variable()
    offloaded, item = begun_with(variable, READS)
    writing: Any = SimpleNamespace(local=1, start=1)
    uses: Any = offloaded.items.variables
    uses[id(writing)] = ((0, TAKES),)
    args: list[Any] = [variable]
    assert not offloaded.resolve(writing, args)
    assert args == [variable]
    assert offloaded.resolve(item, args)
    assert args == [3]
    offloaded.end()
