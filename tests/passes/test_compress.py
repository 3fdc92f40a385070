"""Tensors that cross at half the size, with less precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.kernels.control.sendrecv import narrow, widen
from flowengine.passes.context import PassContext
from flowengine.passes.cut.compress import compress_transfers
from flowengine.passes.cut.partition import partition


@given(st.lists(st.floats(width=32), max_size=20))
def test_the_upper_half_crosses(values: list[float]) -> None:
    array = np.array(values, np.float32)
    with np.errstate(all="ignore"):
        back = widen(narrow(array))
        assert back.dtype == np.float32
        np.testing.assert_array_equal(np.isnan(back), np.isnan(array))
        known = ~np.isnan(array)
        cut = array.view(np.uint32) & np.uint32(0xFFFF0000)
        np.testing.assert_array_equal(back.view(np.uint32)[known], cut[known])


def test_rank_0_and_views_cross() -> None:
    assert widen(narrow(np.float32(1.5))) == np.float32(1.5)
    transposed = np.arange(6, dtype=np.float32).reshape(2, 3).T
    np.testing.assert_array_equal(widen(narrow(transposed)), transposed)


def written() -> fe.Graph:
    g = fe.Graph()
    x = g.placeholder("float32", [1000], name="x")
    with g.device("/cpu:0"):
        a = g.ops.Mul(x, g.constant(3.0), name="layer/a")
        whole = g.ops.Cast(x, DstT="int32", name="layer/whole")
    with g.device("/cpu:1"):
        g.ops.Neg(a, name="y")
        g.ops.Neg(whole, name="z")
    return g


@pytest.mark.parametrize(
    ("scopes", "saved"),
    [
        ((), 0),
        (("other",), 0),
        (("lay",), 0),
        (("layer/",), 2000),
        (("layer",), 2000),
        (("layer/a",), 2000),
        (True, 2000),
    ],
)
async def test_scopes_choose_and_what_is_saved_is_told(scopes: Any, saved: int) -> None:
    config = fe.Config(device_count={"CPU": 2}, compress_transfers=scopes)
    value = np.linspace(0, 1, 1000, dtype=np.float32)
    async with fe.Session(written(), config=config) as session:
        for _ in range(9):
            await session.run(["y:0", "z:0"], {"x:0": value})
        metadata = fe.RunMetadata()
        y, z = await session.run(["y:0", "z:0"], {"x:0": value}, run_metadata=metadata)
        assert metadata.bytes_saved == saved
        crossed = {edge.split(" ")[0]: size for edge, (_, size) in metadata.transfers.items()}
        assert crossed == {"layer/a:0": 4000 - saved, "layer/whole:0": 4000}
        np.testing.assert_allclose(y, value * -3, rtol=2**-7 if saved else 0)
        np.testing.assert_array_equal(z, -value.astype(np.int32))


def test_a_single_scope_must_stand_in_a_list() -> None:
    with pytest.raises(fe.errors.InvalidArgumentError, match="compress_transfers"):
        fe.Config(compress_transfers="layer").resolved()


def cut_short(value: Any) -> Any:
    """A tensor as it is when it has crossed, by nodes of the graph."""
    ops = value.graph.ops
    bits = ops.Bitcast(value, type="uint32")
    return ops.Bitcast(ops.BitwiseAnd(bits, np.uint32(0xFFFF0000)), type="float32")


def trained(*, is_split: bool) -> fe.Graph:
    """Two layers that are trained: a layer a device, or both on one, where what would cross is cut short."""
    g = fe.Graph()
    ops = g.ops
    first, second = ("/cpu:0", "/cpu:1") if is_split else ("/cpu:0", "/cpu:0")
    rng = np.random.default_rng(7)
    with g.device(first):
        x = g.placeholder("float32", [8, 20], name="x")
        w1 = ops.VariableV2(dtype="float32", shape=[20, 16], name="w1")
        init1 = ops.Assign(w1, rng.normal(size=(20, 16)).astype(np.float32))
        h = ops.Tanh(ops.MatMul(x, w1))
    with g.device(second):
        y = g.placeholder("float32", [8, 5], name="y")
        w2 = ops.VariableV2(dtype="float32", shape=[16, 5], name="w2")
        init2 = ops.Assign(w2, rng.normal(size=(16, 5)).astype(np.float32))
        crossed = h if is_split else cut_short(h)
        error = ops.Sub(ops.MatMul(crossed, w2), y)
        ops.Sum(ops.Square(error), [0, 1], name="loss")
        d_h = ops.MatMul(error, w2, transpose_b=True)
        with g.control_dependencies([d_h]):
            step2 = ops.AssignSub(w2, ops.Mul(ops.MatMul(crossed, error, transpose_a=True), np.float32(0.01)))
    with g.device(first):
        d_x = ops.TanhGrad(h, d_h if is_split else cut_short(d_h))
        step1 = ops.AssignSub(w1, ops.Mul(ops.MatMul(x, d_x, transpose_a=True), np.float32(0.01)))
    g.group(step1, step2, name="train")
    g.group(init1, init2, name="init")
    return g


async def test_training_over_compressed_transfers_has_the_bits_of_tensors_that_are_cut_short() -> None:
    rng = np.random.default_rng(8)
    feeds = {"x:0": rng.normal(size=(8, 20)), "y:0": rng.normal(size=(8, 5))}
    feeds = {name: value.astype(np.float32) for name, value in feeds.items()}

    async def losses(graph: fe.Graph, config: fe.Config) -> list[Any]:
        async with fe.Session(graph, config=config) as session:
            await session.run([], targets=["init"])
            found = [await session.run("loss:0", feeds, targets=["train"]) for _ in range(20)]
            return [*found, *await session.run(["w1:0", "w2:0"])]

    halves = await losses(trained(is_split=True), fe.Config(device_count={"CPU": 2}, compress_transfers=True))
    wanted = await losses(trained(is_split=False), fe.Config())
    whole = await losses(trained(is_split=True), fe.Config(device_count={"CPU": 2}))
    for got, want in zip(halves, wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    assert halves[0] > 2 * halves[19], "it learns"
    assert any(a != b for a, b in zip(halves[:20], whole[:20], strict=True)), "nothing was cut short"


def test_transfers_that_are_compressed_can_be_counted_more_than_once() -> None:
    g = fe.Graph()
    x = g.placeholder("float32", [4], name="x")
    near = g.ops.Exp(x, name="near")
    g.ops.Neg(near, name="far")
    near_device, far_device = (f"/job:localhost/replica:0/task:0/device:CPU:{index}" for index in range(2))
    context = PassContext(feeds=(x.port,))
    places = {node.name: far_device if node.name == "far" else near_device for node in g}
    cut = partition(g, context, places, {near_device: 1, far_device: 2})
    assert [each.is_compressed for each in cut.transfers] == [False]
    found = compress_transfers(cut, g, [""])
    for _ in range(2):
        assert [each.is_compressed for each in found.transfers] == [True]
        assert len(list(found.partitions)) == 2
