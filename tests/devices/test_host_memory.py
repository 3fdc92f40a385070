"""Steering values are computed in host memory, tensors cross once, and no event loop stands still."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.runtime.planning import tiers
from tests.devices.gpu_graphs import GRAPHS
from tests.devices.on_gpu import GPU, opened
from tests.devices.placing import opener
from tests.devices.test_device_variables import FEEDS, trained
from tests.tools.simulated_gpu import SimulatedGpu

NAME = f"/job:localhost/replica:0/task:0{GPU}"
SEEDS = range(3)


def forget(gpu: SimulatedGpu) -> None:
    gpu.copies["in"].clear()
    gpu.copies["out"].clear()


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_training_step_copies_its_feeds_and_what_is_fetched(seed: int) -> None:
    graph = fe.Graph()
    loss, train = trained(graph, fe.optimizers.Adam(0.01), GPU)
    async with opened(graph, seed) as (session, gpu):
        await session.initialize()
        await session.run([loss, train], FEEDS)
        for _ in range(12):  # past the point where plans become hot
            forget(gpu)
            await session.run([loss, train], FEEDS)
            assert sorted(gpu.copies["in"]) == sorted(value.nbytes for value in FEEDS.values())
            # The loss, and the word that says whether a label is out of range.
            assert sorted(gpu.copies["out"]) == [1, 4]
        forget(gpu)
        await session.run(loss, FEEDS)
        assert sorted(gpu.copies["in"]) == sorted(value.nbytes for value in FEEDS.values())
        assert gpu.stops == 0


def inception(g: fe.Graph) -> tuple[Any, Any, Any, Any]:
    """(images, labels, loss, training) of one module of four branches, as GoogLeNet has nine."""
    random = np.random.default_rng(1)
    weights: list[Any] = []

    def variable(shape: list[int], name: str) -> Any:
        made = g.variable(random.normal(0, 0.3, shape).astype(np.float32), name=name).value()
        weights.append(made)
        return made

    def layer(value: Any, size: int, name: str) -> Any:
        filters = variable([size, size, value.shape[-1], 2], f"{name}/filters")
        y = g.ops.Conv2D(value, filters, strides=[1, 1, 1, 1], padding="SAME")
        scale, offset = variable([2], f"{name}/scale"), variable([2], f"{name}/offset")
        none = g.constant(np.zeros(0, np.float32))
        return g.ops.Relu(g.ops.FusedBatchNormV3(y, scale, offset, none, none, is_training=True)[0])

    images, labels = g.placeholder("float32", [4, 6, 6, 3]), g.placeholder("int32", [4])
    pooled = g.ops.MaxPool(images, ksize=[1, 3, 3, 1], strides=[1, 1, 1, 1], padding="SAME")
    branches = [layer(images, size, f"conv{size}") for size in (1, 3, 5)] + [layer(pooled, 1, "pooled")]
    joined = g.ops.ConcatV2(branches, g.constant(3))
    mean = g.ops.AvgPool(joined, ksize=[1, 6, 6, 1], strides=[1, 1, 1, 1], padding="VALID")
    scores = g.ops.MatMul(g.ops.Reshape(mean, [4, 8]), variable([8, 5], "dense"))
    losses, _ = g.ops.SparseSoftmaxCrossEntropyWithLogits(scores, labels)
    decay = g.ops.AddN([g.ops.L2Loss(each) for each in weights])
    loss = fe.reduce_mean(losses) + 0.01 * decay
    return images, labels, loss, fe.optimizers.RMSProp(0.01).minimize(loss)


@pytest.mark.parametrize("runs", [0, 1_000_000], ids=["hot", "cold"])
async def test_a_training_step_of_an_inception_copies_no_weight_and_no_constant(
    runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "HOT_RUNS", runs)
    graph = fe.Graph()
    with graph.device(GPU):
        images, labels, loss, train = inception(graph)
    feeds = {
        images: np.random.default_rng(2).random((4, 6, 6, 3), np.float32),
        labels: np.arange(4, dtype=np.int32),
    }
    async with opened(graph, 5) as (session, gpu):
        await session.initialize()
        await session.run([loss, train], feeds)
        for _ in range(2):
            forget(gpu)
            await session.run([loss, train], feeds)
            assert sorted(gpu.copies["in"]) == sorted(value.nbytes for value in feeds.values())
            assert sorted(gpu.copies["out"]) == [1, 4], "whether a label is out of range, the loss"
        assert gpu.stops == 0


async def test_a_loop_with_a_counter_never_waits_for_the_device() -> None:
    g = fe.Graph()
    with g.device(GPU):
        x = g.placeholder("float32", [3], name="x")
        n = g.placeholder("int32", [], name="n")
        _, y = g.while_loop(lambda i, v: i < n, lambda i, v: [i + 1, v * 1.001], [g.constant(0), x])
    async with opened(g, seed=2) as (session, gpu):
        got = await session.run(y, {x: np.ones(3, np.float32), n: np.int32(1000)})
        np.testing.assert_allclose(got, 1.001**1000, rtol=1e-4)
        assert gpu.copies == {"in": [4, 12], "out": [12]}, "the factor, the feed; what is fetched"
        assert gpu.stops == 0


@pytest.mark.parametrize("runs", [0, 1_000_000], ids=["hot", "cold"])
async def test_a_recurrent_net_and_its_gradients_copy_what_is_fed_and_fetched(
    runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrays that a loop writes are there, and what it keeps for the way back; counters are not."""
    monkeypatch.setattr(tiers, "HOT_RUNS", runs)
    made = GRAPHS["recurrent_gradients"]()
    gpus: list[SimulatedGpu] = []
    async with opener(gpus, 3, worker_threads=False)(made.graph) as session:
        (gpu,) = gpus
        for feeds in made.feeds:
            forget(gpu)
            await session.run(list(made.fetches), dict(feeds))
        assert gpu.copies == {"in": [24], "out": [24, 24, 4]}
        assert gpu.stops == 0
    gpu.check()
    assert gpu.xp.reads == []


