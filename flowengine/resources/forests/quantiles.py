"""Quantiles of weighted values that come one batch after another, within an error, in little memory.

A *summary* is a rising list of values, each with the weight that it stands for and bounds of its rank. Two
operations keep it small: merging two summaries makes the error no larger than that of the worse one, and
compressing one to `b` entries adds at most `1 / b`. A stream collects values in a buffer. A full buffer
becomes a summary, is compressed, and merged into the first level. A level that has grown too large is
compressed and merged into the next: a value has gone through a few compressions only when it is in the last.

Papers: M. Greenwald and S. Khanna, "Space-efficient online computation of quantile summaries", 2001, section
2; "Power-conserving computation of order-statistics over sensor networks", 2004, section 4; T. Chen and
C. Guestrin, "XGBoost: a scalable tree boosting system", 2016, appendix A (weights).

All numbers are float32, as they come out of the ops; bounds of errors are float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from threading import Lock
from typing import Final

import numpy as np

from flowengine.core.accounting import Account, ask_for
from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError, NotFoundError

#: The least size of a block, and of what a summary is compressed to.
_LEAST: Final = 2
#: Columns of a summary.
_VALUE, _WEIGHT, _MIN_RANK, _MAX_RANK = range(4)
_EXACT: Final = float(np.finfo(np.float64).eps)
#: What an empty stream takes, about.
_STREAM_BYTES: Final = 500
#: What is held at once for each quantile that is asked for.
_RANK_BYTES: Final = 48


def no_entries() -> Array:
    """A summary of nothing."""
    return np.zeros((0, 4), np.float32)


def summary_of(values: Array, weights: Array) -> Array:
    """An exact summary (distinct values, 4) of values and their weights, each (n,) float32."""
    order = np.argsort(values, kind="stable")
    values, weights = values[order], weights[order]
    if not values.size:
        return no_entries()
    group = np.concatenate([[0], np.cumsum(values[1:] != values[:-1])])
    summary = np.zeros((int(group[-1]) + 1, 4), np.float32)
    summary[group[::-1], _VALUE] = values[::-1]
    sums = np.zeros(len(summary), np.float32)
    np.add.at(sums, group, weights)
    summary[:, _WEIGHT] = sums
    summary[:, _MAX_RANK] = np.cumsum(sums, dtype=np.float32)
    summary[1:, _MIN_RANK] = summary[:-1, _MAX_RANK]
    return summary


def merged(first: Array, second: Array) -> Array:
    """The summary of two: entries of both by value, those of one value in one."""
    if not len(first) or not len(second):
        return first if len(first) else second
    a, b = _shifted(first, second), _shifted(second, first)
    both = np.isin(second[:, _VALUE], first[:, _VALUE])
    same = np.searchsorted(first[:, _VALUE], second[both, _VALUE])
    a[same, _WEIGHT] = first[same, _WEIGHT] + second[both, _WEIGHT]
    a[same, _MIN_RANK] = first[same, _MIN_RANK] + second[both, _MIN_RANK]
    a[same, _MAX_RANK] = first[same, _MAX_RANK] + second[both, _MAX_RANK]
    every = np.concatenate([a, b[~both]])
    return every[np.argsort(every[:, _VALUE], kind="stable")]


def _shifted(entries: Array, other: Array) -> Array:
    """Entries with the ranks that they have among another summary's, where that has not their values."""
    out = entries.copy()
    below = np.searchsorted(other[:, _VALUE], entries[:, _VALUE])
    above = np.searchsorted(other[:, _VALUE], entries[:, _VALUE], side="right")
    next_min = other[:, _MIN_RANK] + other[:, _WEIGHT]
    out[:, _MIN_RANK] += np.where(below > 0, next_min[np.maximum(below - 1, 0)], np.float32(0))
    previous_max = other[:, _MAX_RANK] - other[:, _WEIGHT]
    behind = above >= len(other)
    out[:, _MAX_RANK] += np.where(
        behind, other[-1, _MAX_RANK], previous_max[np.minimum(above, len(other) - 1)]
    )
    return out


