"""Chains of elementwise nodes on a device: one launch each in a hot plan, with the bits of a cold one."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.kernels.common.launched_chains import LaunchedStep
from flowengine.kernels.load import registry
from flowengine.kernels.registry import KernelRegistry
from flowengine.runtime.planning import tiers
from tests.devices.on_gpu import GPU, opened
from tests.tools.simulated_gpu import SimulatedGpu
from tests.tools.simulated_gpu.claims import SimulatedChains

FLOATS = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
COLD, HOT = 1_000_000, 0


async def played(
    graph: fe.Graph, fetches: Any, feeds: Any, monkeypatch: pytest.MonkeyPatch, runs: int, **config: Any
) -> tuple[Any, list[str]]:
    """Return a step's values, and the second step's launches, if plans become hot after so many runs."""
    monkeypatch.setattr(tiers, "HOT_RUNS", runs)
    async with opened(graph, 5, **config) as (session, gpu):
        await session.initialize()
        await session.run(fetches, feeds)
        gpu.launches.clear()
        return await session.run(fetches, feeds), list(gpu.launches)


async def test_a_hot_plan_makes_one_launch_of_each_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    g = fe.Graph()
    with g.device(GPU):
        x = g.placeholder("float32", [None, 4], name="x")
        bias = g.constant(np.arange(4, dtype=np.float32))
        y = g.ops.Relu(g.ops.BiasAdd(g.ops.Tanh(x * 2.0), bias) - 1.0)
        product = g.ops.MatMul(y, y, transpose_b=True)
        z = g.ops.AddN([g.ops.Exp(g.ops.Neg(product)), product, product])
    cold, single = await played(g, z, {x: FLOATS}, monkeypatch, COLD)
    hot, fused = await played(g, z, {x: FLOATS}, monkeypatch, HOT)
    assert len(single) >= 9
    assert fused == ["Mul -> Tanh -> BiasAdd -> Sub -> Relu", "dot", "Neg -> Exp -> AddN"]
    assert cold.tobytes() == hot.tobytes()


async def test_a_thousand_nodes_are_a_launch_for_each_64(monkeypatch: pytest.MonkeyPatch) -> None:
    g = fe.Graph()
    with g.device(GPU):
        x = y = g.placeholder("float32", [3, 4], name="x")
        for _ in range(500):
            y = g.ops.Tanh(y * 1.25)
    cold, single = await played(g, y, {x: FLOATS}, monkeypatch, COLD)
    hot, fused = await played(g, y, {x: FLOATS}, monkeypatch, HOT)
    assert (len(single), len(fused)) == (1000, 16)
    assert cold.tobytes() == hot.tobytes()


_ONE = ("Abs", "Neg", "Square", "Exp", "Tanh", "Sigmoid", "Relu", "Relu6", "Softplus", "Sign", "Floor", "Elu")
_TWO = ("Add", "Sub", "Mul", "Maximum", "Minimum", "SquaredDifference", "RealDiv", "DivNoNan", "TanhGrad")
_WHOLE = ("AddV2", "Mul", "BitwiseXor", "Maximum", "LeftShift")


def drawn_graph(seed: int) -> tuple[fe.Graph, dict[Any, Any], list[Any]]:
    """A graph of elementwise nodes of several types and shapes, and products between them."""
    drawn = random.Random(seed)
    g = fe.Graph()
    numbers = np.random.default_rng(seed)
    with g.device(GPU):
        x = g.placeholder("float32", [3, 4], name="x")
        row = g.constant(numbers.normal(size=4).astype(np.float32))
        codes = g.placeholder("int32", [4], name="codes")
        floats, whole, truths = [x, row, g.constant(np.float32(0.5))], [codes], []
        for _ in range(drawn.randrange(4, 24)):
            kind = drawn.random()
            if kind < 0.4:
                floats.append(getattr(g.ops, drawn.choice(_ONE))(drawn.choice(floats[-3:])))
            elif kind < 0.65:
                # Those that do not broadcast are given the same value twice.
                op, a = drawn.choice(_TWO), drawn.choice(floats[-3:])
                b = a if op == "TanhGrad" else drawn.choice(floats)
                floats.append(getattr(g.ops, op)(a, b))
            elif kind < 0.75:
                whole.append(getattr(g.ops, drawn.choice(_WHOLE))(drawn.choice(whole), drawn.choice(whole)))
            elif kind < 0.85:
                floats.append(g.ops.Cast(drawn.choice(whole), DstT="float32"))
            elif kind < 0.95:
                truths.append(g.ops.Less(drawn.choice(floats), drawn.choice(floats)))
            elif truths:
                floats.append(g.ops.SelectV2(drawn.choice(truths), drawn.choice(floats), 2.0))
        # Alone a value without dimensions, or a row, would be all that is fetched.
        ends = [floats[-1], whole[-1], floats[drawn.randrange(len(floats))] + x]
        ends.append(g.ops.Sum(floats[-1] * 1.5, g.constant(np.arange(0, dtype=np.int32))))
    feeds = {x: numbers.normal(size=(3, 4)).astype(np.float32), codes: np.array([1, 2, -3, 7], np.int32)}
    return g, feeds, ends


@pytest.mark.parametrize("seed", range(40))
async def test_drawn_chains_have_the_bits_of_their_nodes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, feeds, ends = drawn_graph(seed)
    cold, single = await played(graph, ends, feeds, monkeypatch, COLD)
    hot, fused = await played(graph, ends, feeds, monkeypatch, HOT)
    for a, b in zip(cold, hot, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
        assert np.asarray(a).dtype == np.asarray(b).dtype
    assert len(fused) <= len(single)


async def test_what_a_chain_hands_on_has_memory_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversion that changes nothing gives its input: a variable would share another one's memory."""
    g = fe.Graph()
    with g.device(GPU):
        a = g.variable(np.ones(3, np.float32), name="a")
        b = g.variable(np.zeros(3, np.float32), name="b")
        same = g.ops.Cast(g.ops.Cast(a, DstT="float32"), DstT="float32")
        taken = b.assign(same)
        with g.control_dependencies([taken]):
            changed = a.assign_add(np.ones(3, np.float32))
    for runs in (COLD, HOT):
        monkeypatch.setattr(tiers, "HOT_RUNS", runs)
        async with opened(g, 5) as (session, _):
            await session.initialize()
            for count in range(1, 4):
                await session.run(changed)
                got = await session.run([a, b])
                np.testing.assert_array_equal(got, [np.full(3, count + 1), np.full(3, count)])


