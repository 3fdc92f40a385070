"""Images of bytes are resized by the library as NumPy's kernel resizes them, up to what float32 rounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.numpy.resizing import resize_bilinear as by_numpy
from flowengine.kernels.onednn.library import search
from flowengine.kernels.onednn.resizing import ELEMENTS_MAX, ELEMENTS_MIN, SIZE_MAX, resize_bilinear

pytestmark = pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")


def node_of(**attrs: Any) -> Any:
    graph = fe.Graph()
    made = graph.ops.ResizeBilinear(graph.placeholder("uint8"), graph.placeholder("int32"), **attrs)
    return graph[made.op.name]


def refused(*_: Any) -> Any:
    raise LookupError


def images_of(seed: int, shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


@given(
    st.integers(0, 99),
    st.tuples(st.integers(1, 2), st.integers(1, 90), st.integers(1, 90), st.sampled_from([1, 3, 4, 20])),
    st.integers(1, 120),
    st.integers(1, 120),
    st.booleans(),
)
def test_as_by_numpy(seed: int, shape: tuple[int, ...], height: int, width: int, is_part: bool) -> None:
    images = images_of(seed, shape)
    if is_part:
        images = images[:, ::2, 1:] if min(shape[1:3]) > 2 else images
    size = np.array([height, width], np.int32)
    kernel = resize_bilinear(node_of(half_pixel_centers=True), by_numpy_with_half_pixels)
    wanted = by_numpy_with_half_pixels(images, size)
    found = kernel(images, size)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, atol=0.01)


def by_numpy_with_half_pixels(images: Any, size: Any) -> Any:
    return by_numpy(images, size, align_corners=False, half_pixel_centers=True)


def test_the_largest_images_are_close() -> None:
    images = images_of(1, (1, SIZE_MAX, SIZE_MAX, 1))
    size = np.array([SIZE_MAX - 1, SIZE_MAX // 3], np.int32)
    found = resize_bilinear(node_of(half_pixel_centers=True), by_numpy_with_half_pixels)(images, size)
    np.testing.assert_allclose(found, by_numpy_with_half_pixels(images, size), atol=0.05)


@pytest.mark.parametrize(
    ("shape", "size", "attrs"),
    [
        ((1, 64, 64, 3), (64, 64), {"half_pixel_centers": True}),
        ((1, 64, 64, 3), (96, 96), {}),
        ((1, 64, 64, 3), (96, 96), {"align_corners": True}),
        ((1, SIZE_MAX + 1, 9, 1), (96, 96), {"half_pixel_centers": True}),
        ((1, 9, 9, 1), (SIZE_MAX + 1, 96), {"half_pixel_centers": True}),
        ((0, 9, 9, 1), (96, 96), {"half_pixel_centers": True}),
        ((1, 9, 9, 1), (ELEMENTS_MIN // 8 - 1, 8), {"half_pixel_centers": True}),
        ((256, 9, 9, 1), (64, ELEMENTS_MAX // 2**14), {"half_pixel_centers": True}),
    ],
    ids=["same", "left", "corners", "large", "becomes-large", "none", "small", "every-core"],
)
def test_what_numpy_does(shape: tuple[int, ...], size: tuple[int, int], attrs: dict[str, Any]) -> None:
    with pytest.raises(LookupError):
        resize_bilinear(node_of(**attrs), refused)(images_of(0, shape), np.array(size, np.int32))


@pytest.mark.parametrize("size", [[0, 9], [9], [[9, 9]]])
def test_sizes_are_looked_at(size: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        resize_bilinear(node_of(half_pixel_centers=True), refused)(
            images_of(0, (1, 9, 9, 3)), np.array(size, np.int32)
        )