def compressed(summary: Array, size: int, least_error: float) -> Array:
    """About so many of the entries, the first and the last among them.

    An entry that goes leaves a gap of ranks of at most the error, or of one part in `size` if that is more.
    The entries that stay are spread evenly.
    """
    size = max(size, _LEAST)
    count = len(summary)
    if count <= size:
        return summary
    # A Python float would be compared as a float32.
    allowed = np.float64(float(summary[-1, _MAX_RANK]) * max(1.0 / size, least_error))
    previous_max = list(summary[:, _MAX_RANK] - summary[:, _WEIGHT])
    next_min = list(summary[:, _MIN_RANK] + summary[:, _WEIGHT])
    kept = [0]
    # How many entries were passed over beyond an even share, times `size`.
    ahead = read = 0
    last = 1
    while read + 1 != count:
        following = read + 1
        bound = next_min[read]
        while following != count and ahead < count and previous_max[following] - bound <= allowed:
            ahead += size
            following += 1
        read = read + 1 if read == following - 1 else following - 1
        kept.append(read)
        last = read
        ahead -= count
    if last + 1 != count:
        kept.append(count - 1)
    return summary[kept]


def error_of(summary: Array) -> float:
    """The largest gap between bounds of ranks, as a part of the whole weight."""
    if not len(summary):
        return 0.0
    previous_max = summary[1:, _MAX_RANK] - summary[1:, _WEIGHT]
    own = summary[1:, _MAX_RANK] - summary[1:, _MIN_RANK] - summary[1:, _WEIGHT]
    between = previous_max - (summary[:-1, _MIN_RANK] + summary[:-1, _WEIGHT])
    gap = max(0.0, float(np.maximum(own, between).max(initial=0)))
    with np.errstate(all="ignore"):
        return float(np.float64(gap) / np.float64(summary[-1, _MAX_RANK]))


def boundaries_of(summary: Array, count: int) -> Array:
    """Distinct values (at least `count` where there are as many) that lie evenly among the ranks."""
    if not len(summary):
        return np.zeros(0, np.float32)
    with np.errstate(all="ignore"):
        error = float(np.float32(error_of(summary) + np.float64(1.0) / np.float64(count)))
    values = compressed(summary, count, error)[:, _VALUE]
    distinct: Array = values[np.concatenate([[True], values[1:] != values[:-1]])]
    return distinct


def quantiles_of(summary: Array, count: int) -> Array:
    """The `count + 1` values (count at least 2) that part the weight evenly, both ends among them."""
    count = max(count, _LEAST)
    if not len(summary):
        return np.zeros(0, np.float32)
    ask_for(_RANK_BYTES * (count + 1))
    ranks = np.arange(count + 1, dtype=np.int64).astype(np.float32)
    wanted = np.float32(2) * (ranks * summary[-1, _MAX_RANK] / np.float32(count))
    # Behind the entry before the first whose middle is over what is wanted, or that first one.
    middles = np.maximum.accumulate((summary[:, _MIN_RANK] + summary[:, _MAX_RANK])[1:])
    place = np.searchsorted(middles, wanted, side="right")
    following = np.minimum(place + 1, len(summary) - 1)
    between = (summary[place, _MIN_RANK] + summary[place, _WEIGHT]) + (
        summary[following, _MAX_RANK] - summary[following, _WEIGHT]
    )
    before = (place + 1 == len(summary)) | (wanted < between)
    found: Array = summary[np.where(before, place, following), _VALUE]
    return found


def specification(error: float, most: int) -> tuple[int, int]:
    """The number of levels and the size of a block for so many values, so that the error is kept."""
    if error <= _EXACT:
        return 1, max(most, _LEAST)
    levels, block = 1, _LEAST
    while (1 << levels) * block < most:
        block = math.ceil(levels / error) + 1
        levels += 1
    return levels, max(block, _LEAST)


