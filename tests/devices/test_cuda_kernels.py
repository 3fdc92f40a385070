"""Sessions on CUDA's device run our CUDA C: as g++ compiles it, on a card whose streams run late."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.runtime.planning import tiers
from tests.devices.cuda_by_host import compile_by_host, compiled_cublas, multiply_by_host, opened
from tests.devices.fake_cupy import FakeCupy
from tests.devices.gpu_graphs import GRAPHS, alike, of_the_cpu, values_of
from tests.kernels.cuda.host_compiler import needs_compiler

pytestmark = needs_compiler

COLD, HOT = 1_000_000, 0
#: {graph: kernels of ours that its steps must have launched, chains aside}
WANTED: Final = {
    "loop_until_small": set(),
    "trained_by_momentum": {
        *("apply_Momentum_float32", "collect_numbers_float32", "bias_plain_float32", "bias_sums_float32")
    },
    "trained_images": {
        *("apply_Adam_float32", "max_pool_float32", "max_pool_gradient_float32_int32"),
        "sparse_cross_entropy_float32_int32",
    },
    "table_of_rows": {"gather_64_int32", "sum_rows_atomically_float32_int32"},
}


@pytest.fixture(autouse=True)
def _compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_by_host(monkeypatch)


@pytest.mark.parametrize("name", WANTED)
async def test_sessions_have_the_values_of_the_cpu_and_no_findings(name: str) -> None:
    wanted = await of_the_cpu(name)
    for seed in range(4):
        graph, fake = GRAPHS[name](), FakeCupy(seed)
        async with opened(graph.graph, fake, scattered=seed if seed == 3 else None) as session:
            with trio.fail_after(120):
                found = await values_of(session, graph)
        alike(found, wanted)
        fake.gpu.check()
        assert fake.gpu.stops == 0
        if seed < 3:
            assert WANTED[name] <= set(fake.launched)


def mixed_chain() -> tuple[fe.Graph, Any, dict[Any, Any]]:
    g = fe.Graph()
    x = g.placeholder("float32", [None, 4], name="x")
    bias = g.constant(np.arange(4, dtype=np.float32))
    y = g.ops.Sigmoid(g.ops.BiasAdd(g.ops.Tanh(x * 2.0), bias) - g.ops.Exp(x))
    product = g.ops.Softmax(y)
    z = g.ops.AddN([g.ops.Log(g.ops.Softplus(product)), product, product])
    return g, z, {x: np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)}


async def test_a_hot_plan_makes_one_launch_of_a_chain_with_the_bits_of_its_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = {}
    for runs in (COLD, HOT):
        monkeypatch.setattr(tiers, "HOT_RUNS", runs)
        (graph, fetch, feeds), fake = mixed_chain(), FakeCupy(2)
        async with opened(graph, fake) as session:
            await session.run(fetch, feeds)
            fake.launched.clear()
            value = await session.run(fetch, feeds)
        fake.gpu.check()
        found[runs] = value, [name.partition("_")[0] for name in fake.launched]
    assert found[COLD][0].tobytes() == found[HOT][0].tobytes()
    assert found[COLD][1] == ["chain"] * 2 + ["bias"] + ["chain"] * 3 + ["softmax"] + ["chain"] * 3
    assert found[HOT][1] == ["chain", "softmax", "chain"]


async def test_a_chain_whose_inputs_do_not_fit_is_told_of_by_its_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tiers, "HOT_RUNS", HOT)
    g = fe.Graph()
    x, y = g.placeholder("float32", name="x"), g.placeholder("float32", name="y")
    z = g.ops.Exp(g.ops.Add(g.ops.Neg(x), y, name="sum"))
    async with opened(g, FakeCupy(1)) as session:
        for _ in range(3):
            good = await session.run(z, {x: np.zeros(3, np.float32), y: np.zeros((2, 1), np.float32)})
            assert good.tolist() == [[1] * 3] * 2
        with pytest.raises(fe.errors.InvalidArgumentError) as error:
            await session.run(z, {x: np.zeros(3, np.float32), y: np.zeros(2, np.float32)})
        assert error.value.node_name == "sum"
        nothing = await session.run(z, {x: np.zeros((0, 3), np.float32), y: np.float32(1)})
        assert nothing.shape == (0, 3)


async def test_labels_out_of_range_are_told_of_before_anything_leaves() -> None:
    g = fe.Graph()
    logits, labels = g.placeholder("float32", [2, 3]), g.placeholder("int64", [2])
    loss = g.ops.SparseSoftmaxCrossEntropyWithLogits(logits, labels, name="loss").loss
    async with opened(g, FakeCupy(1)) as session:
        feeds = {logits: np.zeros((2, 3), np.float32), labels: np.array([2, 3])}
        with pytest.raises(fe.errors.InvalidArgumentError, match=r"label value of 3 .* \[0, 3\)") as error:
            await session.run(loss, feeds)
        assert error.value.node_name == "loss"
        good = await session.run(loss, feeds | {labels: np.array([2, 0])})
        np.testing.assert_allclose(good, np.log([3, 3]), rtol=1e-6)


def many_variables(optimizer: Any, resources: bool) -> tuple[fe.Graph, list[Any], Any]:
    g = fe.Graph()
    random = np.random.default_rng(5)
    values = [
        g.variable(random.normal(size=shape).astype(np.float32), name=f"v{i}", use_resource=resources)
        for i, shape in enumerate([(3,), (2, 3), (3, 700), (1,), (3,)])
    ]
    loss = sum((fe.reduce_sum(fe.square(v.value() - 0.5)) for v in values[1:]), values[0].value()[0])
    return g, [v.value() for v in values], optimizer.minimize(loss)


@pytest.mark.parametrize("resources", [False, True])
async def test_all_steps_of_an_optimizer_are_one_launch(
    resources: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "HOT_RUNS", HOT)
    values = {}
    fake, copied = FakeCupy(3), 0
    for near in (True, False):
        graph, variables, train = many_variables(fe.optimizers.Adam(0.05), resources)
        async with fe.Session(graph) if near else opened(graph, fake) as session:
            await session.initialize()
            for _ in range(4):
                copied = len(fake.gpu.copies["in"])
                fake.launched.clear()
                await session.run(train)
            values[near] = await session.run(variables)
    assert sum(name.startswith("apply_Adam") for name in fake.launched) == 1
    assert sum(name.startswith("collect") for name in fake.launched) == 1
    assert len(fake.gpu.copies["in"]) == copied, "addresses that were there before are not copied again"
    for a, b in zip(values[True], values[False], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    fake.gpu.check()


async def test_two_names_of_one_variable_are_changed_one_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tiers, "HOT_RUNS", HOT)
    g = fe.Graph()
    nodes = [g.ops.VariableV2(shape=[2], dtype="float32", shared_name="one") for _ in range(4)]
    begin = g.ops.Assign(nodes[0], np.zeros(2, np.float32))
    rate = g.constant(np.float32(1))
    steps = [
        g.ops.ApplyGradientDescent(node, rate, g.constant(np.array([1 + i, 0], np.float32))).op
        for i, node in enumerate(nodes)
    ]
    async with opened(g, FakeCupy(1)) as session:
        await session.run(begin)
        for count in (1, 2, 3):
            await session.run(steps)
            assert (await session.run(nodes[0])).tolist() == [-10 * count, 0]


@pytest.fixture(scope="module")
def cublas_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled_cublas(tmp_path_factory.mktemp("cublas"))


async def test_products_are_cublas(cublas_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    g = fe.Graph()
    a, b = g.placeholder("float32", [4, 3], name="a"), g.placeholder("float32", [4, 5], name="b")
    product = g.ops.MatMul(a, b, transpose_a=True)
    again = g.ops.BatchMatMulV2(g.ops.Reshape(product, [1, 3, 5]), g.ops.Reshape(b, [1, 4, 5]), adj_y=True)
    fake = FakeCupy(3)
    library = multiply_by_host(monkeypatch, cublas_path, fake)
    random = np.random.default_rng(1)
    feeds = {t: random.integers(-4, 5, (4, n)).astype(np.float32) for t, n in ((a, 3), (b, 5))}
    async with opened(g, fake) as session:
        for _ in range(3):
            (found,) = await session.run([again], feeds)
            wanted = (feeds[a].T @ feeds[b]) @ feeds[b].T
            assert found.tolist() == [wanted.tolist()]
    fake.gpu.check()
    assert fake.launched.count("gemm") == 6
    told = library.told()
    assert told.count("create") == 1
    # The stream of work has the number 0, and 1 for its address; the mode is that of full sums.
    assert told[1:4:2] == ["stream:1", "mode:16"]
    assert set(told[4:]) == {"gemm:0:68"}


async def test_products_that_do_not_fit_are_told_of_in_the_words_of_the_cpu(
    cublas_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    g = fe.Graph()
    a, b = g.placeholder("float32", name="a"), g.placeholder("float32", name="b")
    product = g.ops.MatMul(a, b)
    fake = FakeCupy(3)
    multiply_by_host(monkeypatch, cublas_path, fake)
    async with opened(g, fake) as session:
        with pytest.raises(fe.errors.InvalidArgumentError, match="Matrix size-incompatible"):
            await session.run(product, {a: np.zeros((2, 3), np.float32), b: np.zeros((2, 3), np.float32)})
        nothing = {a: np.zeros((2, 0), np.float32), b: np.zeros((0, 3), np.float32)}
        assert (await session.run(product, nothing)).tolist() == [[0] * 3] * 2


@pytest.mark.parametrize(("allowed", "told"), [(None, "gemm:0:68"), (True, "gemm:0:77")])
async def test_factors_are_rounded_only_where_a_session_allows_it(
    cublas_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: bool | None, told: str
) -> None:
    g = fe.Graph()
    a = g.placeholder("float32", [2, 2], name="a")
    fake = FakeCupy(3)
    library = multiply_by_host(monkeypatch, cublas_path, fake)
    async with opened(g, fake, tensor_float_32=allowed) as session:
        await session.run(g.ops.MatMul(a, a), {a: np.ones((2, 2), np.float32)})
    assert library.told()[-1] == told


def sums_of_rows() -> tuple[fe.Graph, list[Any], dict[Any, Any]]:
    """A sum of segments, a scatter into a variable, and sums that are not of our sources."""
    g = fe.Graph()
    rows, ids = g.placeholder("float32", [None, 2], name="rows"), g.placeholder("int32", [None], name="ids")
    table = g.ops.VariableV2(shape=[3, 2], dtype="float32")
    begin = g.ops.Assign(table, np.ones((3, 2), np.float32))
    summed = g.ops.UnsortedSegmentSum(rows, ids, g.constant(3))
    other = g.ops.UnsortedSegmentSum(g.ops.Cast(rows, DstT="complex64"), ids, g.constant(3))
    added = g.ops.InplaceAdd(g.constant(np.ones((3, 2), np.float32)), ids, rows)
    with g.control_dependencies([begin]):
        scattered = g.ops.ScatterAdd(table, ids, rows)
    random = np.random.default_rng(3)
    feeds = {rows: random.normal(size=(50, 2)).astype(np.float32), ids: random.integers(0, 3, 50, np.int32)}
    return g, [summed, other, added, scattered], feeds


async def test_sums_of_a_deterministic_session_have_one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, fetches, feeds = sums_of_rows()
    async with fe.Session(graph) as session:
        wanted = await session.run(fetches, feeds)
    for deterministic in (False, True):
        graph, fetches, feeds = sums_of_rows()
        fake = FakeCupy(3)
        async with opened(graph, fake, deterministic=deterministic) as session:
            with monkeypatch.context() as patched:
                if deterministic:
                    patched.setattr(fake.gpu.xp.add, "at", _no_atomics)
                found = await session.run(fetches, feeds)
        for far, near in zip(found, wanted, strict=True):
            np.testing.assert_allclose(far, near, rtol=1e-4, atol=1e-4)
        fake.gpu.check()
        assert any("atomically" in name for name in fake.launched) is not deterministic
        assert ("sum_rows_float32_int32" in fake.launched) is deterministic


def _no_atomics(*_: Any) -> None:
    raise AssertionError("an addition in any order")
