"""Slices against index arithmetic written out, and their gradient as the adjoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core.errors import InvalidArgumentError


def _positions(
    begin: int, end: int, stride: int, begin_masked: bool, end_masked: bool, size: int
) -> list[int]:
    """The indices that one dimension's slice picks, as TensorFlow's documentation tells it."""
    low, high = (0, size) if stride > 0 else (-1, size - 1)

    def place(number: int) -> int:
        number = number + size if number < 0 else number
        return max(low, min(number, high))

    first = (low if stride > 0 else high) if begin_masked else place(begin)
    last = (high if stride > 0 else low) if end_masked else place(end)
    return list(range(first, last, stride))


@st.composite
def _slices(draw: st.DrawFn) -> dict[str, Any]:
    shape = draw(st.lists(st.integers(0, 5), min_size=1, max_size=3))
    count = len(shape)
    number = st.integers(-7, 7)
    return {
        "shape": shape,
        "begin": draw(st.lists(number, min_size=count, max_size=count)),
        "end": draw(st.lists(number, min_size=count, max_size=count)),
        "strides": draw(st.lists(st.sampled_from([-3, -2, -1, 1, 2, 3]), min_size=count, max_size=count)),
        "begin_mask": draw(st.integers(0, 2**count - 1)),
        "end_mask": draw(st.integers(0, 2**count - 1)),
        "dtype": draw(st.sampled_from([np.int32, np.int64])),
    }


@given(spec=_slices())
def test_strided_slice_picks_what_the_arithmetic_says(
    run_op: Callable[..., Any], spec: dict[str, Any]
) -> None:
    x = np.arange(np.prod(spec["shape"], dtype=int)).reshape(spec["shape"])
    vectors = [np.array(spec[name], spec["dtype"]) for name in ("begin", "end", "strides")]
    masks = {name: spec[name] for name in ("begin_mask", "end_mask")}
    (result,) = run_op("StridedSlice", x, *vectors, **masks)
    picked = [
        _positions(b, e, s, bool(spec["begin_mask"] >> i & 1), bool(spec["end_mask"] >> i & 1), size)
        for i, (b, e, s, size) in enumerate(
            zip(spec["begin"], spec["end"], spec["strides"], spec["shape"], strict=True)
        )
    ]
    np.testing.assert_array_equal(result, x[np.ix_(*picked)])

    gradient = np.arange(1, result.size + 1).reshape(result.shape)
    shape = np.array(spec["shape"], spec["dtype"])
    (spread,) = run_op("StridedSliceGrad", shape, *vectors, gradient, **masks)
    assert spread.shape == x.shape
    assert (x * spread).sum() == (result * gradient).sum()


def test_masks_for_new_axes_shrunk_axes_and_an_ellipsis(run_op: Callable[..., Any]) -> None:
    x = np.arange(24).reshape(2, 3, 4)
    one = np.ones(3, np.int32)
    zero = np.zeros(3, np.int32)
    # x[tf.newaxis, ..., 1]
    begin = np.array([0, 0, 1], np.int32)
    (result,) = run_op(
        "StridedSlice", x, begin, zero, one, new_axis_mask=1, ellipsis_mask=2, shrink_axis_mask=4
    )
    np.testing.assert_array_equal(result, x[None, ..., 1])
    # An ellipsis wins over a new axis, a new axis over a shrunk one.
    (result,) = run_op(
        "StridedSlice", x, zero, zero, one, new_axis_mask=7, ellipsis_mask=2, shrink_axis_mask=7
    )
    assert result.shape == (1, 2, 3, 4, 1)


def test_a_vector_of_another_width_with_the_same_bytes_is_another_slice(run_op: Callable[..., Any]) -> None:
    x = np.arange(6).reshape(2, 3)
    narrow = [np.array(v, np.int32) for v in ([1, 0], [2, 2], [1, 1])]
    wide = [np.array(v, np.int64) for v in ([1], [2], [1])]
    (first,) = run_op("StridedSlice", x, *narrow)
    (second,) = run_op("StridedSlice", x, *wide)
    np.testing.assert_array_equal(first, [[3, 4]])
    np.testing.assert_array_equal(second, [[3, 4, 5]])


@pytest.mark.parametrize(
    ("begin", "strides", "masks", "message"),
    [
        ([0], [0], {}, r"strides\[0\] must be non-zero"),
        ([3], [1], {"shrink_axis_mask": 1}, "slice index 3 of dimension 0 out of bounds"),
        ([0], [-1], {"shrink_axis_mask": 1}, "only stride 1 allowed"),
        ([0, 0, 0], [1, 1, 1], {}, "input has only 2 dims"),
        ([0, 0], [1, 1], {"ellipsis_mask": 3}, "Multiple ellipses"),
        ([0, 0], [1], {}, "vectors of equal size"),
    ],
)
def test_what_is_no_slice_is_refused(
    run_op: Callable[..., Any], begin: list[int], strides: list[int], masks: dict[str, int], message: str
) -> None:
    x = np.zeros((3, 3), np.float32)
    with pytest.raises(InvalidArgumentError, match=message):
        run_op("StridedSlice", x, np.array(begin), np.array(begin) + 1, np.array(strides), **masks)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(-1, 4)), min_size=1, max_size=3))
def test_slice_takes_begin_and_size_or_refuses(
    run_op: Callable[..., Any], axes: list[tuple[int, int, int]]
) -> None:
    shape, begin, size = zip(*axes, strict=True)
    x = np.arange(np.prod(shape)).reshape(shape)
    fits = all(b <= d and (s == -1 or b + s <= d) for d, b, s in axes)
    arguments = x, np.array(begin, np.int32), np.array(size, np.int32)
    if not fits:
        with pytest.raises(InvalidArgumentError, match="Expected"):
            run_op("Slice", *arguments)
        return
    (result,) = run_op("Slice", *arguments)
    np.testing.assert_array_equal(result, x[tuple(slice(b, None if s == -1 else b + s) for _, b, s in axes)])


def test_slices_are_views_and_the_input_stays(run_op: Callable[..., Any]) -> None:
    x = np.arange(10.0)
    (result,) = run_op("StridedSlice", x, np.array([2]), np.array([8]), np.array([2]))
    assert np.shares_memory(result, x)
    (element,) = run_op("StridedSlice", x, np.array([2]), np.array([3]), np.array([1]), shrink_axis_mask=1)
    assert element == 2.0
    assert np.ndim(element) == 0