class QuantileStream:
    """Values that come, and their summary.

    error    the largest error of a rank, as a part of the whole weight: over 0, under 1
    most     how many values will come at most
    """

    __slots__ = ("_block", "_buffer", "_buffered", "_error", "_levels", "_room")

    def __init__(self, error: float, most: int) -> None:
        if not 0 < error < 1 or most < 1:
            raise InvalidArgumentError(
                f"the error must be between 0 and 1 and the number of values positive: not {error}, {most}"
            )
        self._error = error
        _, self._block = specification(error, most)
        self._room = min(2 * self._block, most)
        self._buffer: list[tuple[Array, Array]] = []
        self._buffered = 0
        self._levels: list[Array] = []

    @property
    def nbytes(self) -> int:
        return _STREAM_BYTES + 8 * self._buffered + sum(each.nbytes for each in self._levels)

    def push(self, values: Array, weights: Array) -> None:
        """Take values with their weights, each (n,) float32; those without a weight over 0 do not count."""
        # As TensorFlow does it, a weight that is no number counts.
        counts = ~(weights <= 0)
        values, weights = values[counts], weights[counts]
        while values.size:
            taken = self._room - self._buffered
            self._buffer.append((values[:taken], weights[:taken]))
            self._buffered += len(values[:taken])
            values, weights = values[taken:], weights[taken:]
            if self._buffered >= self._room:
                self._flush()

    def push_summary(self, summary: Array) -> None:
        """Take what another stream has seen: (n, 4) float32."""
        self._settle(compressed(summary, self._block, self._error))

    def summary(self) -> Array:
        """Of all that came (entries, 4) float32: value, weight, least and greatest rank."""
        self._flush()
        found = no_entries()
        for level in self._levels:
            found = merged(found, level)
        return found

    def _flush(self) -> None:
        if self._buffer:
            values, weights = (np.concatenate(each) for each in zip(*self._buffer, strict=True))
            self._buffer, self._buffered = [], 0
            self.push_summary(summary_of(values, weights))

    def _settle(self, summary: Array) -> None:
        """Merge a summary into the first level that has room for it."""
        if not len(summary):
            return
        for place in range(len(self._levels) + 1):
            if place == len(self._levels):
                self._levels.append(no_entries())
            was_empty = not len(self._levels[place])
            summary = merged(summary, self._levels[place])
            if was_empty or len(summary) <= self._block + 1:
                self._levels[place] = summary
                return
            summary = compressed(summary, self._block, self._error)
            self._levels[place] = no_entries()


