"""Small partitions of other tasks' steps run in the executor without a trio task."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.cluster.local import free_ports
from flowengine.resources.variable import Variable
from flowengine.runtime.planning import tiers
from flowengine.runtime.taskless import TasklessStep
from flowengine.transport.wire.identity import new_key

PS = "/job:ps/task:0"
WORKER = "/job:worker/task:0"


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[TasklessStep]:
    """The steps that were begun without a task. All plans are settled from the start."""
    steps: list[TasklessStep] = []
    begin = TasklessStep.begin

    def counted(self: TasklessStep) -> None:
        steps.append(self)
        begin(self)

    monkeypatch.setattr(TasklessStep, "begin", counted)
    monkeypatch.setattr(tiers, "HOT_RUNS", 0)
    return steps


@asynccontextmanager
async def session_on(graph: fe.Graph, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """A session, and the servers of a PS task and of the worker that is its master."""
    monkeypatch.setenv("FLOWENGINE_CLUSTER_KEY", new_key().hex())
    ps, worker = (f"127.0.0.1:{port}" for port in free_ports(2))
    spec = fe.ClusterSpec.of({"ps": [ps], "worker": [worker]})
    async with (
        fe.Server(spec, "ps", 0) as first,
        fe.Server(spec, "worker", 0) as second,
        fe.Session(graph, target=second.target) as session,
    ):
        yield session, first, second


def there_and_back() -> fe.Graph:
    """y = -(2 (x + 1) + total), where PS adds x + 1 to its total first; z = exp(x) of the worker."""
    g = fe.Graph()
    x = g.placeholder("float32", [None], name="x")
    with g.device(PS):
        total = g.ops.VariableV2(shape=[3], dtype="float32", name="total")
        g.ops.Assign(total, g.constant(np.zeros(3, np.float32)), name="init")
    with g.device(WORKER):
        more = g.ops.Add(x, g.constant(np.float32(1)))
        g.ops.Exp(g.ops.Identity(x), name="z")
    with g.device(PS):
        added = g.ops.AssignAdd(total, more)
        with g.control_dependencies([added]):
            parts = g.ops.Split(
                g.constant(np.int32(0)), g.ops.Mul(more, g.constant(np.float32(2))), num_split=3
            )
            result = g.ops.Add(g.ops.ConcatV2(list(parts), g.constant(np.int32(0))), g.ops.Identity(total))
    with g.device(WORKER):
        g.ops.Neg(result, name="y")
    return g


async def run_there_and_back(session: fe.Session, steps: int) -> None:
    await session.run([], targets=["init"])
    total = np.zeros(3, np.float32)
    for step in range(steps):
        x = np.array([step, 1, -step], np.float32)
        total += x + 1
        y, z = await session.run(["y:0", "z:0"], {"x:0": x})
        assert np.array_equal(y, -(2 * (x + 1) + total))
        assert np.array_equal(z, np.exp(x))


async def test_steps_run_without_tasks(begun: list[TasklessStep], monkeypatch: pytest.MonkeyPatch) -> None:
    async with session_on(there_and_back(), monkeypatch) as (session, ps, worker):
        await run_there_and_back(session, 10)
        assert len(begun) == 1 + 2 * 10  # the first step is for PS alone
        variable = ps.worker.resources.lookup("", "total", Variable)
        assert variable.copies == 0
        assert not ps.worker._runner.running
        assert not worker.worker._runner.running
        with trio.fail_after(120):
            while ps.worker.steps_running or worker.worker.steps_running:
                await trio.lowlevel.checkpoint()


async def test_a_dead_tensor_comes(begun: list[TasklessStep], monkeypatch: pytest.MonkeyPatch) -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [], name="x")
    with g.device(WORKER):
        below, above = g.ops.Switch(x, g.ops.Greater(x, g.constant(np.float32(0))))
        still = g.ops.Neg(x)
    with g.device(PS):
        far_below = g.ops.Exp(below)
        far_above = g.ops.Sqrt(above)
        beside = g.ops.Mul(still, still, name="beside")
    with g.device(WORKER):
        g.ops.Identity(g.ops.Merge([far_below, far_above]).output, name="y")
    async with session_on(g, monkeypatch) as (session, ps, worker):
        for number in (4, -1, 9, -2, 0, 16):
            with trio.fail_after(120):
                y, square = await session.run(["y:0", beside], {"x:0": number})
            assert y == (np.sqrt(np.float32(number)) if number > 0 else np.exp(np.float32(number)))
            assert square == number**2
        assert begun
        assert ps.worker.steps_running == worker.worker.steps_running == 0


@pytest.mark.parametrize("where", [PS, WORKER])
async def test_an_error_names_its_node(
    begun: list[TasklessStep], monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    g = fe.Graph()
    x = g.placeholder("int32", [], name="x")
    with g.device(WORKER if where == PS else PS):
        first = g.ops.Identity(x)
    with g.device(where):
        bad = g.ops.FloorDiv(g.constant(np.int32(6)), first, name="bad")
    with g.device(WORKER if where == PS else PS):
        g.ops.Neg(bad, name="y")
    async with session_on(g, monkeypatch) as (session, ps, worker):
        for _ in range(3):
            assert await session.run("y:0", {"x:0": 2}) == -3
            with trio.fail_after(120), pytest.raises(fe.errors.InvalidArgumentError) as raised:
                await session.run("y:0", {"x:0": 0})
            assert raised.value.node_name == "bad"
            assert raised.value.device == where.replace("/task", "/replica:0/task") + "/device:CPU:0"
        assert begun
        with trio.fail_after(120):
            while ps.worker.steps_running or worker.worker.steps_running:
                await trio.lowlevel.checkpoint()


async def test_what_cannot_be_sent_is_an_error_of_its_step(
    begun: list[TasklessStep], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that a step without a task fails with gets out of it: the task goes on with the next."""
    g = fe.Graph()
    x = g.placeholder("int32", [], name="x")
    with g.device(PS):
        count = g.ops.Neg(g.ops.Identity(x))
        made = g.ops.EmptyTensorList(g.constant([], "int32"), count, element_dtype="float32", name="made")
        g.ops.TensorListLength(made, name="there")
    with g.device(WORKER):
        g.ops.TensorListLength(made, name="here")
    async with session_on(g, monkeypatch) as (session, _, _):
        for _ in range(3):
            assert await session.run("there:0", {"x:0": 1}) == 0
            with (
                trio.fail_after(120),
                pytest.raises(
                    fe.errors.InvalidArgumentError, match="cannot travel to another task"
                ) as raised,
            ):
                await session.run("here:0", {"x:0": 1})
            assert str(raised.value.node_name).startswith("made/_send")
            assert raised.value.device == PS.replace("/task", "/replica:0/task") + "/device:CPU:0"
        assert begun


