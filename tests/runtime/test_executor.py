"""Places where items run: inline slices, worker threads, trio tasks; parking, failure, cancellation there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.core.dtypes import float32
from flowengine.ir.opdef import OpDef, OpRegistry
from flowengine.kernels.load import load_all
from flowengine.kernels.registry import KernelRegistry
from flowengine.ops.load import registry as op_registry
from flowengine.resources.variable import Variable


class Lab:
    """A graph whose op `Probe` (one float32 input and output) is what a test says it is."""

    def __init__(self, function: Callable[..., Any], **kernel: Any) -> None:
        self.ops = OpRegistry(parent=op_registry())
        self.ops.register(
            OpDef.build("Probe", inputs=["x: float"], outputs=["y: float"], attrs=[], is_stateful=True)
        )
        self.kernels = KernelRegistry(parent=load_all())
        self.kernels.kernel("Probe", **kernel)(function)
        self.graph = fe.Graph(registry=self.ops)
        self.x = self.graph.placeholder("float32", None, name="x")
        self.y = self.graph.ops["Probe"](self.x, name="probe")

    def session(self, **config: Any) -> fe.Session:
        return fe.Session(self.graph, kernels=self.kernels, config=fe.Config(**config))


SMALL = np.ones(4, np.float32)
LARGE = np.ones(1_000_000, np.float32)


async def test_small_inputs_run_here_and_large_ones_on_a_worker_thread() -> None:
    threads: list[str] = []

    def probe(x: Any) -> Any:
        threads.append(threading.current_thread().name)
        return x + 1

    lab = Lab(probe)
    metadata = fe.RunMetadata()
    async with lab.session() as session:
        await session.run(lab.y, {lab.x: SMALL}, run_metadata=metadata)
        assert metadata.heavy_items == 0
        assert (await session.run(lab.y, {lab.x: LARGE}, run_metadata=metadata))[0] == 2
        assert metadata.heavy_items == 1
    assert threads[0] == threading.current_thread().name
    assert threads[1].startswith("flowengine-")


async def test_without_worker_threads_everything_runs_here() -> None:
    threads: list[str] = []

    def probe(x: Any) -> Any:
        threads.append(threading.current_thread().name)
        return x

    lab = Lab(probe)
    async with lab.session(worker_threads=False) as session:
        await session.run(lab.y, {lab.x: LARGE})
    assert threads == [threading.current_thread().name]


async def test_a_cost_estimate_decides_for_a_kernel_that_has_one() -> None:
    lab = Lab(lambda x: x, heavy=lambda x: 1000.0 if x.size == 5 else 1.0)
    metadata = fe.RunMetadata()
    async with lab.session() as session:
        for size, heavy in ((4, 0), (5, 1)):
            await session.run(lab.y, {lab.x: np.ones(size, np.float32)}, run_metadata=metadata)
            assert metadata.heavy_items == heavy


def products(microseconds: float, seen: Callable[[], None]) -> KernelRegistry:
    """Kernels whose MatMul, which uses every core, says that it takes so long, and calls `seen`."""
    kernels = KernelRegistry(parent=load_all())

    def product(a: Any, b: Any) -> Any:
        seen()
        time.sleep(microseconds * 1e-6)
        return a @ b

    kernels.kernel("MatMul", heavy=lambda a, b: microseconds)(product)
    return kernels


@pytest.mark.parametrize(("microseconds", "heavy"), [(1500.0, 0), (5000.0, 1)])
async def test_a_product_that_would_be_alone_may_take_a_slice_here(microseconds: float, heavy: int) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [200, 200], name="x")
    y = graph.ops.MatMul(x, x)
    metadata = fe.RunMetadata()
    async with fe.Session(graph, kernels=products(microseconds, lambda: None)) as session:
        await session.run(y, {x: np.eye(200, dtype=np.float32)}, run_metadata=metadata)
    assert metadata.heavy_items == heavy


@pytest.mark.parametrize("from_variable", [False, True])
async def test_the_host_has_its_turn_between_products_that_fill_slices(from_variable: bool) -> None:
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [200, 200], name="x")
    factor = x
    if from_variable:
        factor = ops.VariableV2(shape=[200, 200], dtype="float32", name="v")
        ops.Assign(factor, x, name="assign")
    y = x
    for _ in range(4):
        y = ops.MatMul(y, factor)
    turns = 0
    seen: list[tuple[int, str]] = []

    class Turns(trio.abc.Instrument):
        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            nonlocal turns
            turns += 1

    value = np.eye(200, dtype=np.float32) * 2

    def note() -> None:
        seen.append((turns, threading.current_thread().name))

    async with fe.Session(graph, kernels=products(1500.0, note)) as session:
        if from_variable:
            await session.run([], {x: value}, targets=["assign"])
        trio.lowlevel.add_instrument(Turns())
        result = await session.run(y, {x: value})
    np.testing.assert_array_equal(result, np.eye(200) * 32)
    assert len(seen) == 4
    here = threading.current_thread().name
    turns_here = [turn for turn, name in seen if name == here]
    assert len(turns_here) == len(set(turns_here)) >= 1


async def test_the_error_of_a_heavy_kernel_is_located_like_any_other() -> None:
    def probe(x: Any) -> Any:
        raise ValueError("no good")

    lab = Lab(probe)
    async with lab.session() as session:
        with pytest.raises(fe.errors.InvalidArgumentError, match=r"Probe 'probe'.*no good") as caught:
            await session.run(lab.y, {lab.x: LARGE})
        assert caught.value.input_shapes == ("float32[1000000]",)


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (MemoryError(), fe.errors.ResourceExhaustedError),
        (IndexError("x"), fe.errors.InvalidArgumentError),
        (RuntimeError("bug"), fe.errors.InternalError),
        (fe.errors.DataLossError("torn"), fe.errors.DataLossError),
    ],
)
async def test_what_a_kernel_raises_becomes_one_class_of_ours(raised: Exception, expected: type) -> None:
    def probe(x: Any) -> Any:
        raise raised

    lab = Lab(probe)
    async with lab.session() as session:
        with pytest.raises(expected):
            await session.run(lab.y, {lab.x: SMALL})


async def test_a_cancelled_step_leaves_a_pure_kernel_on_its_thread() -> None:
    begun, go = threading.Event(), threading.Event()

    def probe(x: Any) -> Any:
        if x.size > 1_000_000:
            begun.set()
            go.wait(10)
        return x

    lab = Lab(probe)
    async with lab.session() as session:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.run, lab.y, {lab.x: np.ones(2_000_000, np.float32)})
                await trio.to_thread.run_sync(begun.wait)
                scope.cancel()
        assert scope.cancelled_caught
        assert not go.is_set()  # it was not waited for
        go.set()
        assert (await session.run(lab.y, {lab.x: LARGE})).size == LARGE.size


class WriterLab(Lab):
    """Besides, `Write` adds its second input to a variable, on a worker thread when that is large."""

    def __init__(self) -> None:
        super().__init__(lambda x: x)
        self.begun, self.go = threading.Event(), threading.Event()
        self.ops.register(
            OpDef.build("Write", inputs=["v: Ref(float)", "x: float"], attrs=[], is_stateful=True)
        )

        def write(variable: Variable, x: Any) -> None:
            self.begun.set()
            self.go.wait(10)
            variable.mutable()[...] += x

        self.kernels.kernel("Write")(write)
        graph = self.graph
        self.variable = graph.ops.VariableV2(shape=[LARGE.size], dtype=float32, name="v")
        self.init = graph.ops.Assign(self.variable, self.x, name="init")
        self.write = graph.ops["Write"](self.variable, self.x, name="write")
        self.read = graph.ops.Identity(self.variable, name="read")


async def test_who_wants_a_variable_that_a_thread_writes_is_parked_until_it_is_written() -> None:
    lab = WriterLab()
    async with lab.session() as session:
        await session.run(lab.init.op, {lab.x: LARGE})
        seen: list[float] = []

        async def read() -> None:
            seen.append((await session.run(lab.read))[0])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.run, "write", {lab.x: LARGE})
            await trio.to_thread.run_sync(lab.begun.wait)
            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            assert seen == []
            lab.go.set()
        assert seen == [2]


async def test_a_cancelled_step_waits_for_a_kernel_that_writes() -> None:
    lab = WriterLab()
    async with lab.session() as session:
        await session.run(lab.init.op, {lab.x: LARGE})
        ended = trio.Event()
        scope = trio.CancelScope()

        async def write() -> None:
            with scope:
                await session.run("write", {lab.x: LARGE})
            ended.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            await trio.to_thread.run_sync(lab.begun.wait)
            scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert not ended.is_set()
            lab.go.set()
        assert scope.cancelled_caught
        assert (await session.run(lab.read))[0] == 2  # the write was not torn


async def test_a_parked_item_of_a_cancelled_step_is_forgotten() -> None:
    lab = WriterLab()
    async with lab.session() as session:
        await session.run(lab.init.op, {lab.x: LARGE})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.run, "write", {lab.x: LARGE})
            await trio.to_thread.run_sync(lab.begun.wait)
            with trio.move_on_after(0):
                await session.run(lab.read)
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as readers:
                    readers.start_soon(session.run, lab.read)
                    await trio.testing.wait_all_tasks_blocked()
                    scope.cancel()
            (variable,) = session.resources.held(Variable)
            assert not variable._parked, "who is gone is not woken"
            lab.go.set()
        assert (await session.run(lab.read))[0] == 2


async def test_a_nowait_kernel_needs_no_task() -> None:
    async def probe(x: Any) -> Any:
        await trio.lowlevel.checkpoint()
        return x + 2

    metadata = fe.RunMetadata()
    lab = Lab(probe, nowait=lambda x: x + 1)
    async with lab.session() as session:
        assert (await session.run(lab.y, {lab.x: SMALL}, run_metadata=metadata))[0] == 2
    assert metadata.async_items == 0
    lab = Lab(probe)
    async with lab.session() as session:
        assert (await session.run(lab.y, {lab.x: SMALL}, run_metadata=metadata))[0] == 3
    assert metadata.async_items == 1


async def test_the_first_error_is_raised_and_others_are_its_notes() -> None:
    barrier = trio.Event()

    async def probe(x: Any) -> Any:
        try:
            if x.size == 1:
                await barrier.wait()
                raise fe.errors.DataLossError("first")
            barrier.set()
            await trio.sleep_forever()
        except trio.Cancelled:
            raise fe.errors.AbortedError("second") from None

    lab = Lab(probe)
    other = lab.graph.ops["Probe"](lab.graph.constant([1.0]), name="other")
    async with lab.session() as session:
        with pytest.raises(fe.errors.DataLossError, match="first") as caught:
            await session.run([lab.y, other], {lab.x: SMALL})
        assert any("second" in note for note in caught.value.__notes__)


async def test_the_callers_cancellation_is_not_translated() -> None:
    async def probe(x: Any) -> Any:
        await trio.sleep_forever()

    lab = Lab(probe)
    async with lab.session() as session:
        with trio.CancelScope() as scope:
            scope.cancel()
            with pytest.raises(trio.Cancelled):
                await session.run(lab.y, {lab.x: SMALL})
        assert scope.cancel_called


async def test_a_timeout_is_deadline_exceeded(autojump_clock: trio.testing.MockClock) -> None:
    async def probe(x: Any) -> Any:
        await trio.sleep_forever()

    lab = Lab(probe)
    async with lab.session() as session:
        with pytest.raises(fe.errors.DeadlineExceededError, match="30 s"):
            await session.run(lab.y, {lab.x: SMALL}, options=fe.RunOptions(timeout_seconds=30))


async def test_closing_the_session_ends_its_steps_with_cancelled_error() -> None:
    async def probe(x: Any) -> Any:
        await trio.sleep_forever()

    lab = Lab(probe)
    session = lab.session()
    caught: list[BaseException] = []

    async def wait() -> None:
        try:
            await session.run(lab.y, {lab.x: SMALL})
        except fe.errors.CancelledError as error:
            caught.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        await session.close()
    assert len(caught) == 1


async def test_a_long_run_of_small_items_yields_to_the_host() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [4], name="x")
    y = x
    for _ in range(20_000):
        y = graph.ops.Neg(y)
    turns = 0

    async def host(stop: trio.Event) -> None:
        nonlocal turns
        while not stop.is_set():
            await trio.lowlevel.checkpoint()
            turns += 1

    async with fe.Session(graph) as session:
        stop = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(host, stop)
            assert (await session.run(y, {x: SMALL})).tolist() == [1, 1, 1, 1]
            stop.set()
    assert turns >= 5


async def test_of_two_large_kernels_one_runs_on_a_thread_and_one_here() -> None:
    """Both are under way at once, interpreted and compiled, once it is known what they take."""
    meeting = threading.Barrier(2)
    met: list[bool] = []
    threads: set[str] = set()
    waits = False

    def probe(x: Any) -> Any:
        if waits:
            try:
                meeting.wait(timeout=20)
                met.append(True)
            except threading.BrokenBarrierError:
                met.append(False)
            threads.add(threading.current_thread().name.partition("-")[0])
            return x + 1
        # Long enough to be worth a thread, on any machine, and short enough to run here.
        end = perf_counter() + 300e-6
        while perf_counter() < end:
            np.add(x, 1)
        return x + 1

    lab = Lab(probe, heavy=lambda x: 300.0)
    other = lab.graph.ops["Probe"](lab.x, name="other")
    total = lab.graph.ops.Add(lab.y, other)
    for compiles in (False, True):
        async with lab.session(compile_hot_plans=compiles) as session:
            waits = False
            for _ in range(6):
                await session.run(total, {lab.x: np.ones(1000, np.float32)})
            waits = True
            threads.clear()
            met.clear()
            await session.run(total, {lab.x: np.ones(1000, np.float32)})
        assert met == [True, True]
        assert threads == {"flowengine", threading.current_thread().name}
