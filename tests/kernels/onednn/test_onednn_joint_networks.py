"""Whole graphs whose layers are joined give what their nodes give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.kernels.numpy import sequences
from flowengine.kernels.numpy.sequences import Sequence as FusedSequence
from flowengine.kernels.onednn.library import search
from flowengine.kernels.onednn.programs.joint import JointProgram
from flowengine.passes.blocks import sequences as gathering
from flowengine.passes.blocks.cutting import BodyLimits
from tests.kernels.onednn.rig import ONE, numbers, same

pytestmark = pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")


def _trained(graph: fe.Graph) -> None:
    """A small network, its gradients, and steps along them."""
    ops = graph.ops
    x = graph.placeholder("float32", [None, None, None, 8], name="x")
    init: list[Any] = []

    def variable(name: str, *shape: int) -> Any:
        made = ops.VariableV2(dtype="float32", shape=shape, name=name)
        init.append(ops.Assign(made, numbers(len(init), *shape) / 10))
        return made

    w1, b1, w2, w3 = (
        variable("w1", 3, 3, 8, 16),
        variable("b1", 16),
        variable("w2", 3, 3, 16, 16),
        variable("w3", 3, 3, 16, 8),
    )
    how: dict[str, Any] = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
    a = ops.Relu(ops.BiasAdd(ops.Conv2D(x, w1, **ONE), b1))
    b = ops.MaxPool(a, **how)
    c = ops.Relu(ops.Conv2D(b, w2, **ONE))
    d = ops.AvgPool(c, **how)
    e = ops.Conv2D(d, w3, **ONE)
    ops.Neg(ops.ConcatV2([e, e], graph.constant(3)), name="y")
    d_d = ops.Conv2DBackpropInput(ops.Shape(d), w3, e, **ONE)
    d_w3 = ops.Conv2DBackpropFilter(d, ops.Shape(w3), e, **ONE)
    d_c = ops.ReluGrad(ops.AvgPoolGrad(ops.Shape(c), d_d, **how), c)
    d_b = ops.Conv2DBackpropInput(ops.Shape(b), w2, d_c, **ONE)
    d_w2 = ops.Conv2DBackpropFilter(b, ops.Shape(w2), d_c, **ONE)
    d_a = ops.ReluGrad(ops.MaxPoolGrad(a, b, d_b, **how), a)
    d_w1 = ops.Conv2DBackpropFilter(x, ops.Shape(w1), d_a, **ONE)
    changes = {w1: d_w1, b1: ops.BiasAddGrad(d_a), w2: d_w2, w3: d_w3}
    rate = graph.constant(np.float32(1e-4))
    graph.group(*(ops.ApplyGradientDescent(v, rate, d) for v, d in changes.items()), name="train")
    graph.group(*init, name="init")


def _inferred(graph: fe.Graph) -> None:
    """A small network whose filters are constants: chains, branches, and what joins them."""
    ops = graph.ops
    y = graph.placeholder("float32", [None, None, None, 8], name="x")
    deep = 8
    for number in range(3):
        w, b = (graph.constant(numbers(number, *s)) for s in ((3, 3, deep, 16), (16,)))
        one = ops.Relu(ops.BiasAdd(ops.Conv2D(y, w, **ONE), b))
        w = graph.constant(numbers(number + 9, 3, 3, deep, 8))
        vectors = [graph.constant(np.abs(numbers(number + n, 8)) + np.float32(1)) for n in range(4)]
        two = ops.Relu6(ops.FusedBatchNorm(ops.Conv2D(y, w, **ONE), *vectors, is_training=False)[0])
        three = ops.AvgPool(y, ksize=[1, 3, 3, 1], **ONE)
        y = ops.ConcatV2([one, two, three], graph.constant(3))
        y = ops.MaxPool(y, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
        deep += 24
    ops.Neg(y, name="y")


def _played(
    build: Callable[[fe.Graph], None], config: fe.Config, steps: int, trains: bool, side: int = 16
) -> list[Any]:
    graph = fe.Graph()
    build(graph)
    results = []
    with fe.blocking.Session(graph, config=config) as session:
        if trains:
            session.run([], targets=["init"])
        for step in range(steps):
            feeds = {"x:0": numbers(step, 1 + step % 7 // 6, side, side, 8)}
            results.append(session.run("y:0", feeds, targets=["train"] if trains else []))
        if trains:
            results += session.run(["w1:0", "b1:0", "w2:0", "w3:0"])
    return results


@pytest.mark.parametrize("side", [16, 40])
@pytest.mark.parametrize("build", [_inferred, _trained])
def test_a_network_that_is_played_hot_gives_what_its_nodes_give(
    monkeypatch: pytest.MonkeyPatch, build: Callable[[fe.Graph], None], side: int
) -> None:
    seen: set[FusedSequence] = set()
    done: list[bool] = []
    begin_all, run_joint = FusedSequence._begin, JointProgram.run

    def told(self: FusedSequence, known: Any, turn: Any) -> Any:
        seen.add(self)
        return begin_all(self, known, turn)

    def told_joint(self: JointProgram, known: Any, turn: Any) -> Any:
        ended = run_joint(self, known, turn)
        done.append(bool(ended))
        return ended

    # However long this machine took for a layer.
    monkeypatch.setattr(gathering, "SEQUENCE_LIMITS", BodyLimits(1 << 30, 1e9))
    monkeypatch.setattr(FusedSequence, "_begin", told)
    monkeypatch.setattr(JointProgram, "run", told_joint)
    trains, steps = build is _trained, 60
    onednn = fe.Config(kernel_provider="onednn")
    joined = _played(build, onednn, steps, trains, side)
    assert seen
    assert sum(done) > steps / 2
    done.clear()
    monkeypatch.setattr(sequences, "_FIRST_LOOK", 1 << 60)
    same(_played(build, onednn, steps, trains, side), joined)
    assert not done
    apart = fe.Config(kernel_provider="onednn", fuse_contractions=False, fuse_elementwise=False)
    for mine, right in zip(joined, _played(build, apart, steps, trains, side), strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-4, atol=1e-4 * np.abs(right).max())


async def test_steps_that_overlap_share_what_is_joined() -> None:
    """Of one session, with images of their own, on the loop's thread and on its workers."""
    graph = fe.Graph()
    _inferred(graph)
    images = [numbers(seed, 1, 16 + 24 * (seed % 2), 16, 8) for seed in range(6)]
    numpy = fe.Config(kernel_provider="numpy")
    async with fe.Session(graph, config=numpy) as session:
        expected = [await session.run("y:0", {"x:0": x}) for x in images]

    async with fe.Session(graph, config=fe.Config(kernel_provider="onednn")) as session:

        async def steps(first: int) -> None:
            for number in range(first, first + 30):
                got = await session.run("y:0", {"x:0": images[number % 6]})
                right = expected[number % 6]
                np.testing.assert_allclose(got, right, rtol=1e-3, atol=1e-4 * np.abs(right).max())

        async with trio.open_nursery() as nursery:
            for first in range(4):
                nursery.start_soon(steps, first)


