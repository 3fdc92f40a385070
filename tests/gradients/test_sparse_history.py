"""History of every k-th iteration: same derivatives, less memory by the device's account."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import flowengine as fe
from flowengine.gradients.values import IndexedSlices
from flowengine.testing.control import conditional, while_loop
from tests.gradients.test_loops import branching, nested, power

AT: Final = 0.93


def evaluate(graph: fe.Graph, fetches: Any, feeds: Any = None) -> Any:
    with fe.blocking.Session(graph) as session:
        return session.run(fetches, feeds)


def seven(graph: fe.Graph, x: fe.Tensor) -> fe.Tensor:
    """Two variables that depend on each other, and one of integers; seven iterations."""
    ops = graph.ops

    def body(i: fe.Tensor, u: fe.Tensor, v: fe.Tensor, w: fe.Tensor, n: fe.Tensor) -> list[fe.Tensor]:
        by = ops.Cast(i, DstT="float64")
        return [ops.AddV2(i, 1), ops.Sin(ops.Mul(v, w)), ops.AddV2(ops.Mul(u, by), ops.Mul(v, 0.5))]

    _, u, v = while_loop(
        graph,
        lambda i, u, v, w, n: ops.Less(i, n),
        body,
        [graph.constant(0), x, ops.Cos(x)],
        invariants=[ops.Exp(x), graph.constant(7)],
    )
    total: fe.Tensor = ops.AddV2(u, v)
    return total


def in_a_branch(graph: fe.Graph, x: fe.Tensor) -> fe.Tensor:
    (y,) = conditional(
        graph,
        graph.ops.Less(x, 10.0),
        lambda v: [seven(graph, v)],
        lambda v: [graph.ops.Mul(v, 2.0)],
        [x],
    )
    return y


@pytest.mark.parametrize("every", [2, 3, 100])
@pytest.mark.parametrize("build", [seven, power, nested, branching, in_a_branch])
def test_both_derivatives_are_the_same(build: Callable[..., fe.Tensor], every: int) -> None:
    found = []
    for history_every in (1, every):
        graph = fe.Graph()
        x = graph.placeholder("float64", [], name="x")
        y = build(graph, x)
        (first,) = fe.gradients(y, x, history_every=history_every)
        assert isinstance(first, fe.Tensor)
        (second,) = fe.gradients(first, x)
        assert any("again" in node.name for node in graph) is (history_every > 1)
        found.append(evaluate(graph, [y, first, second], {x: AT}))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)


def test_a_loop_without_iterations() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [], name="x")
    (dx,) = fe.gradients(power(graph, x, 0), x, history_every=5)
    assert evaluate(graph, dx, {x: 1.1}) == 1.0


def picking(graph: fe.Graph, x: fe.Tensor) -> fe.Tensor:
    ops = graph.ops
    _, y = while_loop(
        graph,
        lambda i, v, w: ops.Less(i, 10),
        lambda i, v, w: [ops.AddV2(i, 1), ops.Mul(v, ops.Gather(w, ops.FloorMod(i, 3)))],
        [graph.constant(0), graph.constant(1.0, "float64")],
        invariants=[x],
    )
    return y


def test_rows_of_a_constant() -> None:
    """Rows gathered from a constant of the loop have a gradient of a few rows in each iteration."""
    slopes = []
    for every in (1, 4):
        graph = fe.Graph()
        x = graph.placeholder("float64", [3], name="x")
        (found,) = fe.gradients(picking(graph, x), x, history_every=every)
        assert isinstance(found, IndexedSlices)
        rows = graph.ops.UnsortedSegmentSum(found.values, found.indices, 3)
        slopes.append(evaluate(graph, rows, {x: [0.9, 1.1, 1.3]}))
    np.testing.assert_allclose(slopes[1], slopes[0], rtol=1e-12)


def test_a_loop_with_random_numbers_keeps_its_history() -> None:
    """They would be others the second time."""
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float64", [], name="x")

    def body(i: fe.Tensor, v: fe.Tensor, drawn: fe.Tensor) -> list[fe.Tensor]:
        number = ops.RandomUniform(np.zeros(0, np.int32), dtype="float64")
        return [ops.AddV2(i, 1), ops.Mul(v, number), ops.Mul(drawn, number)]

    _, y, drawn = while_loop(
        graph,
        lambda i, v, drawn: ops.Less(i, 6),
        body,
        [graph.constant(0), x, graph.constant(1.0, "float64")],
    )
    (slope,) = fe.gradients(y, x, history_every=3)
    got, wanted = evaluate(graph, [slope, drawn], {x: 0.5})
    assert got == pytest.approx(wanted)


def test_a_number_that_is_none() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [])
    with pytest.raises(ValueError, match="history_every is a number of iterations from 1, not 0"):
        fe.gradients(graph.ops.Sin(x), x, history_every=0)


def peak(iterations: int, every: int) -> tuple[Any, int]:
    """The gradient through a loop over a vector, and the most that its step held."""
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", [250], name="x")
    _, y = while_loop(
        graph,
        lambda i, v, w: ops.Less(i, iterations),
        lambda i, v, w: [ops.AddV2(i, 1), ops.Sin(ops.Mul(v, w))],
        [graph.constant(0), x],
        invariants=[ops.Exp(x)],
    )
    (slope,) = fe.gradients(y, x, history_every=every)
    metadata = fe.RunMetadata()
    with fe.blocking.Session(graph, config=fe.Config(count_allocations=True)) as session:
        found = session.run(slope, {x: np.linspace(0, 1, 250)}, run_metadata=metadata)
    assert metadata.peak_bytes is not None
    return found, max(each for each in (*metadata.devices.values(), metadata.peak_bytes) if each)


@pytest.mark.parametrize(
    ("iterations", "every"),
    [(1000, 32), pytest.param(10_000, 100, marks=[pytest.mark.slow, pytest.mark.nightly])],
    ids=["fewer", "whole"],
)
def test_the_peak_of_many_iterations(iterations: int, every: int) -> None:
    usual, full = peak(iterations, 1)
    again, sparse = peak(iterations, every)
    np.testing.assert_allclose(again, usual, rtol=1e-5)
    assert sparse <= full / 20, f"{sparse} bytes of {full}"