async def test_a_predicate_that_the_device_computes_crosses_once_and_the_loop_goes_on() -> None:
    g = fe.Graph()
    with g.device(GPU):
        x = g.placeholder("float32", [3], name="x")
        _, y = g.while_loop(
            lambda i, v: g.ops.Less(fe.reduce_sum(v), 10.0, name="small"),
            lambda i, v: [i + 1, v * 2.0],
            [g.constant(0), x],
        )
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with opened(g, seed=1) as (session, gpu), trio.open_nursery() as nursery:
        nursery.start_soon(count)
        metadata = fe.RunMetadata()
        got = await session.run(y, {x: np.ones(3, np.float32)}, run_metadata=metadata)
        assert got.tolist() == [4, 4, 4]
        assert gpu.copies["out"] == [1, 1, 1, 12]
        assert metadata.transfers == {
            f"while/small:0 -> host memory of {NAME}": (3, 3),
            f"x:0 -> {NAME}": (1, 12),
        }
        assert gpu.stops == 0
        assert turns > 3
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("taken", [True, False])
async def test_branches_go_by_a_predicate_of_either_memory(taken: bool) -> None:
    g = fe.Graph()
    with g.device(GPU):
        x = g.placeholder("float32", [2], name="x")
        near = g.placeholder("bool", [], name="near")
        by_host = g.cond(near, lambda: x * 2.0, lambda: x - 1.0)
        by_device = g.cond(g.ops.Greater(fe.reduce_sum(x), 2.5), lambda: x * 2.0, lambda: x - 1.0)
    value = np.array([1, 2 if taken else 1], np.float32)
    wanted = value * 2 if taken else value - 1
    async with opened(g) as (session, gpu):
        assert (await session.run(by_host, {x: value, near: taken})).tolist() == wanted.tolist()
        assert gpu.copies["out"] == [8]
        forget(gpu)
        assert (await session.run(by_device, {x: value})).tolist() == wanted.tolist()
        assert gpu.copies["out"] == [1, 8]
        assert gpu.stops == 0