class QuantileStreams:
    """Streams of several features by name, and the boundaries that were made of them; exist from `create` on.

    account    set by the resource manager: where their bytes are booked
    """

    __slots__ = (
        "__weakref__",
        "_boundaries",
        "_count",
        "_error",
        "_lock",
        "_most",
        "_streams",
        "account",
        "container",
        "name",
    )

    def __init__(self, name: str, *, container: str = "") -> None:
        self.name = name
        self.container = container
        self.account: Account | None = None
        #: How many streams there are; None before `create`.
        self._count: int | None = None
        #: {place: a stream that has seen something}
        self._streams: dict[int, QuantileStream] = {}
        #: {place: boundaries that were made or set}
        self._boundaries: dict[int, Array] = {}
        self._error, self._most = 0.0, 0
        self._lock = Lock()

    @property
    def exists(self) -> bool:
        return self._count is not None

    def create(self, error: float, most: int, count: int) -> None:
        """Begin streams, where there are none yet; of what cannot be one InvalidArgumentError."""
        if count < 0:
            raise InvalidArgumentError(f"num_streams must not be negative, but is {count}")
        with self._lock:
            QuantileStream(error, most)
            if self._count is None:
                self._error, self._most, self._count = error, most, count
                self._book()

    def add(self, summaries: Sequence[Array]) -> None:
        """Add a summary to each stream; InvalidArgumentError where there are more or fewer of them, or one
        does not rise.
        """
        with self._lock:
            self._check_count(len(summaries))
            for summary in summaries:
                _check_rising(summary)
            if self.account is not None:
                self.account.check(sum(_STREAM_BYTES + each.nbytes for each in summaries))
            for place, summary in enumerate(summaries):
                if place not in self._streams:
                    self._streams[place] = QuantileStream(self._error, self._most)
                self._streams[place].push_summary(summary)
            self._book()

    def flush_summaries(self, count: int) -> list[Array]:
        """The summaries of the streams, which begin anew."""
        with self._lock:
            self._check_count(count)
            found = [self._streams[i].summary() if i in self._streams else no_entries() for i in range(count)]
            self._streams.clear()
            self._book()
            return found

    def flush(self, boundaries: int, *, quantiles: bool) -> None:
        """Make boundaries of the streams, which begin anew.

        With `quantiles` exactly so many, of which some may be equal: InvalidArgumentError where they are
        fewer than 3 or a stream has seen nothing.
        """
        with self._lock:
            count = self._existing()
            summaries = {place: stream.summary() for place, stream in self._streams.items()}
            summaries = {place: summary for place, summary in summaries.items() if len(summary)}
            if quantiles and count and (boundaries <= _LEAST or len(summaries) < count):
                raise InvalidArgumentError(
                    f"cannot compute {boundaries} quantiles of each of {count} streams: ask for at least 3, "
                    f"and give each stream a value; {len(summaries)} have one"
                )
            if quantiles:
                made = {place: quantiles_of(each, boundaries - 1) for place, each in summaries.items()}
            else:
                made = {place: boundaries_of(each, boundaries) for place, each in summaries.items()}
            self._boundaries = made
            self._streams.clear()
            self._book()

    def boundaries(self, count: int) -> list[Array]:
        """The boundaries of all streams, each (n,) float32; empty before the first flush."""
        with self._lock:
            self._check_count(count)
            return [self._boundaries.get(place, np.zeros(0, np.float32)) for place in range(count)]

    def set_boundaries(self, boundaries: Sequence[Array]) -> None:
        """Take boundaries for the first streams, each (n,) float32."""
        with self._lock:
            count = self._existing()
            if len(boundaries) > count:
                raise InvalidArgumentError(f"there are {count} streams, not {len(boundaries)}")
            if self.account is not None:
                self.account.check(sum(each.nbytes for each in boundaries))
            self._boundaries.update((place, each.copy()) for place, each in enumerate(boundaries))
            self._book()

    def _existing(self) -> int:
        if self._count is None:
            raise NotFoundError(
                f"Resource {self.container}/{self.name}/BoostedTreesQuantileStreamResource does not exist"
            )
        return self._count

    def _check_count(self, wanted: int) -> None:
        if self._existing() != wanted:
            raise InvalidArgumentError(f"there are {self._count} streams, not {wanted}")

    def _book(self) -> None:
        if self.account is not None:
            held = sum(each.nbytes for each in self._streams.values())
            held += sum(each.nbytes for each in self._boundaries.values())
            self.account.book(self, _STREAM_BYTES + held, self.name)


def _check_rising(summary: Array) -> None:
    """Each value must be over the one before it; what is no number may come last."""
    values = summary[:, _VALUE]
    numbers = values[: len(values) - int(np.isnan(values).sum())]
    if not (numbers[:-1] < numbers[1:]).all() or np.isnan(numbers).any():
        raise InvalidArgumentError("the values of a summary must rise from entry to entry")


__all__ = [
    "QuantileStream",
    "QuantileStreams",
    "boundaries_of",
    "compressed",
    "error_of",
    "merged",
    "no_entries",
    "quantiles_of",
    "specification",
    "summary_of",
]
