"""Segments that are computed again for their gradients: same values, less memory by the device's account."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.buffers import IdleMemory
from flowengine.testing.control import conditional, while_loop

AT: Final = np.array([[0.4, -0.3], [0.2, 0.7]])
SEGMENTS: Final = 15
LAYERS: Final = 4


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def perceptron(policy: Callable[..., Any], batch: int, width: int) -> tuple[fe.Graph, Any, Any]:
    """60 layers in 15 segments, trained by one step: the loss and the updates of all weights."""
    graph = fe.Graph()
    ops = graph.ops
    random = np.random.default_rng(0)
    x = graph.placeholder("float32", [None, width], name="x")
    weights: list[fe.Tensor] = []
    starts: list[fe.Operation] = []

    def segment(h: fe.Tensor) -> fe.Tensor:
        for _ in range(LAYERS):
            handle = ops.VarHandleOp(dtype="float32", shape=[width, width], shared_name=f"w{len(weights)}")
            value = random.normal(size=(width, width)).astype(np.float32) * (2 / width) ** 0.5
            starts.append(ops.AssignVariableOp(handle, graph.constant(value)))
            weights.append(handle)
            h = ops.Relu(ops.MatMul(h, ops.ReadVariableOp(handle, dtype="float32")))
        return h

    h = x
    for _ in range(SEGMENTS):
        h = policy(segment)(h)
    loss = ops.Mean(ops.Square(h), [0, 1])
    slopes = fe.gradients(loss, weights)
    updates = [
        ops.ResourceApplyGradientDescent(w, 0.01, slope)
        for w, slope in zip(weights, slopes, strict=True)
        if slope is not None
    ]
    return graph, loss, (x, starts, updates)


def trained(policy: Callable[..., Any], batch: int, width: int, steps: int, **config: Any) -> Any:
    """(losses, peaks) of the steps; a peak is that of the device's own account."""
    graph, loss, (x, starts, updates) = perceptron(policy, batch, width)
    fed = np.random.default_rng(1).normal(size=(batch, width)).astype(np.float32)
    losses, peaks = [], []
    with fe.blocking.Session(graph, config=fe.Config(**config)) as session:
        session.run([], targets=starts)
        for _ in range(steps):
            metadata = fe.RunMetadata()
            losses.append(session.run(loss, {x: fed}, targets=updates, run_metadata=metadata))
            peaks.append(max(each for each in (*metadata.devices.values(), metadata.peak_bytes) if each))
    return np.array(losses), np.array(peaks)


_BESIDE_ARRAYS: Final = 1 << 20
SIZES: Final = pytest.mark.parametrize(
    "size", [(1024, 64), pytest.param((4096, 256), marks=pytest.mark.nightly)], ids=["small", "whole"]
)


@SIZES
def test_the_peak_of_many_layers(size: tuple[int, int]) -> None:
    """In the first step and in later ones alike, which another plan may run."""
    usual, kept = trained(plain, *size, steps=6, count_allocations=True)
    again, recomputed = trained(fe.recompute_grad, *size, steps=6, count_allocations=True)
    np.testing.assert_array_equal(again, usual)
    assert (recomputed <= 0.45 * kept).all(), (recomputed / kept).tolist()


def allocated(policy: Callable[..., Any], batch: int, width: int, steps: int) -> Any:
    """Peaks of the steps, in bytes: of all that Python and NumPy have allocated since the session began.

    The device's account says nothing of the inside of compiled plans, and counting keeps plans from being
    compiled; but NumPy tells Python's tracer of every array, memory that is kept for later arrays included.
    """
    graph, loss, (x, starts, updates) = perceptron(policy, batch, width)
    fed = np.random.default_rng(1).normal(size=(batch, width)).astype(np.float32)
    peaks = []
    tracemalloc.start()
    try:
        with fe.blocking.Session(graph) as session:
            session.run([], targets=starts)
            for _ in range(steps):
                tracemalloc.reset_peak()
                session.run(loss, {x: fed}, targets=updates)
                peaks.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
    return np.array(peaks)


