"""Memory of a session in all: steps, variables, queues, tables and plans, counted and bounded together."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe

_EXHAUSTED = fe.errors.ResourceExhaustedError


def _config(limit: int = 2_000_000, **others: Any) -> fe.Config:
    return fe.Config(session_memory_bytes=limit, **others)


def _queue(g: fe.Graph, kind: str, dtype: str, **attrs: Any) -> Any:
    return getattr(g.ops, kind)(component_types=[dtype], capacity=-1, name="queue", **attrs)


async def _until_refused(step: Callable[[int], Any]) -> int:
    """How many steps there is room for."""
    for number in range(20):
        try:
            await step(number)
        except _EXHAUSTED as error:
            if "session_memory_bytes" in str(error):
                return number
            raise
    raise AssertionError("there is no bound")


_KINDS: list[tuple[str, dict[str, Any]]] = [
    ("FIFOQueueV2", {}),
    ("FIFOQueueV2", {"shapes": [[]]}),
    ("PaddingFIFOQueueV2", {"shapes": [[]]}),
    ("RandomShuffleQueueV2", {}),
    ("RandomShuffleQueueV2", {"shapes": [[]]}),
]


@pytest.mark.parametrize(("kind", "attrs"), _KINDS)
async def test_an_enqueue_beyond_it_is_refused_whole(kind: str, attrs: dict[str, Any]) -> None:
    g = fe.Graph()
    queue = _queue(g, kind, "string", **attrs)
    x = g.placeholder("string", [], name="x")
    g.ops.QueueEnqueueV2(queue, [x], name="put")
    g.ops.QueueDequeueV2(queue, component_types=["string"], name="get")
    g.ops.QueueSizeV2(queue, name="size")
    g.ops.QueueEnqueueManyV2(queue, [g.placeholder("string", [None], name="many")], name="put_many")
    async with fe.Session(g, config=_config()) as session:
        text = b"a" * 400_000
        put = await _until_refused(lambda n: session.run("put", {"x:0": text + b"%d" % n}))
        assert put == await session.run("size:0") == 4
        assert 1_600_000 < (session.statistics().used_bytes or 0) < 1_650_000
        assert session.statistics().refused == 1
        taken = [await session.run("get:0") for _ in range(put)]
        assert sorted(taken) == [text + b"%d" % n for n in range(put)], "none is lost, none is half there"
        assert (session.statistics().used_bytes or 0) < 50_000
        batch = np.array([b"%d" % n * 100_000 for n in range(10)] + [b"b" * 1_500_000], object)
        if attrs:
            with pytest.raises(_EXHAUSTED, match="session_memory_bytes"):
                await session.run("put_many", {"many:0": batch})
            assert await session.run("size:0") == 0
            await session.run("put_many", {"many:0": batch[:5]})
            assert await session.run("size:0") == 5
        await session.run("put", {"x:0": text})


@pytest.mark.parametrize("kind", ["FIFOQueueV2", "PaddingFIFOQueueV2", "RandomShuffleQueueV2"])
@pytest.mark.parametrize(
    ("bound", "config"),
    [
        ("memory_limit_bytes", fe.Config(memory_limit_bytes=10_000_000)),
        ("session_memory_bytes", _config(10_000_000)),
    ],
)
async def test_rows_of_nothing_are_elements_too(kind: str, bound: str, config: fe.Config) -> None:
    g = fe.Graph()
    queue = _queue(g, kind, "int32", shapes=[[0]])
    g.ops.QueueEnqueueManyV2(queue, [g.placeholder("int32", [None, 0], name="many")], name="put_many")
    g.ops.QueueSizeV2(queue, name="size")
    async with fe.Session(g, config=config) as session:
        with pytest.raises(_EXHAUSTED, match=bound):
            await session.run("put_many", {"many:0": np.empty((1 << 40, 0), np.int32)})
        assert await session.run("size:0") == 0
        await session.run("put_many", {"many:0": np.empty((1_000, 0), np.int32)})
        assert await session.run("size:0") == 1_000


async def test_priorities_and_arrays_count_too() -> None:
    g = fe.Graph()
    queue = g.ops.PriorityQueueV2(component_types=["float32"], shapes=[[100_000]], name="queue")
    x = g.placeholder("float32", [100_000], name="x")
    g.ops.QueueEnqueueV2(queue, [g.constant(3, "int64"), x], name="put")
    g.ops.QueueDequeueManyV2(queue, 3, component_types=["int64", "float32"], name="get")
    async with fe.Session(g, config=_config()) as session:
        await _until_refused(lambda _: session.run("put", {"x:0": np.ones(100_000, np.float32)}))
        assert session.statistics().used_bytes == pytest.approx(1_600_000, rel=0.05)
        await session.run("get")
        assert session.statistics().used_bytes == pytest.approx(400_000, rel=0.1)


async def test_what_is_added_up_counts_until_it_is_taken() -> None:
    """Gradients of tensors as one sum; of slices as many as have different indices."""
    g = fe.Graph()
    x = g.placeholder("float32", [100_000], name="x")
    dense = g.ops.ConditionalAccumulator(dtype="float32", shape=[100_000], name="dense")
    g.ops.AccumulatorApplyGradient(dense, g.constant(0, "int64"), x, name="add")
    g.ops.AccumulatorTakeGradient(dense, 1, dtype="float32", name="take")
    sparse = g.ops.SparseConditionalAccumulator(dtype="float32", shape=[-1, 100_000], name="sparse")
    index = g.placeholder("int64", [1], name="index")
    g.ops.SparseAccumulatorApplyGradient(
        sparse,
        g.constant(0, "int64"),
        index,
        g.placeholder("float32", [1, 100_000], name="slice"),
        [10, 100_000],
        has_known_shape=True,
        name="add_slice",
    )
    g.ops.SparseAccumulatorTakeGradient(sparse, 1, dtype="float32", name="take_slices")
    ones = np.ones(100_000, np.float32)
    async with fe.Session(g, config=_config()) as session:
        for _ in range(3):
            await session.run("add", {"x:0": ones})
            assert session.statistics().used_bytes == pytest.approx(400_000, rel=0.1)

        async def add_slice(number: int) -> None:
            await session.run("add_slice", {"slice:0": ones[None], "index:0": [number]})

        put = await _until_refused(add_slice)
        assert 2 <= put == len(await session.run("take_slices:0"))
        await session.run("take:0")
        assert (session.statistics().used_bytes or 0) < 50_000


async def test_an_assignment_beyond_it_leaves_the_variable_as_it_was() -> None:
    g = fe.Graph()
    handle = g.ops.VarHandleOp(dtype="float32", shape=[None], shared_name="v", name="v")
    x = g.placeholder("float32", [None], name="x")
    g.ops.AssignVariableOp(handle, x, name="assign")
    g.ops.ReadVariableOp(handle, dtype="float32", name="read")
    old = g.ops.VariableV2(dtype="float32", shape=[], name="old")
    g.ops.Assign(old, x, validate_shape=False, name="assign_old")
    async with fe.Session(g, config=_config()) as session:
        for assign, read in (("assign", "read:0"), ("assign_old", "old:0")):
            await session.run(assign, {"x:0": np.arange(10, dtype=np.float32)})
            with pytest.raises(_EXHAUSTED, match="session_memory_bytes"):
                await session.run(assign, {"x:0": np.ones(600_000, np.float32)})
            np.testing.assert_array_equal(await session.run(read), np.arange(10))
            await session.run(assign, {"x:0": np.ones(200_000, np.float32)})
        assert session.statistics().used_bytes == pytest.approx(1_600_000, rel=0.05)


async def test_a_write_that_needs_a_copy_beyond_it_leaves_the_variable_as_it_was() -> None:
    """A value that was read stays as it is, so a write of one row takes the memory of all rows."""
    g = fe.Graph()
    handle = g.ops.VarHandleOp(dtype="float32", shape=[200_000], shared_name="v", name="v")
    x = g.placeholder("float32", [200_000], name="x")
    g.ops.AssignVariableOp(handle, x, name="assign")
    before = g.ops.ReadVariableOp(handle, dtype="float32", name="read")
    with g.control_dependencies([before.op]):
        written = g.ops.ResourceScatterAdd(handle, [0], [1.0])
    with g.control_dependencies([written]):
        g.ops.Sum(before, [0], name="after")
    async with fe.Session(g, config=_config(1_200_000)) as session:
        await session.run("assign", {"x:0": np.zeros(200_000, np.float32)})
        with pytest.raises(_EXHAUSTED, match="session_memory_bytes"):
            await session.run("after:0")
        assert (await session.run("read:0"))[0] == 0


@pytest.mark.parametrize("op", ["MutableHashTableV2", "MutableDenseHashTableV2"])
async def test_an_insert_beyond_it_is_refused_whole(op: str) -> None:
    g = fe.Graph()
    if op == "MutableHashTableV2":
        table = g.ops.MutableHashTableV2(key_dtype="int64", value_dtype="string", name="table")
    else:
        table = g.ops.MutableDenseHashTableV2(
            g.constant(-1, "int64"), g.constant(-2, "int64"), value_dtype="string", name="table"
        )
    keys, values = g.placeholder("int64", [None], name="k"), g.placeholder("string", [None], name="v")
    g.ops.LookupTableInsertV2(table, keys, values, name="insert")
    g.ops.LookupTableRemoveV2(table, keys, Tin="int64", name="remove")
    g.ops.LookupTableSizeV2(table, name="size")
    async with fe.Session(g, config=_config()) as session:

        async def insert(first: int, count: int) -> None:
            texts = np.array([b"%d" % n * 50 for n in range(count)], object)
            await session.run("insert", {"k:0": np.arange(first, first + count), "v:0": texts})

        await insert(0, 2000)
        used = session.statistics().used_bytes or 0
        await insert(0, 2000)
        assert session.statistics().used_bytes == used, "the same entries again"
        with pytest.raises(_EXHAUSTED, match="session_memory_bytes"):
            await insert(2000, 9000)
        assert await session.run("size:0") == 2000
        await session.run("remove", {"k:0": np.arange(1900)})
        assert (session.statistics().used_bytes or 0) < 0.2 * used
        await insert(2000, 1000)


async def test_a_table_takes_what_python_says() -> None:
    g = fe.Graph()
    table = g.ops.MutableHashTableV2(key_dtype="string", value_dtype="int64", name="table")
    keys, values = g.placeholder("string", [None], name="k"), g.placeholder("int64", [None], name="v")
    g.ops.LookupTableInsertV2(table, keys, values, name="insert")
    async with fe.Session(g, config=_config(10**9)) as session:
        feeds = {"k:0": np.array([b"x"], object), "v:0": np.array([7])}
        await session.run("insert", feeds)
        before_used = session.statistics().used_bytes or 0
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        feeds = {
            "k:0": np.array([b"key %d" % n for n in range(20_000)], object),
            "v:0": np.arange(1000, 21_000),
        }
        await session.run("insert", feeds)
        feeds.clear()
        taken = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        counted = (session.statistics().used_bytes or 0) - before_used
        assert abs(counted - taken) < 0.05 * taken + 64 * 20_000


async def test_staged_values_and_barriers_count() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [None], name="x")
    g.ops.Stage([x], name="stage", shared_name="area")
    g.ops.Unstage(dtypes=["float32"], shared_name="area", name="unstage")
    barrier = g.ops.Barrier(component_types=["float32"], shapes=[], name="barrier")
    g.ops.BarrierInsertMany(
        barrier,
        g.placeholder("string", [None], name="k"),
        g.ops.ExpandDims(x, 0),
        component_index=0,
        name="put",
    )
    async with fe.Session(g, config=_config()) as session:
        row = np.ones(60_000, np.float32)
        staged = await _until_refused(lambda _: session.run("stage", {"x:0": row}))
        assert staged == 8
        for _ in range(staged):
            await session.run("unstage")
        key = np.empty(1, object)

        async def put(number: int) -> None:
            key[0] = b"%d" % number
            await session.run("put", {"x:0": row, "k:0": key})

        assert await _until_refused(put) == 7


async def test_steps_at_the_same_time_count_together() -> None:
    import trio

    g = fe.Graph()
    queue = g.ops.FIFOQueueV2(component_types=["float32"], capacity=-1, name="queue")
    x = g.ops.Fill([300_000], g.placeholder("float32", [], name="x"))
    waited = g.ops.QueueDequeueV2(queue, component_types=["float32"], name="wait")
    with g.control_dependencies([x]):
        late = g.ops.QueueDequeueV2(queue, component_types=["float32"], name="late")
    g.ops.Add(x, late, name="sum")
    del waited
    async with fe.Session(g, config=_config(memory_limit_bytes=2_000_000)) as session:
        errors: list[BaseException] = []

        async def step() -> None:
            try:
                await session.run("sum", {"x:0": 1.0})
            except _EXHAUSTED as error:
                errors.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(step)
            await trio.testing.wait_all_tasks_blocked()
            assert session.statistics().used_bytes == pytest.approx(1_200_000, rel=0.05)
            nursery.start_soon(step)
            await trio.testing.wait_all_tasks_blocked()
            assert len(errors) == 1
            assert "session_memory_bytes" in str(errors[0])
            nursery.cancel_scope.cancel()
        assert (session.statistics().used_bytes or 0) < 50_000
        assert (session.statistics().peak_bytes or 0) >= 1_200_000


async def test_old_plans_make_room() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [], name="x")
    for number in range(40):
        y = x
        for _ in range(100):
            y = g.ops.Add(y, x)
        g.ops.Identity(y, name=f"y{number}")
    g.ops.Fill([300_000], x, name="large")
    async with fe.Session(g, config=_config()) as session:
        for number in range(40):
            assert await session.run(f"y{number}:0", {x: 1.0}) == 101
        assert session.statistics().plans < 40, "the oldest have gone"
        assert (session.statistics().used_bytes or 0) <= 2_000_000
        assert (await session.run("large:0", {x: 1.0})).shape == (300_000,)
        assert await session.run("y0:0", {x: 2.0}) == 202


def _padded(g: fe.Graph) -> Any:
    return g.ops.AsString(g.placeholder("int32", None, name="x"), width=2**30)


def _found(g: fe.Graph) -> Any:
    return g.ops.Where(g.ops.Greater(g.ops.Fill([2, 2, 100_000], g.placeholder("int32", [], name="x")), 0))


def _array(g: fe.Graph) -> Any:
    made = g.ops.TensorArrayV3(g.placeholder("int32", [], name="x"), dtype="float32")
    return g.ops.TensorArraySizeV3(made[0], made[1])


def _grown(g: fe.Graph) -> Any:
    made = g.ops.TensorArrayV3(1, dtype="float32", dynamic_size=True)
    return g.ops.TensorArrayWriteV3(made[0], g.placeholder("int32", [], name="x"), 1.0, made[1])


def _list(g: fe.Graph) -> Any:
    shape = g.constant(np.zeros(0, np.int32))
    made = g.ops.TensorListReserve(shape, g.placeholder("int32", [], name="x"), element_dtype="float32")
    return g.ops.TensorListLength(made)


@pytest.mark.parametrize(
    ("build", "value"), [(_padded, 1), (_found, 1), (_array, 2**26), (_grown, 2**26), (_list, 2**26)]
)
async def test_what_no_shape_tells_is_asked_for_before(build: Callable[[fe.Graph], Any], value: Any) -> None:
    g = fe.Graph()
    result = build(g)
    async with fe.Session(g, config=fe.Config(memory_limit_bytes=4_000_000)) as session:
        tracemalloc.start()
        try:
            with pytest.raises(_EXHAUSTED, match="memory_limit_bytes"):
                await session.run(result, {"x:0": value})
            assert tracemalloc.get_traced_memory()[1] < 8_000_000
        finally:
            tracemalloc.stop()


async def test_what_is_decompressed_counts_as_it_comes() -> None:
    g = fe.Graph()
    g.ops.DecodeCompressed(g.placeholder("string", None, name="x"), compression_type="GZIP", name="y")
    async with fe.Session(g, config=fe.Config(memory_limit_bytes=8_000_000)) as session:
        assert await session.run("y:0", {"x:0": gzip.compress(b"text" * 500_000)}) == b"text" * 500_000
        bomb = gzip.compress(bytes(200_000_000), 1)
        tracemalloc.start()
        try:
            for value in (bomb, np.array([bomb] * 3, object)):
                with pytest.raises(_EXHAUSTED, match="memory_limit_bytes"):
                    await session.run("y:0", {"x:0": value})
            assert tracemalloc.get_traced_memory()[1] < 16_000_000
        finally:
            tracemalloc.stop()


async def test_a_file_is_read_as_far_as_there_is_room(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(10**12)
    g = fe.Graph()
    g.ops.ReadFile(g.constant(str(path)), name="y")
    async with fe.Session(g, config=fe.Config(memory_limit_bytes=40_000_000)) as session:
        tracemalloc.start()
        try:
            with pytest.raises(_EXHAUSTED, match="memory_limit_bytes"):
                await session.run("y:0")
            assert tracemalloc.get_traced_memory()[1] < 60_000_000
        finally:
            tracemalloc.stop()


async def test_strings_that_are_scalars_count_until_nobody_has_them() -> None:
    g = fe.Graph()
    x = g.placeholder("string", [], name="x")
    made = [g.ops.StringJoin([x, str(number)], name=f"y{number}") for number in range(20)]
    g.ops.StringLength(g.ops.StringJoin(made), name="all")
    chain = x
    for _ in range(20):
        chain = g.ops.StringJoin([chain, "."])
    g.ops.StringLength(chain, name="one")
    async with fe.Session(g, config=fe.Config(memory_limit_bytes=1_000_000)) as session:
        text = b"a" * 100_000
        with pytest.raises(_EXHAUSTED, match="memory_limit_bytes"):
            await session.run("all:0", {x: text})
        metadata = fe.RunMetadata()
        assert await session.run("one:0", {x: text}, run_metadata=metadata) == 100_020
        assert 200_000 <= (metadata.peak_bytes or 0) < 350_000
        assert (session.statistics().used_bytes or 0) < 100_000


async def test_strings_that_nobody_has_make_room_however_many_are_held() -> None:
    """Of many not all are looked through at each new one; before an error they are."""
    g = fe.Graph()
    x = g.placeholder("string", [], name="x")
    held = [g.ops.StringJoin([g.ops.Substr(x, 0, 300), str(number)]) for number in range(100)]
    with g.control_dependencies([each.op for each in held]):
        chain = g.ops.Identity(x)
    for _ in range(40):
        chain = g.ops.StringJoin([chain, "."])
    with g.control_dependencies([chain.op]):
        g.ops.StringLength(g.ops.StringJoin(held), name="after")
    async with fe.Session(g, config=fe.Config(memory_limit_bytes=1_000_000)) as session:
        assert await session.run("after:0", {x: b"a" * 100_000}) > 30_000


async def test_lists_hold_what_is_in_them() -> None:
    g = fe.Graph()
    shape = g.constant(np.array([1000], np.int32))
    made = g.ops.EmptyTensorList(shape, -1, element_dtype="float32")
    x = g.placeholder("float32", [1000], name="x")
    for number in range(100):
        made = g.ops.TensorListPushBack(made, g.ops.Mul(x, float(number)))
    g.ops.TensorListLength(made, name="length")
    async with fe.Session(g, config=fe.Config(memory_limit_bytes=300_000)) as session:
        with pytest.raises(_EXHAUSTED, match="memory_limit_bytes"):
            await session.run("length:0", {x: np.ones(1000, np.float32)})
    async with fe.Session(g, config=fe.Config(memory_limit_bytes=500_000)) as session:
        assert await session.run("length:0", {x: np.ones(1000, np.float32)}) == 100
