"""Queues, tables, barriers and the rest as a user meets them: built into graphs, run by sessions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.core import dtypes as dt
from flowengine.resources.container import ResourceManager


def _floats(*values: float) -> Any:
    return np.array(values, dtype=np.float32)


@pytest.mark.parametrize("version", ["", "V2"])
async def test_queue_of_either_version(version: str) -> None:
    graph = fe.Graph()
    ops: Any = graph.ops
    queue = getattr(ops, f"FIFOQueue{version}")(
        component_types=[dt.float32], shapes=[[2]], capacity=3, name="queue"
    )
    many = graph.constant(_floats(1, 2, 3, 4).reshape(2, 2))
    getattr(ops, f"QueueEnqueueMany{version}")(queue, [many], name="enqueue")
    getattr(ops, f"QueueDequeue{version}")(queue, component_types=[dt.float32], name="dequeue")
    getattr(ops, f"QueueDequeueUpTo{version}")(
        queue, graph.constant(np.int32(5)), component_types=[dt.float32], name="rest"
    )
    getattr(ops, f"QueueSize{version}")(queue, name="size")
    getattr(ops, f"QueueClose{version}")(queue, name="close")
    async with fe.Session(graph) as session:
        await session.run([], targets=["enqueue"])
        assert await session.run("size:0") == 2
        assert (await session.run("dequeue:0")).tolist() == [1, 2]
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.run, "rest:0")
                await trio.testing.wait_all_tasks_blocked()
                assert await session.run("size:0") == 0
                scope.cancel()
        assert await session.run("size:0") == 1, "what the cancelled step had taken is back"
        await session.run([], targets=["close"])
        assert (await session.run("rest:0")).tolist() == [[3, 4]]
        with pytest.raises(fe.errors.OutOfRangeError, match="is closed and has insufficient elements"):
            await session.run("dequeue:0")
        with pytest.raises(fe.errors.CancelledError, match="is closed"):
            await session.run([], targets=["enqueue"])


async def test_timeout_of_a_waiting_step(autojump_clock: trio.testing.MockClock) -> None:
    graph = fe.Graph()
    ops: Any = graph.ops
    queue = ops.FIFOQueueV2(component_types=[dt.float32], name="queue")
    ops.QueueDequeueV2(queue, component_types=[dt.float32], name="dequeue")
    async with fe.Session(graph) as session:
        with pytest.raises(fe.errors.DeadlineExceededError):
            await session.run("dequeue:0", options=fe.RunOptions(timeout_seconds=5))
    assert autojump_clock.current_time() >= 5


async def test_a_thousand_blocked_steps_end_at_once() -> None:
    graph = fe.Graph()
    ops: Any = graph.ops
    queue = ops.FIFOQueueV2(component_types=[dt.float32], name="queue")
    ops.QueueDequeueV2(queue, component_types=[dt.float32], name="dequeue")
    ops.QueueEnqueueV2(queue, [graph.constant(np.float32(1))], name="enqueue")
    async with fe.Session(graph) as session:
        async with trio.open_nursery() as nursery:
            for _ in range(1000):
                nursery.start_soon(session.run, "dequeue:0")
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        await session.run([], targets=["enqueue"])
        assert await session.run("dequeue:0") == 1


async def test_what_a_step_enqueues_is_not_its_feed() -> None:
    graph = fe.Graph()
    ops: Any = graph.ops
    queue = ops.FIFOQueueV2(component_types=[dt.float32], shapes=[[2]], name="queue")
    fed = ops.Placeholder(dtype=dt.float32, name="fed")
    ops.QueueEnqueueV2(queue, [fed], name="enqueue")
    ops.QueueDequeueV2(queue, component_types=[dt.float32], name="dequeue")
    async with fe.Session(graph) as session:
        value = _floats(1, 2)
        await session.run([], {"fed:0": value}, targets=["enqueue"])
        value[...] = 9
        assert (await session.run("dequeue:0")).tolist() == [1, 2]


async def test_queue_declared_twice_differently() -> None:
    graph = fe.Graph()
    ops: Any = graph.ops
    one = ops.FIFOQueueV2(component_types=[dt.float32], capacity=3, shared_name="q")
    other = ops.FIFOQueueV2(component_types=[dt.float32], capacity=4, shared_name="q")
    shuffled = ops.RandomShuffleQueueV2(component_types=[dt.float32], capacity=3, shared_name="q")
    for name, queue in (("one", one), ("other", other), ("shuffled", shuffled)):
        ops.QueueSizeV2(queue, name=name)
    async with fe.Session(graph) as session:
        assert await session.run("one:0") == 0
        with pytest.raises(fe.errors.InvalidArgumentError, match="capacity 3 but requested capacity was 4"):
            await session.run("other:0")
        with pytest.raises(
            fe.errors.InvalidArgumentError, match="has type FIFOQueue but a RandomShuffleQueue"
        ):
            await session.run("shuffled:0")


async def test_resources_shared_by_sessions_and_reset() -> None:
    def build(value: float) -> fe.Graph:
        graph = fe.Graph()
        ops: Any = graph.ops
        handle = ops.VarHandleOp(dtype=dt.float32, shape=[], container="box", shared_name="v")
        ops.AssignVariableOp(handle, graph.constant(np.float32(value)), name="assign")
        ops.ReadVariableOp(handle, dtype=dt.float32, name="read")
        return graph

    shared = ResourceManager()
    async with fe.Session(build(1), resources=shared) as first:
        await first.run([], targets=["assign"])
    async with fe.Session(build(2), resources=shared) as second, fe.Session(build(3)) as alone:
        assert await second.run("read:0") == 1
        with pytest.raises(fe.errors.FailedPreconditionError):
            await alone.run("read:0")
        shared.clear("box")
        with pytest.raises(fe.errors.FailedPreconditionError):
            await second.run("read:0")
        await second.run([], targets=["assign"])
        assert await second.run("read:0") == 2


@pytest.mark.parametrize("version", ["", "V2"])
async def test_mutable_table_of_either_version(version: str) -> None:
    graph = fe.Graph()
    ops: Any = graph.ops
    table = getattr(ops, f"MutableHashTable{version}")(
        key_dtype=dt.int64, value_dtype=dt.float32, shared_name="t"
    )
    keys = graph.constant(np.array([1, 2]))
    getattr(ops, f"LookupTableInsert{version}")(table, keys, graph.constant(_floats(3, 4)), name="insert")
    getattr(ops, f"LookupTableFind{version}")(
        table, graph.constant(np.array([2, 5])), graph.constant(np.float32(-1)), name="find"
    )
    getattr(ops, f"LookupTableSize{version}")(table, name="size")
    async with fe.Session(graph) as session:
        await session.run([], targets=["insert"])
        assert (await session.run("find:0")).tolist() == [4, -1]
        assert await session.run("size:0") == 2


async def test_table_from_a_file(tmp_path: Any) -> None:
    path = tmp_path / "vocabulary.txt"
    path.write_bytes(b"zero 0.5\r\none 1.5\ntwo 2.5\n")
    graph = fe.Graph()
    ops: Any = graph.ops
    fed = ops.Placeholder(dtype=dt.string, name="path")
    cases = {"line": (dt.string, -2, dt.int64, -1), "column": (dt.string, 0, dt.float32, 1)}
    for name, (key, key_index, value, value_index) in cases.items():
        table = ops.HashTableV2(key_dtype=key, value_dtype=value, name=name)
        ops.InitializeTableFromTextFileV2(
            table, fed, key_index=key_index, value_index=value_index, delimiter=" ", name=f"{name}_fill"
        )
        wanted = graph.constant(np.array([b"one 1.5", b"two"], dtype=object))
        missing = graph.constant(np.array(-1, value.as_numpy_dtype))
        ops.LookupTableFindV2(table, wanted, missing, name=f"{name}_find")
    async with fe.Session(graph) as session:
        with pytest.raises(fe.errors.NotFoundError, match="nowhere"):
            await session.run([], {"path:0": str(tmp_path / "nowhere")}, targets=["line_fill"])
        for _ in range(2):
            await session.run([], {"path:0": str(path)}, targets=["line_fill", "column_fill"])
        assert (await session.run("line_find:0")).tolist() == [1, -1]
        assert (await session.run("column_find:0")).tolist() == [-1, 2.5]
    async with fe.Session(graph, config=fe.Config(file_access="none")) as session:
        with pytest.raises(fe.errors.PermissionDeniedError, match="file_access"):
            await session.run([], {"path:0": str(path)}, targets=["line_fill"])


async def test_barrier_accumulator_and_staging() -> None:
    graph = fe.Graph()
    ops: Any = graph.ops
    barrier = ops.Barrier(component_types=[dt.float32, dt.string], shapes=[[], []], name="barrier")
    first = graph.constant(np.array([b"a", b"b"], dtype=object))
    second = graph.constant(np.array([b"b", b"a"], dtype=object))
    ops.BarrierInsertMany(barrier, first, graph.constant(_floats(1, 2)), component_index=0, name="numbers")
    ops.BarrierInsertMany(
        barrier, second, graph.constant(np.array([b"B", b"A"], dtype=object)), component_index=1, name="names"
    )
    two = graph.constant(np.int32(2))
    ops.BarrierTakeMany(barrier, two, component_types=[dt.float32, dt.string], name="take")
    accumulator = ops.ConditionalAccumulator(dtype=dt.float32, shape=[], name="accumulator")
    fed = ops.Placeholder(dtype=dt.float32, name="gradient")
    ops.AccumulatorApplyGradient(accumulator, graph.constant(np.int64(0)), fed, name="apply")
    ops.AccumulatorTakeGradient(accumulator, two, dtype=dt.float32, name="average")
    ops.Stage([graph.constant(np.float32(5))], dtypes=[dt.float32], shared_name="area", name="stage")
    ops.Unstage(dtypes=[dt.float32], shared_name="area", name="unstage")
    results: dict[str, Any] = {}

    async with fe.Session(graph) as session:

        async def wait_for(name: str, fetches: Any) -> None:
            results[name] = await session.run(fetches)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_for, "take", ["take:1", "take:2", "take:3"])
            nursery.start_soon(wait_for, "average", "average:0")
            nursery.start_soon(wait_for, "unstage", "unstage:0")
            await trio.testing.wait_all_tasks_blocked()
            await session.run([], targets=["numbers"])
            await session.run([], {"gradient:0": np.float32(1)}, targets=["apply", "stage"])
            await trio.testing.wait_all_tasks_blocked()
            assert list(results) == ["unstage"]
            await session.run([], targets=["names"])
            await session.run([], {"gradient:0": np.float32(2)}, targets=["apply"])
    keys, numbers, names = results["take"]
    assert (keys.tolist(), numbers.tolist(), names.tolist()) == ([b"a", b"b"], [1, 2], [b"A", b"B"])
    assert results["average"] == 1.5
    assert results["unstage"] == 5


async def test_mutex_in_steps() -> None:
    graph = fe.Graph()
    ops: Any = graph.ops
    mutex = ops.MutexV2(name="mutex")
    lock = ops.MutexLock(mutex, name="lock")
    queue = ops.FIFOQueueV2(component_types=[dt.float32], name="queue")
    with graph.control_dependencies([lock]):
        (held,) = ops.QueueDequeueV2(queue, component_types=[dt.float32], name="work")
    with graph.control_dependencies([held]):
        ops.ConsumeMutexLock(lock, name="consume")
    ops.QueueEnqueueV2(queue, [graph.constant(np.float32(1))], name="enqueue")
    ended: list[int] = []
    async with fe.Session(graph) as session:

        async def step(which: int) -> None:
            await session.run([], targets=["consume"])
            ended.append(which)

        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(step, 0)
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(step, 1)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(step, 2)
            await trio.testing.wait_all_tasks_blocked()
            for which in (1, 2):
                await session.run([], targets=["enqueue"])
                await trio.testing.wait_all_tasks_blocked()
                assert ended == list(range(1, which + 1))


async def test_a_lock_of_a_mutex_is_released_once() -> None:
    graph = fe.Graph()
    ops: Any = graph.ops
    mutex = ops.MutexV2(name="mutex")
    lock = ops.MutexLock(mutex, name="lock")
    first = ops.ConsumeMutexLock(lock, name="first")
    with graph.control_dependencies([first]):
        ops.ConsumeMutexLock(lock, name="second")
    async with fe.Session(graph) as session:
        with pytest.raises(fe.errors.InvalidArgumentError, match="released already"):
            await session.run([], targets=["second"])
        # The next step has it all the same.
        await session.run([], targets=["first"])


async def test_mutex_acquired_and_released() -> None:
    graph = fe.Graph()
    ops: Any = graph.ops
    mutex = ops.MutexV2(name="mutex")
    counter = ops.VariableV2(shape=[], dtype=dt.int32, name="counter")
    ops.Assign(counter, np.int32(0), name="clear")
    acquired = ops.MutexAcquire(mutex, name="acquire")
    with graph.control_dependencies([acquired]):
        before = ops.Add(ops.Identity(counter), np.int32(1))
    queue = ops.FIFOQueueV2(component_types=[dt.int32], name="pause")
    with graph.control_dependencies([before]):
        (pause,) = ops.QueueDequeueV2(queue, component_types=[dt.int32])
    with graph.control_dependencies([pause]):
        stored = ops.Assign(counter, before)
    with graph.control_dependencies([stored]):
        ops.MutexRelease(mutex, name="count")
    ops.QueueEnqueueV2(queue, [np.int32(0)], name="go")
    ops.Identity(counter, name="read")
    ops.MutexRelease(mutex, name="astray")
    async with fe.Session(graph) as session:
        await session.run("clear")
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(session.run, "count")
            for _ in range(5):
                await trio.testing.wait_all_tasks_blocked()
                await session.run("go")
        assert await session.run("read:0") == 5
        with pytest.raises(fe.errors.FailedPreconditionError, match="does not hold mutex 'mutex'"):
            await session.run("astray")


@pytest.mark.parametrize("version", ["", "V2", "V3"])
async def test_tensor_array_of_every_version(version: str) -> None:
    graph = fe.Graph()
    ops: Any = graph.ops
    made = getattr(ops, f"TensorArray{version}")(
        graph.constant(np.int32(2)), dtype=dt.float32, clear_after_read=False
    )
    array, flow = made if version == "V3" else (made, graph.constant(np.float32(0)))
    for index in range(2):
        value = graph.constant(_floats(index, 10))
        flow = getattr(ops, f"TensorArrayWrite{version}")(array, graph.constant(np.int32(index)), value, flow)
    gather = getattr(ops, f"TensorArrayGather{version}")
    gather(array, graph.constant(np.array([1, 0], np.int32)), flow, dtype=dt.float32, name="gather")
    getattr(ops, f"TensorArraySize{version}")(array, flow, name="size")
    getattr(ops, f"TensorArrayConcat{version}")(array, flow, dtype=dt.float32, name="concat")
    made = getattr(ops, f"TensorArrayGrad{version}")(array, flow, source="g")
    gradient, gradient_flow = made if version == "V3" else (made, flow)
    for _ in range(2):
        gradient_flow = getattr(ops, f"TensorArrayWrite{version}")(
            gradient, graph.constant(np.int32(0)), graph.constant(_floats(1, 2)), gradient_flow
        )
    getattr(ops, f"TensorArrayRead{version}")(
        gradient, graph.constant(np.int32(0)), gradient_flow, dtype=dt.float32, name="added"
    )
    async with fe.Session(graph) as session:
        for _ in range(2):
            gathered, size, joined, lengths, added = await session.run(
                ["gather:0", "size:0", "concat:0", "concat:1", "added:0"]
            )
            assert gathered.tolist() == [[1, 10], [0, 10]]
            assert (size, joined.tolist(), lengths.tolist()) == (2, [0, 10, 1, 10], [2, 2])
            assert added.tolist() == [2, 4]


async def test_dynamic_batching_of_concurrent_steps(autojump_clock: trio.testing.MockClock) -> None:
    graph = fe.Graph()
    ops: Any = graph.ops
    fed = ops.Placeholder(dtype=dt.float32, name="fed")
    attrs = {
        "num_batch_threads": 1,
        "max_batch_size": 8,
        "batch_timeout_micros": 1000,
        "grad_timeout_micros": 0,
    }
    (batched,), index, key = ops.Batch([fed], **attrs)
    doubled = ops.Mul(batched, graph.constant(np.float32(2)))
    ops.Unbatch(doubled, index, key, timeout_micros=1_000_000, name="mine")
    results: dict[int, Any] = {}
    async with fe.Session(graph) as session:

        async def request(which: int) -> None:
            results[which] = (await session.run("mine:0", {"fed:0": _floats(which)})).tolist()

        async with trio.open_nursery() as nursery:
            for which in range(20):
                nursery.start_soon(request, which)
    assert results == {which: [2 * which] for which in range(20)}
    assert autojump_clock.current_time() < 1