@SIZES
def test_the_peak_of_many_layers_cold_and_hot(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first step, which is interpreted, to those of the compiled plan."""
    peaks = []
    for policy in (plain, fe.recompute_grad):
        # What sessions before have left for later arrays would be used without being seen.
        monkeypatch.setattr("flowengine.core.buffers._kept", IdleMemory())
        peaks.append(allocated(policy, *size, steps=10))
    kept, recomputed = peaks
    # Plans, code and what is imported meanwhile are no arrays; they weigh the same whatever the size.
    assert (recomputed <= 0.45 * kept + _BESIDE_ARRAYS).all(), (recomputed / kept).tolist()


def test_compiled_plans_compute_again_the_same() -> None:
    graphs = [perceptron(policy, 64, 16) for policy in (plain, fe.recompute_grad)]
    fed = np.random.default_rng(1).normal(size=(64, 16)).astype(np.float32)
    losses = []
    for graph, loss, (x, starts, updates) in graphs:
        with fe.blocking.Session(graph) as session:
            session.run([], targets=starts)
            losses.append([session.run(loss, {x: fed}, targets=updates) for _ in range(8)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-6)


def evaluate(graph: fe.Graph, fetches: Any, feeds: Any = None) -> Any:
    with fe.blocking.Session(graph) as session:
        return session.run(fetches, feeds)


def smooth(graph: fe.Graph, v: fe.Tensor) -> fe.Tensor:
    result: fe.Tensor = graph.ops.Tanh(graph.ops.Mul(graph.ops.MatMul(v, v), 0.7))
    return result


def branching(graph: fe.Graph, v: fe.Tensor) -> fe.Tensor:
    ops = graph.ops
    (result,) = conditional(
        graph,
        ops.Less(ops.Sum(v, [0, 1]), 100.0),
        lambda u: [ops.Sin(ops.Mul(u, u))],
        lambda u: [ops.Mul(u, 2.0)],
        [ops.Sigmoid(v)],
    )
    return result


def looping(graph: fe.Graph, v: fe.Tensor) -> fe.Tensor:
    """A loop within the segment."""
    ops = graph.ops
    _, result = while_loop(
        graph,
        lambda i, u, n: ops.Less(i, n),
        lambda i, u, n: [ops.AddV2(i, 1), ops.Sin(ops.Mul(u, 1.1))],
        [ops.Identity(0), ops.Tanh(v)],
        invariants=[ops.Identity(3)],
    )
    return result


def around(policy: Callable[..., Any], graph: fe.Graph, x: fe.Tensor) -> fe.Tensor:
    """The segment is the body of a loop."""
    ops = graph.ops

    def body(i: fe.Tensor, v: fe.Tensor, w: fe.Tensor) -> Sequence[fe.Tensor]:
        def segment(v: fe.Tensor, w: fe.Tensor) -> fe.Tensor:
            result: fe.Tensor = ops.Tanh(ops.Mul(ops.Sin(ops.MatMul(v, w)), v))
            return result

        return [ops.AddV2(i, 1), policy(segment)(v, w)]

    _, y = while_loop(
        graph, lambda i, v, w: ops.Less(i, 3), body, [graph.constant(0), x], invariants=[ops.Exp(x)]
    )
    return y


@pytest.mark.parametrize("made", [smooth, branching, looping, "around"])
def test_both_derivatives_are_the_same(made: Any) -> None:
    found = []
    for policy in (plain, fe.recompute_grad):
        graph = fe.Graph()
        x = graph.placeholder("float64", [2, 2], name="x")

        def build(v: fe.Tensor, graph: fe.Graph = graph) -> fe.Tensor:
            result: fe.Tensor = made(graph, v)
            return result

        y = around(policy, graph, x) if made == "around" else policy(build)(policy(build)(x))
        (first,) = fe.gradients(y, x)
        assert isinstance(first, fe.Tensor)
        (second,) = fe.gradients(first, x)
        found.append(evaluate(graph, [y, first, second, fe.jacobian(y, x)], {x: AT}))
    for plainly, again in zip(*found, strict=True):
        np.testing.assert_allclose(again, plainly, rtol=1e-12)


def test_the_mark_is_read_from_a_file() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [2, 2], name="x")
    with graph.recompute():
        graph.ops.Tanh(graph.ops.Sin(x, name="inner"), name="y")
    read = fe.Graph.from_graph_def(graph.to_graph_def().SerializeToString())
    (slope,) = fe.gradients(read.tensor("y:0"), read.tensor("x:0"))
    copies = [node.name for node in read if node.op == "Cos"]
    assert len(copies) == 1
    np.testing.assert_allclose(
        evaluate(read, slope, {"x:0": AT}), np.cos(AT) / np.cosh(np.sin(AT)) ** 2, rtol=1e-12
    )


def test_only_what_is_kept_nowhere_is_computed_again() -> None:
    """Random numbers and what is taken outside have one value; constants need no copy."""
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [100])
    with graph.recompute():
        mask = ops.RandomUniform([100], dtype="float32", seed=3)
        inner = ops.Exp(ops.Mul(x, mask))
        taken = ops.Sin(inner)
        y = ops.Mul(ops.Mul(taken, taken), inner)
    outside = ops.Identity(taken)
    (slope,) = fe.gradients(y, x)
    copied = [node.op for node in graph if "recompute" in node.name and not node.name.endswith("again")]
    assert copied.count("Exp") == 1
    assert not {"RandomUniform", "Sin", "Const"} & set(copied)
    at = np.linspace(-1, 1, 100).astype(np.float32)
    got, kept, drawn = evaluate(graph, [slope, outside, mask], {x: at})
    e = np.exp(at * drawn)
    np.testing.assert_allclose(kept, np.sin(e), rtol=1e-5)
    np.testing.assert_allclose(got, (np.sin(2 * e) * e + np.sin(e) ** 2) * e * drawn, rtol=1e-3, atol=1e-5)


def test_a_segment_in_a_segment_is_a_part_of_it() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [])
    with graph.recompute():
        inner = fe.recompute_grad(graph.ops.Sin)(x)
        y = graph.ops.Mul(inner, inner)
    marks = {node.attrs.get("_recompute") for node in graph if node.inputs}
    assert len(marks) == 1
    np.testing.assert_allclose(evaluate(graph, fe.gradients(y, x)[0], {x: 0.3}), np.sin(0.6))


def test_no_tensor_among_the_arguments() -> None:
    def segment(number: int) -> int:
        return number

    with pytest.raises(TypeError, match="none of the arguments of segment is a Tensor"):
        fe.recompute_grad(segment)(3)