async def test_shapes_and_what_follows_from_them_are_computed_in_host_memory() -> None:
    g = fe.Graph()
    with g.device(GPU):
        x = g.placeholder("float32", [None, 4], name="x")
        rows = g.ops.StridedSlice(g.ops.Shape(x), [0], [1], [1], shrink_axis_mask=1)
        flat = g.ops.Reshape(x * x, g.ops.Pack([g.ops.Mul(rows, g.constant(2)), g.constant(-1)]))
        both = g.ops.Mul(flat, g.ops.Cast(rows, DstT="float32"))
    async with opened(g) as (session, gpu):
        got = await session.run(both, {x: np.full((3, 4), 2, np.float32)})
        np.testing.assert_array_equal(got, np.full((6, 2), 12, np.float32))
        # The feed, and the number of rows: it is wanted in both memories.
        assert sorted(gpu.copies["in"]) == [4, 48]
        assert gpu.copies["out"] == [48]
        assert gpu.stops == 0


async def test_a_value_for_the_cpu_and_for_an_argument_in_host_memory_crosses_once() -> None:
    g = fe.Graph()
    with g.device(GPU):
        x = g.placeholder("float32", [4], name="x")
        sizes = g.ops.Cast(x, DstT="int32", name="sizes")
        filled = g.ops.Fill(sizes, np.float32(7))
        also = g.ops.Reshape(filled, g.ops.Identity(sizes))
    with g.device("/cpu:0"):
        near = g.ops.AddV2(sizes, g.constant(np.int32(1)))
    async with opened(g) as (session, gpu):
        metadata = fe.RunMetadata()
        values = [also, near]
        first, second = await session.run(values, {x: np.array([1, 2, 1, 2])}, run_metadata=metadata)
        assert first.shape == (1, 2, 1, 2)
        assert second.tolist() == [2, 3, 2, 3]
        assert sorted(gpu.copies["out"]) == [16, 16], "the sizes once, and what is fetched"
        text = session.explain(values, feeds=[x])
        assert text.count("_CopyToHost(sizes:0)") == 1
        assert "x/_to_device_0 = _CopyToDevice(x:0)" in text
        assert gpu.stops == 0


async def test_a_steering_value_of_a_variable_is_read_when_it_is_wanted() -> None:
    g = fe.Graph()
    with g.device(GPU):
        v = g.ops.VariableV2(shape=[2], dtype="int32", name="v")
        begin = g.ops.Assign(v, np.array([2, 3], np.int32)).op
        with g.control_dependencies([g.ops.AssignAdd(v, np.array([1, 1], np.int32)).op]):
            filled = g.ops.Fill(v, g.constant(np.float32(1)))
    async with opened(g) as (session, gpu):
        await session.run((), targets=[begin])
        for more in (1, 2):
            assert (await session.run(filled)).shape == (2 + more, 3 + more)
        assert gpu.stops == 0


@pytest.mark.parametrize("threads", [True, False])
async def test_an_index_out_of_range_is_told_before_results_leave(threads: bool) -> None:
    g = fe.Graph()
    with g.device(GPU):
        indices = g.placeholder("int32", [2], name="indices")
        rows = g.ops.Gather(g.constant(np.arange(3.0)), indices, name="rows")
        more = g.ops.Exp(rows)
    async with opened(g, worker_threads=threads) as (session, gpu):
        with pytest.raises(
            fe.errors.InvalidArgumentError, match=r"indices\[1\] = 9 is not in \[0, 3\)"
        ) as told:
            await session.run(more, {indices: np.array([0, 9], np.int32)})
        assert (told.value.node_name, told.value.op_type) == ("rows", "Gather")
        gpu.xp.reads.clear()  # those of the error's text
        got = await session.run(rows, {indices: np.array([2, 0], np.int32)})
        assert got.tolist() == [2, 0]


