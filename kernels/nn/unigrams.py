"""Distributions of classes by how often each was seen: given as weights, or counted on the way."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.philox import Stream

HOST: Final = "draws are made one by one; TensorFlow has no GPU kernel"

_MOST: Final = 2**31 - 1


class FixedUnigrams:
    """Classes with given weights, each drawn in constant time (Walker's alias method).

    Every class has a place, of which it takes a part; the rest of a place belongs to another class.
    """

    def __init__(
        self,
        unigrams: Sequence[float],
        limit: int,
        *,
        distortion: float,
        reserved: int,
        shards: int,
        shard: int,
    ) -> None:
        # Ids that nothing is known of count only as far as they belong to this shard.
        first = max(0, -(-(reserved - shard) // shards)) if shard < shards else 0
        given = np.asarray(unigrams, np.float32)
        mine = (first + np.arange(given.size)) % shards == shard
        weights = np.power(given[mine], np.float32(distortion))
        if first + weights.size != limit:
            raise InvalidArgumentError(
                f"range is {limit} must be equal to weights size {first + weights.size}"
            )
        self._weights = np.concatenate([np.zeros(first, np.float32), weights])
        self._total = np.cumsum(weights, dtype=np.float32)[-1] if weights.size else np.float32(0)
        self._share, self._other = _aliases(self._weights)
        #: How many classes can be drawn at all.
        self.possible = int(np.count_nonzero(self._weights > 0))

    def draw(self, stream: Stream) -> int:
        least = stream.single()
        place = stream.below32(len(self._share))
        return place if least < self._share[place] else self._other[place]

    def probability(self, classes: Array) -> Array:
        inside = (classes >= 0) & (classes < self._weights.size)
        chance: Array = self._weights[np.where(inside, classes, 0)] / self._total
        return np.where(inside, chance, np.float32(0))


def _aliases(weights: Array) -> tuple[list[float], list[int]]:
    """For each place the share of its own class, and the class that has the rest."""
    count = weights.size
    proportions = (weights * np.float32(count)).astype(np.float64) / weights.sum(dtype=np.float64)
    share: list[float] = proportions.tolist()
    other = list(range(count))
    low = np.nonzero(proportions < 1)[0].tolist()
    high = np.nonzero(~(proportions < 1))[0].tolist()
    while low and high:
        small, large = low.pop(), high.pop()
        other[small] = large
        share[large] -= 1.0 - share[small]
        (low if share[large] < 1.0 else high).append(large)
    # What is left is 1 but for rounding.
    for place in (*low, *high):
        share[place], other[place] = 1.0, place
    return np.array(share).astype(np.float32).tolist(), other


class LearnedUnigrams:
    """Classes in [0, limit) that count once each, and once more each time that they were seen.

    Only classes that were seen are kept, so that a large limit costs nothing.
    """

    def __init__(self, limit: int) -> None:
        if limit >= _MOST:
            raise InvalidArgumentError(
                f"range_max must be less than {_MOST} for unigram samplers, got {limit}"
            )
        self._limit = limit
        self._seen = np.empty(0, np.int64)
        self._times = np.empty(0, np.int64)
        #: Where the class's own numbers begin among all; the total is where those of no class would.
        self._begins = np.empty(0, np.int64)
        self._total = limit
        self._lock = threading.Lock()

    def draw(self, stream: Stream) -> int:
        position = stream.below32(self._total)
        at = int(np.searchsorted(self._begins, position, side="right")) - 1
        if at < 0:
            return position
        beyond = position - int(self._begins[at]) - int(self._times[at])
        return int(self._seen[at]) + max(beyond, 0)

    def probability(self, classes: Array) -> Array:
        weight = np.ones(classes.shape, np.float32)
        if self._seen.size:
            at = np.minimum(np.searchsorted(self._seen, classes), self._seen.size - 1)
            weight += np.where(self._seen[at] == classes, self._times[at], 0).astype(np.float32)
        chance: Array = weight / np.float32(self._total)
        return chance

    def check(self, classes: Array) -> None:
        for value in classes[(classes < 0) | (classes >= self._limit)].tolist():
            raise InvalidArgumentError(f"`true_candidate` out of range [0, {self._limit}), received {value}")

    def learn(self, classes: Array) -> None:
        """Count classes that were seen, until the total is as large as 32 bits hold."""
        with self._lock:
            news = classes.reshape(-1)[: _MOST - self._total]
            joined = np.concatenate([self._seen, news])
            seen, place = np.unique(joined, return_inverse=True)
            added = np.concatenate([self._times, np.ones(news.size, np.int64)])
            times = np.bincount(place.reshape(-1), added, seen.size).astype(np.int64)
            self._seen, self._times = seen, times
            self._begins = seen + np.cumsum(times) - times
            self._total += news.size


__all__ = ["FixedUnigrams", "LearnedUnigrams"]
