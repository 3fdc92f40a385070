"""The boxes that stay of those that overlap, by products of matrices.

A box is kept or not by those kept before it, one after another: boxes are looked at by falling score, as many
at a time as are likely to decide. Products of matrices find the few pairs that could overlap by so much, and
only their overlap is computed, to the bit as TensorFlow does.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.kernels.numpy.order.falling import MANY, falling_places

#: Boxes that are compared with each other at a time, and with so many of those already chosen: BLAS uses one
#: core for products of this size.
_BOXES_AT_A_TIME: Final = 160
_CHOSEN_AT_A_TIME: Final = 240
#: As many more than are still wanted are looked at: a number, and a part of what is wanted.
_SPARE: Final = 16
_SPARE_PART: Final = 3
#: Of many more scores than so many times what is wanted, the best are found before all are sorted.
_BEST: Final = 2
_BEST_MIN: Final = 64
_MORE: Final = 4
_ZERO: Final = np.float32(0)
_FLOAT32: Final = np.dtype(np.float32)

#: What is allowed for roundings: of an overlap; and of sums of products, as a part of the squares in them.
_ROUNDED: Final = 2e-3
_CANCELLED: Final = 4e-6
#: What is shorter has squares so close to denormal numbers that they may be far from the true ones.
_TINY: Final = np.float32(1e-15)
#: Of greater squares the sums and products may not be finite.
_HUGE: Final = np.float32(1e37)
#: Numbers of boxes for which is kept which of them come before which.
_ORDERS_KEPT: Final = 64


def chosen_of(boxes: Array, scores: Array, limit: Any, iou: Any, threshold: Any) -> Array:
    """Indices (int32) of at most `limit` boxes above a threshold, none close to a better one.

    boxes    (n, 4): two corners each, (y1, x1, y2, x2), in any order
    scores   (n,); of one score the first box comes first, NaN comes last
    """
    if boxes.dtype != _FLOAT32:
        boxes = boxes.astype(_FLOAT32)
    if scores.dtype != _FLOAT32:
        scores = scores.astype(_FLOAT32)
    wanted = max(int(limit), 0)
    ratio = np.float32(iou)
    chosen: list[Array] = []
    count = seen = 0
    before: Array | None = None
    for order in _by_falling_score(scores, threshold, wanted):
        start = 0
        while start < order.size and count < wanted:
            missing = wanted - count
            stop = start + min(_BOXES_AT_A_TIME, missing + missing // _SPARE_PART + _SPARE)
            part = order[start:stop]
            edges = _edges(boxes.take(part, 0))
            beside = before
            if before is not None and (count > _CHOSEN_AT_A_TIME or count < seen // 2):
                # Many are close to a chosen one: it does not matter what those are close to themselves.
                part, edges = _apart_from(before, part, edges, ratio)
                beside = None
            stays = _apart_from_better(beside, edges, ratio)
            if stays is not None:
                part = part.take(stays)
            chosen.append(part)
            count += part.size
            if count < wanted:
                if stays is not None:
                    edges = edges.take(stays, 1)
                before = edges if before is None else np.concatenate([before, edges], axis=1)
            seen += stop - start
            start = stop
        if count >= wanted:
            break
    if not chosen:
        return np.empty(0, np.int32)
    found = chosen[0] if len(chosen) == 1 else np.concatenate(chosen)
    return found[:wanted].astype(np.int32)


def _by_falling_score(scores: Array, threshold: Any, wanted: int) -> Iterator[Array]:
    """Indices by falling score, of one score in their order, some at a time; none at or below a threshold."""
    if threshold == -np.inf:
        yield from _best_first(scores, wanted)
        return
    indices = (scores > threshold).nonzero()[0]
    for places in _best_first(scores.take(indices), wanted):
        yield indices.take(places)


def _best_first(scores: Array, wanted: int) -> Iterator[Array]:
    enough = max(_BEST * wanted, _BEST_MIN)
    if scores.size > _MORE * enough:
        # Mostly the best few decide; to find them takes less than to sort all.
        place = scores.size - enough
        good = scores >= np.partition(scores, place)[place]
        best = good.nonzero()[0]
        # Less than enough where one is NaN, which `partition` takes to be the greatest.
        if best.size >= enough:
            yield best.take(_falling(scores.take(best)))
            rest = np.logical_not(good).nonzero()[0]
            yield rest.take(_falling(scores.take(rest)))
            return
    yield _falling(scores)


def _falling(scores: Array) -> Array:
    """Places of the scores from the best down, of one score in their order, NaN last."""
    if scores.size < MANY:
        # A stable sort of floats takes five times as long; mostly no two are equal.
        falling = np.negative(scores)
        places: Array = falling.argsort()
        ordered = falling.take(places)
        if not np.logical_and.reduce(ordered[:-1] < ordered[1:]):
            places = falling.argsort(kind="stable")
        return places
    return falling_places(scores, nan_first=False)


def _edges(corners: Array) -> Array:
    """Boxes (n, 4) with corners in any order as rows: top, left, bottom, right, area; (5, n)."""
    rows = np.ascontiguousarray(corners.T)
    edges = np.empty((5, len(corners)), np.float32)
    np.minimum(rows[:2], rows[2:], out=edges[:2])
    np.maximum(rows[:2], rows[2:], out=edges[2:4])
    extents = edges[2:4] - edges[:2]
    np.multiply(extents[0], extents[1], out=edges[4])
    return edges


def _apart_from(chosen: Array, part: Array, edges: Array, ratio: Any) -> tuple[Array, Array]:
    """Indices and edges of the boxes that are not close to one of the chosen."""
    for first in range(0, chosen.shape[1], _CHOSEN_AT_A_TIME):
        if not part.size:
            break
        _, close = _close(chosen[:, first : first + _CHOSEN_AT_A_TIME], edges, ratio, 0)
        if close.size:
            stays = np.ones(part.size, np.bool_)
            stays[close] = False
            kept = stays.nonzero()[0]
            part, edges = part.take(kept), edges.take(kept, 1)
    return part, edges


def _apart_from_better(chosen: Array | None, edges: Array, ratio: Any) -> Array | None:
    """Places of the boxes that are close neither to a chosen one nor to a better one that stays.

    None where all of them stay.
    """
    count = edges.shape[1]
    if not count:
        return None
    some = edges if chosen is None else np.concatenate([chosen, edges], axis=1)
    better, worse = _close(some, edges, ratio, count)
    if not worse.size:
        return None
    before = some.shape[1] - count
    stays = bytearray(b"\1") * (before + count)
    # Pairs come by their better box: whether that stays is known by then.
    for place, other in zip(better.tolist(), worse.tolist(), strict=True):
        if stays[place]:
            stays[before + other] = 0
    return np.frombuffer(stays, np.bool_)[before:].nonzero()[0]


def _close(some: Array, others: Array, ratio: Any, same: int) -> tuple[Array, Array]:
    """Places in either of the pairs that overlap by a ratio, by places in the first.

    same   so many at the end of the first are the others: of those each pair counts once
    """
    apart = _apart(some, others, float(ratio))
    if same:
        last = apart[-same:]
        np.logical_or(last, _not_before(same), out=last)
    pairs = np.logical_not(apart, out=apart).ravel().nonzero()[0]
    places = pairs // others.shape[1]
    pairs -= places * others.shape[1]
    a, b = some.take(places, 1), others.take(pairs, 1)
    extents = np.minimum(a[2:4], b[2:4])
    extents -= np.maximum(a[:2], b[:2])
    np.maximum(extents, _ZERO, out=extents)
    overlap = extents[0] * extents[1]
    union = a[4] + b[4]
    union -= overlap
    overlap /= union
    if not ratio > 0:
        # A box without area overlaps by 0, which is enough here; it has nothing to divide by.
        overlap[(a[4] <= 0) | (b[4] <= 0)] = 0
    close = (overlap >= ratio).nonzero()[0]
    return places.take(close), pairs.take(close)


def _apart(some: Array, others: Array, ratio: float) -> Array:
    """Which of m boxes certainly do not overlap with which of n by a ratio, bool (m, n).

    Where two boxes overlap by r, so do their extents along each axis, by r times the longer one or more. With
    s the sum of a box's ends along an axis and h their distance that is

        (s - s')^2 + (h - h')^2  <=  c (h + h')^2,    c = (1 - r)^2 max(1, 2 / (1 + r)^2)

    which is a sum of products of what each has. Where something is not finite, nothing is certain.

    (Let a be the overlap and b the shorter one, both in terms of the longer one. The ends are apart by 1 - a
    and b - a at most, which makes the left side up to 2 (1 - a)^2 + 2 (b - a)^2, the right side c (1 + b)^2.
    Their ratio falls and then grows as b goes from a to 1, so it is greatest for one of the two, and there it
    falls with a, which is r or more.)
    """
    _, products = _coefficients(ratio)
    left = _terms(some, ratio)
    own = left if others is some else _terms(others, ratio)
    right = np.empty_like(own)
    np.multiply(own[:2], products, out=right[:2])
    right[2] = 1
    right[3] = own[2]
    # BLAS takes half as long where a box's terms lie together.
    rows = np.ascontiguousarray(left.transpose(1, 2, 0))
    far = np.matmul(rows, right.transpose(1, 0, 2)) > 0
    apart: Array = np.logical_or(far[0], far[1], out=far[0])
    return apart


@functools.lru_cache(maxsize=_ORDERS_KEPT)
def _not_before(count: int) -> Array:
    """Which of so many boxes come after which, or are the same."""
    places = np.arange(count)
    return places[:, None] >= places


def _terms(edges: Array, ratio: float) -> Array:
    """Sum, distance, what is a box's own in the sum of products, and 1: for each axis and box, (4, 2, n)."""
    squares, _ = _coefficients(ratio)
    low, high = edges[:2], edges[2:4]
    terms = np.empty((4, 2, edges.shape[1]), np.float32)
    np.add(high, low, out=terms[0])
    extents = np.subtract(high, low, out=terms[1])
    square = terms[:2] * terms[:2]
    # False for a NaN as well.
    is_tame = np.minimum.reduce(extents, None) >= _TINY and np.maximum.reduce(square, None) <= _HUGE
    tame = None if is_tame else (extents >= _TINY).all(0) & (square <= _HUGE).all((0, 1))
    square *= squares
    own = np.add(square[0], square[1], out=terms[2])
    terms[3] = 1
    if tame is not None and ratio > 0:
        own[:, np.logical_not(tame)] = -np.inf
        own[:, edges[4] <= 0] = np.inf  # no overlap at all
    return terms


@functools.lru_cache(maxsize=64)
def _coefficients(ratio: float) -> tuple[Array, Array]:
    """Return the factors of the squares of sum and distance, and of their products with another box's."""
    least = ratio - _ROUNDED
    # Where no overlap is needed, everything is close.
    reach = (1 - least) ** 2 * max(1.0, 2 / (1 + least) ** 2) if ratio > 0 else np.inf
    squares = np.array([1 - _CANCELLED, 1 - reach], np.float32)
    products = np.array([-2, -2 - 2 * reach], np.float32)
    return squares[:, None, None], products[:, None, None]


__all__ = ["chosen_of"]