async def test_a_closed_session_ends_a_step_that_waits(
    begun: list[TasklessStep], monkeypatch: pytest.MonkeyPatch
) -> None:
    g = fe.Graph()
    with g.device(PS):
        queue = g.ops.FIFOQueueV2(component_types=["int32"], shapes=[[]], name="queue")
        (never,) = g.ops.QueueDequeueV2(queue, component_types=["int32"], name="never")
    with g.device(WORKER):
        g.ops.Neg(never, name="y")
    async with session_on(g, monkeypatch) as (session, ps, worker), trio.open_nursery() as nursery:

        async def wait() -> None:
            with pytest.raises(fe.errors.CancelledError):
                await session.run("y:0")

        nursery.start_soon(wait)
        with trio.fail_after(120):
            while not (ps.worker.steps_running and worker.worker.steps_running):
                await trio.lowlevel.checkpoint()
            assert begun
            # What runs may still stand in line for its turn.
            while worker.worker.probe(next(iter(worker.worker.parts.joint))) is None:
                await trio.lowlevel.checkpoint()
            await session.close()
            while ps.worker.steps_running or worker.worker.steps_running:
                await trio.lowlevel.checkpoint()


async def test_nothing_warns_of_what_kernels_compute(
    begun: list[TasklessStep], monkeypatch: pytest.MonkeyPatch
) -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [2], name="x")
    with g.device(PS):
        g.ops.RealDiv(g.ops.Mul(x, x), g.ops.Sub(x, x), name="y")
    with g.device(WORKER):
        g.ops.Mul(x, g.constant(np.float32(3e38)), name="z")
    async with session_on(g, monkeypatch) as (session, _, _):
        for _ in range(8):
            y, z = await session.run(["y:0", "z:0"], {"x:0": np.array([3, 0], np.float32)})
            assert np.array_equal(y, [np.inf, np.nan], equal_nan=True)
            assert np.array_equal(z, [np.inf, 0])
        assert begun
        # What is run without warnings is run so there only.
        assert np.geterr()["over"] == "warn"