async def test_a_node_that_others_see_or_wait_for_stays_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    g = fe.Graph()
    with g.device(GPU):
        x = g.placeholder("float32", [3, 4], name="x")
        seen = g.ops.Exp(x, name="seen")
        both = g.ops.Tanh(seen, name="both")
        late = g.ops.Sum(both, g.constant(0))
        last = both * 2.0 + 1.0
    _, launches = await played(g, [seen, last, late], {x: FLOATS}, monkeypatch, HOT)
    assert sorted(launches) == ["Mul -> AddV2", "exp", "reduce", "tanh"]


async def test_wrong_shapes_are_told_as_the_error_of_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    g = fe.Graph()
    with g.device(GPU):
        x = g.placeholder("float32", name="x")
        bias = g.constant(np.ones(4, np.float32))
        y = g.ops.Relu(g.ops.BiasAdd(x * 2.0, bias, name="biased"), name="last")
    told = []
    for runs in (COLD, HOT):
        monkeypatch.setattr(tiers, "HOT_RUNS", runs)
        async with opened(g, 5) as (session, _):
            with pytest.raises(fe.errors.InvalidArgumentError) as caught:
                await session.run(y, {x: np.ones((2, 3), np.float32)})
            told.append((caught.value.node_name, caught.value.op_type))
            assert (await session.run(y, {x: np.ones((2, 4), np.float32)})).tolist() == [[3.0] * 4] * 2
    assert told == [("biased", "BiasAdd")] * 2


async def test_what_may_be_refused_is_refused_in_a_hot_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    g = fe.Graph()
    with g.device(GPU):
        x = g.placeholder("int32", [2], name="x")
        y = g.ops.Neg(g.ops.FloorDiv(g.constant([6, 6]), x, name="divided") + 1)
    monkeypatch.setattr(tiers, "HOT_RUNS", HOT)
    async with opened(g, 5) as (session, _):
        with pytest.raises(fe.errors.InvalidArgumentError, match="division by zero") as told:
            await session.run(y, {x: np.array([1, 0], np.int32)})
        assert told.value.node_name == "divided"
        assert (await session.run(y, {x: np.array([1, 2], np.int32)})).tolist() == [-7, -4]


async def test_a_failing_launch_names_the_members_and_debugging_makes_each_a_launch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    g = fe.Graph()
    with g.device(GPU):
        x = g.placeholder("float32", [3, 4], name="x")
        y = g.ops.Neg(g.ops.Tanh(g.ops.Exp(x, name="first"), name="second"), name="third")
    monkeypatch.setattr(tiers, "HOT_RUNS", HOT)
    async with opened(g, 5) as (session, gpu):
        gpu.fails_at = lambda name: "Tanh" in name
        with pytest.raises(fe.errors.InternalError, match="'Exp -> Tanh -> Neg' failed") as told:
            await session.run(y, {x: FLOATS})
        assert "'first' (Exp), 'second' (Tanh), 'third' (Neg)" in str(told.value)
        gpu.fails_at = lambda name: False
        await session.run(y, {x: FLOATS})
    _, launches = await played(g, y, {x: FLOATS}, monkeypatch, HOT, debug_devices=True)
    assert launches == ["exp", "tanh", "negative"]


async def test_a_kernel_of_ones_own_is_no_member(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = KernelRegistry(parent=registry())

    @kernels.kernel("Tanh", device="GPU")
    def my_tanh(xp: Any, x: Any) -> Any:
        return xp.multiply(x, 3)

    g = fe.Graph()
    with g.device(GPU):
        x = g.placeholder("float32", [3, 4], name="x")
        y = g.ops.Neg(g.ops.Tanh(g.ops.Exp(x)))
    monkeypatch.setattr(tiers, "HOT_RUNS", HOT)
    async with opened(g, 5, kernels=kernels) as (session, gpu):
        got = await session.run(y, {x: FLOATS})
        np.testing.assert_array_equal(got, -np.exp(FLOATS) * 3)
        assert gpu.launches == ["exp", "multiply", "negative"]


def test_a_look_within_a_launch_is_noticed() -> None:
    kernels = KernelRegistry(parent=registry())
    node = fe.Graph().ops.Neg(np.float32(1)).op.node

    def looking(xp: Any, x: Any) -> Any:
        return xp.negative(x) if float(x) > 0 else x

    plain = kernels.find(node)
    step = LaunchedStep(node, replace(plain, function=looking, takes_xp=True), (0,))
    gpu = SimulatedGpu("/job:localhost/replica:0/task:0/device:GPU:0")
    run = SimulatedChains().launching(gpu, [step])
    run([gpu.copy_in(np.array(2.0, np.float32))])
    assert gpu.xp.reads
