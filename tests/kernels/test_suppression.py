"""Suppression of overlapping boxes against a plain greedy loop, over sizes that take more than one block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flowengine.kernels.image_boxes import non_max_suppression_v2, non_max_suppression_v3


def overlap(a: Any, b: Any) -> Any:
    """Intersection over union of two boxes with corners in any order."""
    low, high = np.minimum(a[:2], a[2:]), np.maximum(a[:2], a[2:])
    other_low, other_high = np.minimum(b[:2], b[2:]), np.maximum(b[:2], b[2:])
    areas = np.prod(high - low), np.prod(other_high - other_low)
    if min(areas) <= 0:
        return np.float32(0)
    extent = np.maximum(np.minimum(high, other_high) - np.maximum(low, other_low), np.float32(0))
    shared = extent[0] * extent[1]
    return shared / (areas[0] + areas[1] - shared)


def greedy(boxes: Any, scores: Any, limit: int, ratio: Any, threshold: float) -> list[int]:
    kept: list[int] = []
    for index in np.argsort(-scores, kind="stable").tolist():
        if len(kept) == limit or not scores[index] > threshold:
            break
        if all(overlap(boxes[index], boxes[each]) < ratio for each in kept):
            kept.append(index)
    return kept


@pytest.mark.parametrize("seed", range(40))
def test_boxes_are_chosen_as_one_by_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.choice([0, 1, 130, 1100, 1400]))
    boxes = rng.random((count, 4)).astype(np.float32)
    if seed % 3 == 0:  # small ones, of which few overlap
        boxes[:, 2:] = boxes[:, :2] + rng.random((count, 2)).astype(np.float32) * 0.1
    # Few distinct scores: ties, at the border of the best as well.
    scores = rng.choice(np.linspace(0, 1, int(rng.choice([2, 10, 1000]))), count).astype(np.float32)
    limit, ratio = int(rng.choice([1, 20, 150])), np.float32(rng.choice([0.1, 0.5, 0.7]))
    with np.errstate(all="ignore"):
        if seed % 2:
            found = non_max_suppression_v2(boxes, scores, np.int32(limit), ratio)
            expected = greedy(boxes, scores, limit, ratio, -np.inf)
        else:
            found = non_max_suppression_v3(boxes, scores, np.int32(limit), ratio, np.float32(0.3))
            expected = greedy(boxes, scores, limit, ratio, 0.3)
    assert found.dtype == np.int32
    assert found.tolist() == expected


@pytest.mark.parametrize("count", [9, 1500])
def test_zeros_are_equal_and_nothing_is_better_than_infinity(count: int) -> None:
    rng = np.random.default_rng(3)
    boxes = np.repeat(np.arange(count, dtype=np.float32)[:, None], 4, axis=1)
    boxes[:, 2:] += np.float32(0.5)
    scores = rng.choice(np.array([-0.0, 0.0, 1e-45, -1.5, 2.0, -np.inf, np.inf], np.float32), count)
    unknown = np.arange(count) % 5 == 0
    scores[unknown] = np.copysign(np.float32(np.nan), np.where(unknown, -1, 1).astype(np.float32))[unknown]
    found = non_max_suppression_v2(boxes, scores, np.int32(count), np.float32(0.5))
    assert found.tolist() == np.argsort(-np.where(np.isnan(scores), np.nan, scores), kind="stable").tolist()