@pytest.mark.parametrize("op", ["Div", "FloorDiv", "FloorMod", "TruncateDiv", "TruncateMod"])
@pytest.mark.parametrize("threads", [True, False])
async def test_a_division_by_zero_is_told_before_results_leave(op: str, threads: bool) -> None:
    g = fe.Graph()
    with g.device(GPU):
        # On the device: what is computed from floats steers nothing.
        x = g.ops.Cast(g.placeholder("float32", [3], name="x"), DstT="int32")
        y = g.ops.Neg(getattr(g.ops, op)(g.constant([6, 7, 8]), x, name="divided"))
    async with opened(g, worker_threads=threads) as (session, gpu):
        # The class is the CPU's: TensorFlow has another one for what truncates.
        error = fe.errors.InternalError if "Truncate" in op else fe.errors.InvalidArgumentError
        with pytest.raises(error, match="division by zero") as told:
            await session.run(y, {"x:0": np.array([1, 0, 2])})
        assert told.value.node_name == "divided"
        gpu.xp.reads.clear()
        wanted = [0, 1, 0] if op.endswith("Mod") else [6, 3, 4]
        got = await session.run(y, {"x:0": np.array([1, 2, 2])})
        assert (-got).tolist() == wanted
        assert gpu.stops == 0


async def test_what_went_wrong_is_told_before_a_predicate_leaves() -> None:
    g = fe.Graph()
    with g.device(GPU):
        indices = g.placeholder("int32", [1], name="indices")
        row = g.ops.Gather(g.constant(np.arange(3.0, dtype=np.float32)), indices, name="row")
        y = g.cond(fe.reduce_sum(row) > 1.0, lambda: row * 2.0, lambda: row)
    async with opened(g) as (session, gpu):
        with pytest.raises(fe.errors.InvalidArgumentError, match="= 5 is not in") as told:
            await session.run(y, {indices: np.array([5], np.int32)})
        assert told.value.node_name == "row"
        gpu.xp.reads.clear()


async def test_checks_of_a_long_loop_do_not_pile_up() -> None:
    g = fe.Graph()
    with g.device(GPU):
        table = g.constant(np.arange(8, dtype=np.float32))
        indices = g.placeholder("int32", [2], name="indices")
        _, total = g.while_loop(
            lambda i, v: i < 200,
            lambda i, v: [i + 1, v + g.ops.Gather(table, indices)],
            [g.constant(0), g.constant(np.zeros(2, np.float32))],
        )
    async with opened(g) as (session, gpu):
        got = await session.run(total, {indices: np.array([1, 2], np.int32)})
        assert got.tolist() == [200, 400]
        assert gpu.stops == 0
        with pytest.raises(fe.errors.InvalidArgumentError, match="= 8 is not in"):
            await session.run(total, {indices: np.array([1, 8], np.int32)})
        gpu.xp.reads.clear()


async def test_what_a_tensor_is_filled_with_is_not_looked_at() -> None:
    g = fe.Graph()
    with g.device(GPU):
        x = g.placeholder("float32", [2], name="x")
        filled = g.ops.Fill(g.constant([64, 128]), fe.reduce_sum(x))
    async with opened(g) as (session, gpu):
        got = await session.run(filled, {x: np.ones(2, np.float32)})
        np.testing.assert_array_equal(got, np.full((64, 128), 2, np.float32))
        assert gpu.stops == 0


@pytest.mark.parametrize("dtype", ["float32", "string"])
async def test_a_placeholder_there_says_that_it_must_be_fed(dtype: str) -> None:
    g = fe.Graph()
    with g.device(GPU):
        x = g.placeholder(dtype, [3], name="x")
    async with opened(g) as (session, _):
        with pytest.raises(fe.errors.InvalidArgumentError, match=r"You must feed a value .* 'x'"):
            await session.run(g.ops.Shape(x))
