"""Starts of k-means clustering, and the nearest centres."""

from __future__ import annotations

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import dimension_value, ranked, scalars, smaller

define(
    "KMC2ChainInitialization(distances: float, seed: int64) -> index: int64",
    NotDifferentiable(),
    shape=scalars,
)


@define(
    "KmeansPlusPlusInitialization(points: float, num_to_sample, seed, num_retries_per_sample: int64) "
    "-> samples: float",
    NotDifferentiable(),
)
def initial_centres(c: ShapeContext) -> Shapes:
    return [TensorShape([dimension_value(c, 1), ranked(c, 0, 2)[1]])]


@define(
    "NearestNeighbors(points, centers: float, k: int64) "
    "-> nearest_center_indices: int64, nearest_center_distances: float"
)
def nearest(c: ShapeContext) -> Shapes:
    """points (n, d), centers (m, d) -> the k nearest of each, fewer if there are fewer centres"""
    return [TensorShape([ranked(c, 0, 2)[0], smaller(ranked(c, 1, 2)[0], dimension_value(c, 2))])] * 2
