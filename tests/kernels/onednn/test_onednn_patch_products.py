"""Convolutions of few pixels by large filters are products of patches, and give what NumPy's give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from flowengine.kernels.common.windows import windows
from flowengine.kernels.numpy import conv_products as conv
from flowengine.kernels.onednn import convolution
from flowengine.kernels.onednn.layers.patch_products import PatchProduct, are_quicker, as_patches
from flowengine.kernels.onednn.layers.post_ops import ZERO
from flowengine.kernels.onednn.layers.shapes import Layer, WindowAttributes
from flowengine.kernels.onednn.library import LibraryError, search
from tests.effort import examples
from tests.kernels.onednn.processor import needs_products

pytestmark = pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")


def numbers(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def near(got: Any, wanted: Any) -> None:
    assert got.shape == wanted.shape
    assert got.flags.c_contiguous
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5 * max(1.0, float(np.abs(wanted).max())))


def check(product: PatchProduct, layer: Layer) -> None:
    x, w, gradient = numbers(0, *layer.input), numbers(1, *layer.filter_shape), numbers(2, *layer.output)
    geometry = layer.geometry
    near(product.forward(x, w), conv.forward(x, w, geometry))
    near(product.input_gradient(w, gradient), conv.input_gradient(w, gradient, geometry))
    near(product.filter_gradient(x, gradient), conv.filter_gradient(x, gradient, geometry))


edge = st.integers(0, 2)


@settings(max_examples=examples(40), deadline=None)
@given(
    st.tuples(st.integers(1, 7), st.integers(1, 7)),
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    st.sampled_from([b"SAME", b"VALID", b"EXPLICIT"]),
    st.tuples(edge, edge, edge, edge),
    st.sampled_from([1, 7, 32]),
    st.sampled_from([1, 9, 48]),
)
def test_any_windows(
    sizes: tuple[int, int],
    window: tuple[int, int],
    strides: tuple[int, int],
    dilations: tuple[int, int],
    padding: bytes,
    edges: tuple[int, ...],
    channels: int,
    width: int,
) -> None:
    explicit = (0, 0, *edges, 0, 0) if padding == b"EXPLICIT" else ()
    sliding = WindowAttributes((1, *strides, 1), (1, *dilations, 1), padding, explicit, False)
    x, w = (2, *sizes, channels), (*window, channels, width)
    try:
        layer = Layer(sliding, x, w)
    except LibraryError:
        assume(False)
        raise
    check(PatchProduct(layer.geometry, x, w, layer.output, ()), layer)


#: Last layers of networks: (images, size, stride, channels, outputs), and whether more than the gradient of
#: the filters is a product of patches.
LAST = {
    "VGG for 32 x 32": (32, 2, 1, 512, 512, True),
    "ResNet for 32 x 32": (8, 4, 1, 512, 512, True),
    "ResNet, one image": (1, 7, 1, 512, 512, False),
    "strided": (4, 4, 2, 256, 512, True),
}


@pytest.mark.parametrize("name", LAST)
def test_last_layers_are_products_of_patches(name: str) -> None:
    images, size, stride, channels, width, everything = LAST[name]
    sliding = WindowAttributes((1, stride, stride, 1), (1, 1, 1, 1), b"SAME", (), False)
    x, w = (images, size, size, channels), (3, 3, channels, width)
    layer = Layer(sliding, x, w)
    of_filters = as_patches(sliding, x, w, of_filters=True)
    assert of_filters is not None
    assert (as_patches(sliding, x, w) is not None) == everything
    check(of_filters, layer)
    gradient = convolution.filter_gradient(sliding, x, w)
    assert gradient is not None
    value, upstream = numbers(0, *x), numbers(2, *layer.output)
    np.testing.assert_array_equal(gradient(value, upstream), of_filters.filter_gradient(value, upstream))


@needs_products
@pytest.mark.parametrize("shape", [(32, 2, 256, 256), (8, 4, 512, 512), (4, 4, 256, 512), (1, 3, 512, 1024)])
@pytest.mark.parametrize(
    "forms", [("add channel",), ("add channel", "relu"), ("add channel", "add whole", "relu")]
)
def test_what_follows_changes_no_bit(shape: tuple[int, ...], forms: tuple[str, ...]) -> None:
    images, size, channels, width = shape
    sliding = WindowAttributes((1, 1, 1, 1), (1, 1, 1, 1), b"SAME", (), False)
    x, w = (images, size, size, channels), (3, 3, channels, width)
    alone, followed = as_patches(sliding, x, w), as_patches(sliding, x, w, forms)
    assert alone is not None
    assert followed is not None
    value, filters, vector = numbers(0, *x), numbers(1, *w), numbers(2, width)
    wanted = alone.forward(value, filters) + vector
    operands = [vector]
    if "add whole" in forms:
        operands.append(numbers(3, *wanted.shape))
        wanted = wanted + operands[-1]
    if "relu" in forms:
        wanted = np.maximum(wanted, 0)
        operands.append(ZERO)
    np.testing.assert_array_equal(followed.forward(value, filters, *operands), wanted)


@pytest.mark.parametrize(
    ("images", "size", "window", "filter_bytes", "why"),
    [
        (32, 2, 3, 1 << 20, "filters that the cache holds"),
        (32, 6, 3, 9 << 20, "many pixels an image"),
        (32, 3, 3, 3 << 20, "more pixels than filters of that size are waited for"),
        (32, 4, 3, 9 << 20, "more than a few pixels in all"),
        (500, 3, 3, 9 << 20, "patches would be large"),
        (1, 8, 3, 9 << 20, "more than a few pixels an image"),
        (32, 1, 3, 9 << 20, "most of the window lies in the padding"),
        (32, 2, 1, 9 << 20, "there is no patch to make"),
        (32, 3, 7, 9 << 20, "a large window"),
    ],
)
def test_others_are_not(images: int, size: int, window: int, filter_bytes: int, why: str) -> None:
    geometry = windows((size, size), (window, window), (1, 1), (1, 1), b"SAME")
    assert not are_quicker(geometry, images, filter_bytes, False), why


def test_groups_and_other_layouts_are_not() -> None:
    w = (3, 3, 512, 512)
    spread = (1, 1, 1, 1)
    assert as_patches(WindowAttributes(spread, spread, b"SAME", (), False), (8, 3, 3, 1024), w) is None
    assert as_patches(WindowAttributes(spread, spread, b"SAME", (), True), (8, 512, 3, 3), w) is None
    assert as_patches(WindowAttributes(spread, spread, b"SAME", (), False), (8, 3, 3, 512), w) is not None
