"""Bilinear resizing on the CPU, a part at a time: images of any type, however they lie in memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core.buffers import ALIGNED, MemoryLease, recycled
from flowengine.kernels.common.interpolation import linear
from flowengine.kernels.common.spans import area, cubic
from flowengine.kernels.numpy import resizing

SIZES = st.tuples(st.integers(1, 40), st.integers(1, 40))


def mixed(x: np.ndarray, axis: int, wanted: int, modes: tuple[bool, bool]) -> np.ndarray:
    """Neighbours along an axis mixed as it is written down."""
    lower, upper, weight = linear(x.shape[axis], wanted, *modes)
    low, high = x.take(lower, axis).astype(np.float32), x.take(upper, axis).astype(np.float32)
    return (high - low) * weight.reshape((-1,) + (1,) * (x.ndim - 1 - axis)) + low


@given(
    SIZES,
    SIZES,
    st.sampled_from([1, 3, 17]),
    st.sampled_from(["uint8", "int8", "uint16", "int32", "float16", "float32", "float64"]),
    st.sampled_from([(False, False), (True, False), (False, True)]),
    st.booleans(),
    st.sampled_from([1, 64, 1 << 15]),
)
def test_parts_are_mixed_as_the_whole(
    size: tuple[int, int],
    wanted: tuple[int, int],
    channels: int,
    dtype: str,
    modes: tuple[bool, bool],
    is_cropped: bool,
    at_once: int,
) -> None:
    images = (np.random.default_rng(4).random((2, *size, channels)) * 100).astype(dtype)
    if is_cropped:
        images = images[:, ::-1, size[1] // 2 :]
    size = images.shape[1:3]
    expected = images.astype(np.float32)
    if size != wanted:
        for axis in (1, 2) if wanted[0] <= size[0] else (2, 1):
            expected = mixed(expected, axis, wanted[axis - 1], modes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resizing, "_AT_ONCE", at_once)
        found = resizing.resize_bilinear(
            images, np.array(wanted, np.int32), align_corners=modes[0], half_pixel_centers=modes[1]
        )
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, expected)


def test_memory_of_one_image_is_that_of_the_next() -> None:
    shape = (ALIGNED // 4 + 3,)
    first = recycled(shape, np.float32)
    assert isinstance(first.base, MemoryLease)
    where = first.ctypes.data
    second = recycled(shape, np.float32)
    assert second.ctypes.data != where
    del first
    assert recycled(shape, np.float32).ctypes.data == where
    assert recycled((3,), np.float32).base is None


def test_a_single_place_has_no_corner_to_align() -> None:
    """It covers all of the image, as where corners are not aligned."""
    for aligned in (True, False):
        covering = area(4, 1, aligned)
        np.testing.assert_array_equal(covering.indices, [[0, 1, 2, 3]])
        np.testing.assert_array_equal(covering.weights, np.full((1, 4), 0.25, np.float32))
        near = cubic(4, 1, aligned, False)
        np.testing.assert_array_equal(near.indices, [[0, 0, 1, 2]])
        np.testing.assert_array_equal(near.weights, [[0, 1, 0, 0]])
