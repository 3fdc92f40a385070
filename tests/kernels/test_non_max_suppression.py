"""Suppression of overlapping boxes against a plain greedy loop, over sizes that take more than one block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.kernels.image import suppression_on_device
from flowengine.kernels.image.suppression import (
    non_max_suppression,
    non_max_suppression_v2,
    non_max_suppression_v3,
)
from flowengine.testing.strict_arrays import StrictModule


def overlaps(box: Any, others: Any) -> Any:
    """Intersection over union of a box with others, corners in any order; 0 where one has no area."""
    low, high = np.minimum(box[:2], box[2:]), np.maximum(box[:2], box[2:])
    other_low = np.minimum(others[:, :2], others[:, 2:])
    other_high = np.maximum(others[:, :2], others[:, 2:])
    area, areas = np.prod(high - low), np.prod(other_high - other_low, axis=1)
    extents = np.maximum(np.minimum(high, other_high) - np.maximum(low, other_low), np.float32(0))
    shared = extents[:, 0] * extents[:, 1]
    return np.where((areas <= 0) | (area <= 0), 0, shared / (area + areas - shared))


def greedy(boxes: Any, scores: Any, limit: int, ratio: Any, threshold: float) -> list[int]:
    kept: list[int] = []
    for index in np.argsort(-scores, kind="stable").tolist():
        if len(kept) == limit or not (scores[index] > threshold or threshold == -np.inf):
            break
        if not (overlaps(boxes[index], boxes[kept]) >= np.float32(ratio)).any():
            kept.append(index)
    return kept


def on_device(kernel: Any, boxes: Any, scores: Any, *rest: Any) -> list[int]:
    """Return the indices that a kernel chooses from a device's boxes."""
    xp = StrictModule()
    found = xp.moved_out(kernel(xp, xp.moved_in(boxes), xp.moved_in(scores), *rest))
    assert found.dtype == np.int32
    chosen: list[int] = found.tolist()
    return chosen


def test_overlap_is_intersection_over_union() -> None:
    boxes = np.array([[0, 0, 2, 2], [3, 1, 1, 0], [5, 5, 6, 6], [1, 1, 1, 3]], np.float32)
    np.testing.assert_allclose(overlaps(boxes[0], boxes), [1, 1 / 5, 0, 0], rtol=1e-6)


@pytest.mark.parametrize("seed", range(40))
def test_boxes_are_chosen_as_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.choice([0, 1, 130, 1100, 1400]))
    boxes = rng.random((count, 4)).astype(np.float32)
    if seed % 3 == 0:  # small ones, of which few overlap
        boxes[:, 2:] = boxes[:, :2] + rng.random((count, 2)).astype(np.float32) * 0.1
    # Few distinct scores: ties, at the border of the best as well.
    scores = rng.choice(np.linspace(0, 1, int(rng.choice([2, 10, 1000]))), count).astype(np.float32)
    limit, ratio = int(rng.choice([1, 20, 150])), np.float32(rng.choice([0.1, 0.5, 0.7]))
    kernel: Any
    rest: tuple[Any, ...]
    with np.errstate(all="ignore"):
        if seed % 2:
            kernel, rest = non_max_suppression_v2, (np.int32(limit), ratio)
            expected = greedy(boxes, scores, limit, ratio, -np.inf)
        else:
            kernel, rest = non_max_suppression_v3, (np.int32(limit), ratio, np.float32(0.3))
            expected = greedy(boxes, scores, limit, ratio, 0.3)
        found = kernel(np, boxes, scores, *rest)
        assert found.dtype == np.int32
        assert found.tolist() == expected
        # Some rows of boxes at a time, or all.
        monkeypatch.setattr(suppression_on_device, "_PAIRS", int(rng.choice([1, 1 << 16, 1 << 22])))
        assert on_device(kernel, boxes, scores, *rest) == expected