@pytest.mark.parametrize("way", ["Assign", "AssignAdd", "resource"])
def test_a_variable_that_another_step_writes_to_is_read_anew(way: str) -> None:
    """Its filters were packed and joined by then; a step in between writes to it, in place or not."""
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [None, None, None, 8], name="x")
    change = graph.placeholder("float32", [3, 3, 8, 8], name="change")
    shape = [3, 3, 8, 8]
    if way == "resource":
        handle = ops.VarHandleOp(shape=shape, dtype="float32", name="v")
        ops.AssignVariableOp(handle, change, name="init")
        ops.AssignAddVariableOp(handle, change, name="write")
        w = ops.ReadVariableOp(handle, dtype="float32")
    else:
        w = ops.VariableV2(shape=shape, dtype="float32", name="v")
        ops.Assign(w, change, name="init")
        getattr(ops, way)(w, change, name="write")
    y = x
    for number in range(3):
        y = ops.Relu(ops.BiasAdd(ops.Conv2D(y, w, **ONE), graph.constant(numbers(number, 8))))
    ops.Neg(ops.MaxPool(y, ksize=[1, 2, 2, 1], **ONE), name="y")
    results: dict[str, list[Any]] = {"onednn": [], "numpy": []}
    for provider, into in results.items():
        with fe.blocking.Session(graph, config=fe.Config(kernel_provider=provider)) as session:
            session.run([], {"change:0": numbers(5, *shape) / 8}, targets=["init"])
            for step in range(90):
                into.append(session.run("y:0", {"x:0": numbers(step, 1, 16, 16, 8)}))
                if step % 30 == 29 or step > 85:
                    session.run([], {"change:0": numbers(step, *shape) / 16}, targets=["write"])
    for mine, right in zip(results["onednn"], results["numpy"], strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-3, atol=1e-4 * np.abs(right).max())
