"""Starts of k-means clustering, and the nearest centres."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common import philox
from flowengine.kernels.common.array_args import brackets, scalar, shape_of
from flowengine.kernels.registry import kernel

#: Elements of distances that are held at a time, and candidates that are looked at first.
_BLOCK: Final = 1 << 22
_FIRST_LOOK: Final = 16
_LONGEST_LOOK: Final = 1 << 16
#: Draws of points that are taken already, after which any other point will do.
_ENOUGH_DRAWS: Final = 1000
#: Draws for one point. TensorFlow takes any number; its own default is some ten.
_RETRIES_MAX: Final = 1 << 16


def _check_scalar(value: Any, name: str) -> int:
    if shape_of(value) != ():
        raise InvalidArgumentError(
            f"Input {name} should be a scalar, but has shape {brackets(shape_of(value))}"
        )
    return int(value)


def _check_matrix(value: Array, name: str) -> None:
    if value.ndim != 2:
        raise InvalidArgumentError(f"Input {name} should be a matrix, but has shape {brackets(value.shape)}")


@kernel("KMC2ChainInitialization", fresh=True, device="CPU")
def kmc2_chain_initialization(distances: Array, seed: Any) -> Any:
    """The last state of a chain: each point in turn, by its distance (Bachem et al., 2016)."""
    if distances.ndim != 1:
        raise InvalidArgumentError(
            f"Input distances should be a vector, but has shape {brackets(distances.shape)}"
        )
    key = _check_scalar(seed, "seed") & (2**64 - 1)
    count = distances.size
    if not count:
        raise InvalidArgumentError("Expected distances_tensor.size() > 0.")
    chances = philox.uniform(np, key, 0, count - 1, dtypes.float32)
    chosen, place, look = 0, 1, _FIRST_LOOK
    while place < count:
        end = min(place + look, count)
        moves = distances[place:end] > chances[place - 1 : end - 1] * distances[chosen]
        first = int(moves.argmax())
        if moves[first]:
            chosen = place + first
            place, look = chosen + 1, _FIRST_LOOK
        else:
            place, look = end, min(2 * look, _LONGEST_LOOK)
    return np.int64(chosen)


class _Draws:
    """Draws of points by their distances to those that were drawn before."""

    def __init__(self, points: Array, key: int) -> None:
        self._points = points
        self._stream = philox.Stream(key, 0)
        self._half_norms = np.float32(0.5) * np.einsum("ij,ij->i", points, points)
        self._taken: set[int] = set()
        #: Half the squared distance of each point to the nearest one taken; and their sums.
        self._nearest = np.full(len(points), np.inf, np.float32)
        self._sums = self._nearest

    def _draw(self) -> int:
        count = len(self._points)
        if not self._taken:
            return self._stream.below(count)
        total = self._sums[-1]
        for _ in range(_ENOUGH_DRAWS):
            if total > 0:
                wanted = np.float32(self._stream.single()) * total
                place = min(int(np.searchsorted(self._sums, wanted, side="right")), count - 1)
            else:
                place = self._stream.below(count)
            if place not in self._taken:
                return place
        others = [place for place in range(count) if place not in self._taken]
        return others[self._stream.below(len(others))]

    def _nearer(self, place: int) -> Any:
        """The nearest distances if this point were taken too."""
        products = self._points @ self._points[place]
        return np.minimum(self._nearest, (self._half_norms - products) + self._half_norms[place])

    def take(self, retries: int) -> int:
        """One more point: of some that are drawn, that which leaves the others nearest."""
        if self._taken:
            self._sums = np.cumsum(self._nearest, dtype=np.float32)
        best, chosen, least = None, 0, np.float32(np.inf)
        for _ in range(1 + retries):
            place = self._draw()
            nearest = self._nearer(place)
            potential = nearest.sum()
            if best is None or potential < least:
                best, chosen, least = nearest, place, potential
        assert best is not None
        self._nearest = best
        self._taken.add(chosen)
        return chosen


@kernel("KmeansPlusPlusInitialization", fresh=True, device="CPU")
def kmeans_plus_plus_initialization(
    points: Array, num_to_sample: Any, seed: Any, num_retries_per_sample: Any
) -> Any:
    """Points drawn by their squared distances to those before (Arthur and Vassilvitskii, 2007)."""
    _check_matrix(points, "points")
    wanted = _check_scalar(num_to_sample, "num_to_sample")
    key = _check_scalar(seed, "seed") & (2**64 - 1)
    retries = _check_scalar(num_retries_per_sample, "num_retries_per_sample")
    if not len(points):
        raise InvalidArgumentError("Expected points.rows() > 0.")
    if wanted <= 0:
        raise InvalidArgumentError(f"Expected num_to_sample > 0, got {wanted}.")
    if wanted > len(points):
        raise InvalidArgumentError(f"Expected num_to_sample <= points.rows(). {wanted} vs {len(points)}.")
    if retries > _RETRIES_MAX:
        raise InvalidArgumentError(
            f"Expected num_retries_per_sample <= {_RETRIES_MAX}, got {retries}: each is a draw of all points."
        )
    if retries < 0:
        retries = 2 + int(math.log(wanted))
    draws = _Draws(points, key)
    return points[[draws.take(retries) for _ in range(wanted)]]


def _cost(points: Array, centers: Array, k: Any) -> float:
    return points.size * (len(centers) if centers.ndim else 1) / 20_000.0


@kernel("NearestNeighbors", fresh=True, host=("k",), heavy=_cost)
def nearest_neighbors(xp: Any, points: Array, centers: Array, k: Any) -> Any:
    """The k nearest centres of each point, the nearest first, and their squared distances."""
    _check_matrix(points, "points")
    _check_matrix(centers, "centers")
    if not len(points):
        raise InvalidArgumentError("Expected points.rows() > 0.")
    if points.shape[1] != centers.shape[1]:
        raise InvalidArgumentError(
            f"Expected point_dimensions == center_dimensions: {points.shape[1]} vs {centers.shape[1]}."
        )
    wanted = scalar(k, "Input k")
    if wanted < 0:
        raise InvalidArgumentError(f"Expected k >= 0, got {wanted}.")
    wanted = min(wanted, len(centers))
    if not wanted:
        return xp.empty((len(points), 0), np.int64), xp.empty((len(points), 0), np.float32)
    half_norms = np.float32(0.5) * xp.square(centers).sum(1)
    rows = max(1, _BLOCK // max(len(centers), 1))
    blocks = [
        _nearest(xp, points[i : i + rows], centers, half_norms, wanted) for i in range(0, len(points), rows)
    ]
    return xp.concatenate([b[0] for b in blocks]), xp.concatenate([b[1] for b in blocks])


def _nearest(xp: Any, points: Array, centers: Array, half_norms: Array, k: int) -> tuple[Any, Any]:
    """Compute `nearest_neighbors` for some of the points."""
    apart = half_norms - xp.dot(points, centers.T)
    order = apart.argmin(1)[:, None] if k == 1 else xp.argsort(apart, axis=1, kind="stable")[:, :k]
    distances = xp.take_along_axis(apart, order, 1)
    own = np.float32(0.5) * xp.square(points).sum(1)[:, None]
    return order.astype(np.int64), np.float32(2) * (distances + own)
