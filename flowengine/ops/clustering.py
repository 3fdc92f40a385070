"""Choosing and finding cluster centres."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import dimension_value, ranked, scalars, smaller

define(
    "KMC2ChainInitialization",
    inputs=["distances: float", "seed: int64"],
    outputs=["index: int64"],
    shape=scalars,
)


def initial_centres(c: ShapeContext) -> Sequence[TensorShape]:
    return [TensorShape([dimension_value(c, 1), ranked(c, 0, 2)[1]])]


define(
    "KmeansPlusPlusInitialization",
    inputs=["points: float", "num_to_sample: int64", "seed: int64", "num_retries_per_sample: int64"],
    outputs=["samples: float"],
    shape=initial_centres,
)


def nearest(c: ShapeContext) -> Sequence[TensorShape]:
    """points (n, d), centers (m, d) -> the k nearest of each, fewer if there are fewer centres"""
    return [TensorShape([ranked(c, 0, 2)[0], smaller(ranked(c, 1, 2)[0], dimension_value(c, 2))])] * 2


define(
    "NearestNeighbors",
    inputs=["points: float", "centers: float", "k: int64"],
    outputs=["nearest_center_indices: int64", "nearest_center_distances: float"],
    shape=nearest,
)
