"""Gradients of 1 / x and of roots where x is 0: no gradient that arrives, none that leaves."""

from __future__ import annotations

import numpy as np
import pytest

import flowengine as fe


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize(
    ("op", "y"),
    [("InvGrad", np.inf), ("ReciprocalGrad", np.inf), ("RsqrtGrad", np.inf), ("SqrtGrad", 0.0)],
)
def test_zero_stays_zero(op: str, y: float, dtype: str) -> None:
    graph = fe.Graph()
    edge = np.array([y, y, 2.0]).astype(dtype)
    arrived = np.array([0.0, 1.0, 1.0]).astype(dtype)
    make = getattr(graph.ops, op)
    many = make(graph.placeholder(dtype, [3], name="y"), graph.placeholder(dtype, [3], name="dy"))
    one = make(graph.placeholder(dtype, [], name="y0"), graph.placeholder(dtype, [], name="dy0"))
    feeds = {"y:0": edge, "dy:0": arrived, "y0:0": edge[0], "dy0:0": arrived[0]}
    with fe.blocking.Session(graph) as session:
        got, number = session.run([many, one], feeds)
    assert got[0] == 0
    assert number == 0
    assert not np.isfinite(got[1])
    assert np.isfinite(got[2])
    assert got.dtype == number.dtype == np.dtype(dtype)
