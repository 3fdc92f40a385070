"""Layers whose operands are made of what variables hold: joined once that has been the same for a while."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.kernels.onednn.library import search
from tests.kernels.onednn.processor import needs_products
from tests.kernels.onednn.rig import ENOUGH, ONE, Rig, constant, numbers

pytestmark = pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")

VECTORS = ("scale", "offset", "mean", "variance")


def _residual(side: int = 1) -> Rig:
    """A convolution, its normalisation, what is added and Relu, between poolings."""
    graph = fe.Graph()
    ops = graph.ops
    x, w, *vectors = (graph.placeholder("float32", None, name=name) for name in ("x", "w", *VECTORS))
    window: dict[str, Any] = {"ksize": [1, side, side, 1], **ONE}
    before = ops.AvgPool(x, **window)
    normal = ops.FusedBatchNorm(ops.Conv2D(before, w, **ONE), *vectors, is_training=False)[0]
    return Rig(graph, [ops.MaxPool(ops.Relu(ops.AddV2(normal, before)), **window)])


def _values(seed: int = 0) -> dict[str, Any]:
    vectors: dict[str, Any] = {name: np.abs(numbers(seed + n, 16)) + 1 for n, name in enumerate(VECTORS)}
    return {"x": numbers(seed, 2, 7, 7, 16), "w": numbers(seed + 1, 3, 3, 16, 16), **vectors}


def test_statistics_that_stay_are_joined() -> None:
    rig = _residual()
    values = _values()
    for run in range(2):
        rig.check(**{**values, "x": numbers(run, 2, 7, 7, 16)})
    # Once says nothing.
    assert rig.joined == 0
    rig.join(**values)
    assert rig.joined == 3
    assert rig.ran_joined(**{**values, "x": numbers(9, 2, 7, 7, 16)})
    # A vector that is another object was not looked at.
    assert not rig.ran_joined(**{**values, "variance": values["variance"].copy()})


def test_statistics_that_change_in_place_are_seen() -> None:
    """As a variable's that nobody else refers to: what is made of them is another each time."""
    rig = _residual()
    values = _values()
    for run in range(2 * ENOUGH):
        values["mean"] *= np.float32(1.01)
        rig.check(**{**values, "x": numbers(run, 2, 7, 7, 16)})
        assert rig.joined == 0


def test_constants_beside_a_variable() -> None:
    rig = _residual()
    values = _values()
    for name in ("scale", "offset"):
        values[name] = constant(values[name])
    rig.join(**values)
    assert rig.joined == 3
    rig.check(**{**values, "offset": constant(values["offset"] + 1)})
    rig.check(**{**values, "mean": values["mean"] + 1})


@needs_products
def test_few_rows_are_a_product_in_the_joint() -> None:
    graph = fe.Graph()
    ops = graph.ops
    x, w, b = (graph.placeholder("float32", None, name=name) for name in "xwb")
    y = ops.Relu(ops.BiasAdd(ops.Conv2D(x, w, **ONE), b))
    rig = Rig(graph, [ops.MaxPool(y, ksize=[1, 2, 2, 1], **ONE)])
    for run in range(6):
        rig.check(x=numbers(run, 1, 3, 3, 64), w=numbers(run, 1, 1, 64, 80), b=numbers(run, 80))
    assert rig.joined == 2
