"""Gradients of filters of one pixel are products of matrices where that is quicker."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowengine.kernels.onednn import convolution
from flowengine.kernels.onednn.layers import filter_products
from flowengine.kernels.onednn.layers.backward import FilterGradient
from flowengine.kernels.onednn.layers.filter_products import filter_product, is_quicker
from flowengine.kernels.onednn.layers.shapes import WindowAttributes
from flowengine.kernels.onednn.library import LibraryError, search
from flowengine.kernels.onednn.programs.joint import JointProgram
from tests.effort import examples
from tests.kernels.onednn.processor import needs_products

pytestmark = pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")

ONE = WindowAttributes((1, 1, 1, 1), (1, 1, 1, 1), b"SAME", (), False)

PADDED = WindowAttributes((1, 1, 1, 1), (1, 1, 1, 1), b"EXPLICIT", (0, 0, 1, 1, 1, 1, 0, 0), False)


def numbers(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def check(x: tuple[int, ...], outward: int, *, alone: bool) -> None:
    layer = FilterGradient(ONE, x, (1, 1, x[3], outward), alone=alone)
    images, gradients = numbers(0, *x), numbers(1, *x[:3], outward)
    wanted = images.reshape(-1, x[3]).T.astype(np.float64) @ gradients.reshape(-1, outward)
    got = layer(images, gradients)
    assert got.shape == (1, 1, x[3], outward)
    assert got.flags.c_contiguous
    np.testing.assert_allclose(got[0, 0], wanted, rtol=1e-4, atol=1e-4 * np.sqrt(len(images) * x[1] * x[2]))


channels = st.one_of(st.integers(16, 80), st.sampled_from([128, 256, 512, 1024]))


@settings(max_examples=examples(40), deadline=None)
@given(
    st.tuples(st.integers(1, 4), st.integers(5, 29), st.integers(5, 29)), channels, channels, st.booleans()
)
def test_any_shape(sizes: tuple[int, int, int], inward: int, outward: int, alone: bool) -> None:
    check((*sizes, inward), outward, alone=alone)


@needs_products
@pytest.mark.parametrize(
    ("size", "inward", "outward"),
    [
        (28, 192, 64),
        (28, 256, 128),
        (56, 64, 256),
        (56, 64, 64),
        (7, 1024, 256),
        (35, 256, 64),
        (7, 832, 384),
    ],
)
def test_it_is_a_product(size: int, inward: int, outward: int) -> None:
    assert filter_product(ONE, (2, size, size, inward), (1, 1, inward, outward), True) is not None
    check((2, size, size, inward), outward, alone=False)


@pytest.mark.parametrize(
    ("size", "inward", "outward"), [(35, 288, 48), (35, 192, 64), (14, 512, 112), (112, 32, 64), (28, 3, 64)]
)
def test_it_is_a_convolution(size: int, inward: int, outward: int) -> None:
    assert not is_quicker(size * size, inward, outward)
    assert filter_product(ONE, (2, size, size, inward), (1, 1, inward, outward), True) is None
    check((2, size, size, inward), outward, alone=False)


@pytest.mark.parametrize(
    ("sliding", "x", "w"),
    [
        (WindowAttributes((1, 2, 2, 1), (1, 1, 1, 1), b"SAME", (), False), (2, 28, 28, 64), (1, 1, 64, 128)),
        (WindowAttributes((1, 1, 1, 1), (1, 1, 1, 1), b"SAME", (), True), (2, 64, 28, 28), (1, 1, 64, 128)),
        (PADDED, (2, 8, 8, 64), (1, 1, 64, 128)),
        (ONE, (2, 28, 28, 64), (1, 1, 32, 128)),
        (ONE, (2, 28, 28, 64), (3, 3, 64, 128)),
        (WindowAttributes((1, 1, 1, 1), (1, 1, 1, 1), b"VALID", (), False), (70, 4, 4, 64), (4, 4, 64, 128)),
    ],
)
def test_other_convolutions_are_none(
    sliding: WindowAttributes, x: tuple[int, ...], w: tuple[int, ...]
) -> None:
    assert filter_product(sliding, x, w, True) is None


def test_without_such_a_product_it_is_a_convolution() -> None:
    with mock.patch.object(filter_products, "Description", side_effect=LibraryError("no")):
        assert filter_product(ONE, (2, 28, 28, 64), (1, 1, 64, 128), True) is None
        check((2, 28, 28, 64), 128, alone=True)


@pytest.mark.parametrize("outward", [32, 256])
def test_joined_it_gives_the_same_bits(outward: int) -> None:
    x, gradient = numbers(0, 2, 28, 28, 64), numbers(1, 2, 28, 28, outward)
    sizes = np.array([1, 1, 64, outward], np.int32)
    layer = convolution.filter_gradient(ONE, x.shape, (1, 1, 64, outward))
    assert layer is not None
    piece = layer.piece(x, sizes, gradient)
    assert piece is not None
    known = [x, sizes, gradient, None]
    assert JointProgram([(piece, (0, 1, 2), (3,))], {3}).run(known)
    np.testing.assert_array_equal(known[3], layer(x, gradient))