@pytest.mark.parametrize("count", [9, 1500])
def test_zeros_are_equal_and_nothing_is_better_than_infinity(count: int) -> None:
    rng = np.random.default_rng(3)
    boxes = np.repeat(np.arange(count, dtype=np.float32)[:, None], 4, axis=1)
    boxes[:, 2:] += np.float32(0.5)
    scores = rng.choice(np.array([-0.0, 0.0, 1e-45, -1.5, 2.0, -np.inf, np.inf], np.float32), count)
    unknown = np.arange(count) % 5 == 0
    scores[unknown] = np.copysign(np.float32(np.nan), np.where(unknown, -1, 1).astype(np.float32))[unknown]
    found = non_max_suppression_v2(np, boxes, scores, np.int32(count), np.float32(0.5))
    assert found.tolist() == np.argsort(-np.where(np.isnan(scores), np.nan, scores), kind="stable").tolist()


@given(st.integers(0, 300), st.integers(0, 40), st.floats(0, 1, width=32), st.integers(0, 2**32 - 1))
def test_suppression_is_greedy(count: int, limit: int, ratio: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    boxes = random.uniform(0, 1, (count, 4)).astype(np.float32)
    scores = random.permutation(count).astype(np.float32)
    with np.errstate(all="ignore"):
        kept = non_max_suppression(boxes, scores, np.int32(limit), iou_threshold=ratio)
        assert kept.tolist() == greedy(boxes, scores, limit, ratio, -np.inf)


#: Where boxes are and how large: what is told of pairs before their overlap is known allows for roundings.
#: The squares of 1.9e19 are just no longer finite.
scales = st.sampled_from(
    [0, 1e-44, 1e-38, 1e-22, 1e-15, 1e-10, 1e-3, 1, 1e3, 1e10, 1e18, 1e19, 1.9e19, 1e30, 1e38]
)


@given(st.data())
def test_boxes_of_any_size_are_chosen_as_one_by_one(data: st.DataObject) -> None:
    """Nearly equal boxes at the border of the ratio, tiny, huge, empty and unknown ones among them."""
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    count = data.draw(st.sampled_from([2, 40, 300]))
    ratio = np.float32(
        data.draw(st.sampled_from([0, 1e-6, 0.25, 0.3, 0.5, 0.6, 0.9, 0.999, 1]) | st.floats(0, 1))
    )
    places = random.choice(
        np.array(data.draw(st.lists(scales, min_size=1, max_size=3)), np.float32), (count, 2)
    )
    sizes = random.choice(
        np.array(data.draw(st.lists(scales, min_size=1, max_size=3)), np.float32), (count, 2)
    )
    with np.errstate(all="ignore"):
        start = places * random.integers(-3, 4, (count, 2)).astype(np.float32)
        # Of two boxes of one height the second begins where the overlap is about the ratio.
        shift = sizes * random.choice(np.array([0, 0, (1 - ratio) / (1 + ratio), 1], np.float32), (count, 2))
        near = 1 + random.integers(-2, 3, (count, 2)).astype(np.float32) * np.float32(6e-8)
        boxes = np.concatenate([start + shift * near, start + shift + sizes], axis=1).astype(np.float32)
        if data.draw(st.booleans()):
            boxes[random.random((count, 4)) < 0.01] = random.choice(
                np.array([np.nan, np.inf, -np.inf], np.float32)
            )
        scores = random.choice(np.linspace(0, 1, data.draw(st.sampled_from([3, 1000]))), count)
        scores = scores.astype(np.float32)
        limit = data.draw(st.sampled_from([1, 30, 1000]))
        kept = non_max_suppression_v2(np, boxes, scores, np.int32(limit), ratio)
        expected = greedy(boxes, scores, limit, ratio, -np.inf)
        assert kept.tolist() == expected
        assert on_device(non_max_suppression_v2, boxes, scores, np.int32(limit), ratio) == expected


@pytest.mark.parametrize("extent", [0.004, 0.03, 2.0])
def test_many_boxes_are_wanted(extent: float) -> None:
    """More than are compared at a time, of which few, some or all but a few are close to a chosen one."""
    random = np.random.default_rng(1)
    boxes = random.random((2000, 4)).astype(np.float32)
    boxes[:, 2:] = boxes[:, :2] + random.random((2000, 2)).astype(np.float32) * np.float32(extent)
    scores = random.random(2000).astype(np.float32)
    with np.errstate(all="ignore"):
        kept = non_max_suppression_v2(np, boxes, scores, np.int32(900), np.float32(0.2))
        assert kept.tolist() == greedy(boxes, scores, 900, 0.2, -np.inf)
