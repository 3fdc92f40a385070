"""Finite differences of what a function builds, for derivatives of any order.

A function of a graph and its placeholders gives the tensors whose derivatives are looked at. `twice` makes of
it the function that gives the gradients of its sum of squares, so that the derivatives of those are second
ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

import flowengine as fe

Build: TypeAlias = Callable[[Any, Sequence[fe.Tensor]], fe.Tensor]


def assert_differentiable(
    build: Build, arrays: Sequence[Any], *, order: int = 1, step: float = 1e-6, rtol: float = 1e-5
) -> None:
    """The gradients of a random projection agree with central differences in a random direction.

    build    called with the graph's constructors and a placeholder for each array, gives one tensor
    order    1, or 2 for the gradients of the gradients of the sum of its squares
    step     of the differences; for float32 about 1e-2, and `rtol` with it
    """
    random = np.random.default_rng(7)
    graph = fe.Graph()
    xs = [graph.placeholder(str(a.dtype), a.shape) for a in arrays]
    built = build(graph.ops, xs)
    ys: list[Any] = [built]
    if order == 2:
        loss = graph.ops.L2Loss(graph.ops.Cast(built, DstT="float64"))
        ys = [dx for dx in fe.gradients(loss, xs) if isinstance(dx, fe.Tensor)]
    with fe.blocking.Session(graph) as session:
        feeds = dict(zip(xs, arrays, strict=True))
        seeds = [random.standard_normal(y.shape).astype(y.dtype) for y in session.run(ys, feeds)]
    found = fe.gradients(ys, xs, [graph.constant(seed) for seed in seeds])

    with fe.blocking.Session(graph) as session:
        for i, (x, array, gradient) in enumerate(zip(xs, arrays, found, strict=True)):
            assert isinstance(gradient, fe.Tensor), f"input {i} has no gradient"
            direction = random.standard_normal(array.shape)
            analytic = np.sum(session.run(gradient, feeds).astype(np.float64) * direction)
            ends = []
            for sign in (1, -1):
                moved = {**feeds, x: (array + sign * step * direction).astype(array.dtype)}
                values = session.run(ys, moved)
                ends.append(sum(np.sum(y.astype(np.float64) * s) for y, s in zip(values, seeds, strict=True)))
            numeric = (ends[0] - ends[1]) / (2 * step)
            np.testing.assert_allclose(
                analytic, numeric, rtol=rtol, atol=rtol, err_msg=f"by input {i}, order {order}"
            )
