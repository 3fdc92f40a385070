"""The generator of random numbers itself: its counter and its distributions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core import dtypes
from flowengine.kernels.common import float_functions, philox


@given(st.lists(st.integers(1, 40), min_size=1, max_size=4), st.integers(-(2**63), 2**63 - 1))
def test_a_larger_draw_begins_with_a_smaller_one(sizes: list[int], seed: int) -> None:
    for dtype in (dtypes.float32, dtypes.float64, dtypes.float16):
        for distribution in (philox.uniform, philox.normal, philox.truncated_normal):
            whole = distribution(np, seed & (2**64 - 1), 0, max(sizes), dtype)
            for size in sizes:
                part = distribution(np, seed & (2**64 - 1), 0, size, dtype)
                np.testing.assert_array_equal(part, whole[:size])


def test_the_counter_carries_into_its_upper_half() -> None:
    last = (1 << 64) - 1
    across = philox.counted(np, 7, last, 2)
    np.testing.assert_array_equal(across[0], philox.counted(np, 7, last, 1)[0])
    np.testing.assert_array_equal(across[1], philox.counted(np, 7, 1 << 64, 1)[0])


@pytest.mark.parametrize("step", [1, 3])
def test_many_counters_give_what_each_gives_alone(step: int) -> None:
    # The count goes through the end of 128 bits and of its lower 64.
    for start in (2**128 - 20_000, 2**64 - 20_000):
        count = 5 * philox._PIECE // 2 + 3
        whole = philox.counted(np, 77, start, count, step)
        assert whole.shape == (count, 4)
        for place in (0, 1, philox._PIECE - 1, philox._PIECE, 19_999 // step, 20_000 // step + 1, count - 1):
            alone = philox.counted(np, 77, (start + place * step) % 2**128, 1)
            np.testing.assert_array_equal(whole[place], alone[0])


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
def test_many_truncated_normal_numbers_begin_as_few_do(dtype: dtypes.DType) -> None:
    many = philox.truncated_normal(np, 77, 2**100 + 5, 5 * philox._PIECE + 3, dtype)
    few = philox.truncated_normal(np, 77, 2**100 + 5, 1000, dtype)
    np.testing.assert_array_equal(many[:1000], few)
    assert np.abs(many).max() < 2
    last = philox.truncated_normal(np, 77, 2**100 + 5 + 64 * 5 * philox._PIECE, 3, dtype)
    np.testing.assert_array_equal(many[-3:], last)


@given(st.lists(st.integers(1, 2**23 - 1), min_size=1, max_size=50))
def test_float_functions_are_within_a_unit_of_the_last_place(mantissas: list[int]) -> None:
    numbers = np.array(mantissas, np.float32) / np.float32(2**23)
    angles = numbers * np.float32(2 * np.pi)
    sine, cosine = float_functions.sine_cosine(np, angles)
    for actual, exact in (
        (float_functions.log(np, numbers), np.log(numbers.astype(np.float64))),
        (sine, np.sin(angles.astype(np.float64))),
        (cosine, np.cos(angles.astype(np.float64))),
    ):
        assert actual.dtype == np.float32
        assert (np.abs(actual - exact) <= 0.82 * np.spacing(np.abs(exact).astype(np.float32)) + 1e-12).all()


def test_two_deviations_are_outside() -> None:
    """A number that is 2 to the last bit is drawn again."""
    for counter, place in ((1_923_552, 3), (6_416_005, 1)):
        drawn = philox.normal(np, 7, counter, 8, dtypes.float32)
        assert drawn[place] == -2.0
        kept = drawn[np.abs(drawn) < 2][:4]
        np.testing.assert_array_equal(philox.truncated_normal(np, 7, counter, 4, dtypes.float32), kept)
