"""The gradient of an image of few channels, computed in blocks, is what NumPy computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from flowengine.kernels.common.windows import windows
from flowengine.kernels.numpy import conv_products as conv
from flowengine.kernels.onednn import convolution
from flowengine.kernels.onednn.layers.first_layers import Axis, BlockGradient, block_gradient, cheapest
from flowengine.kernels.onednn.layers.shapes import Layer, WindowAttributes
from flowengine.kernels.onednn.library import LibraryError, search
from tests.effort import examples

pytestmark = pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")


def numbers(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def layer_of(
    sizes: tuple[int, int],
    window: tuple[int, int],
    strides: tuple[int, int],
    padding: bytes,
    edges: tuple[int, ...] = (),
    *,
    batch: int = 2,
    channels: int = 3,
    width: int = 5,
    first: bool = False,
) -> tuple[WindowAttributes, Layer]:
    spread = (1, 1, *strides) if first else (1, *strides, 1)
    explicit = () if not edges else (0, 0, 0, 0, *edges) if first else (0, 0, *edges, 0, 0)
    sliding = WindowAttributes(spread, (1, 1, 1, 1), padding, explicit, first)
    x = (batch, channels, *sizes) if first else (batch, *sizes, channels)
    return sliding, Layer(sliding, x, (*window, channels, width))


def check(layer: Layer, first: bool, gradient: BlockGradient) -> None:
    w = numbers(1, *layer.filter_shape)
    upstream = numbers(2, *layer.output)
    got = gradient(w, upstream)
    last = np.ascontiguousarray(np.moveaxis(upstream, 1, -1)) if first else upstream
    wanted = conv.input_gradient(w.astype(np.float64), last.astype(np.float64), layer.geometry)
    if first:
        wanted = np.moveaxis(wanted, -1, 1)
    assert got is not None
    assert got.flags.c_contiguous
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5 * max(1.0, float(np.abs(wanted).max())))


edge = st.integers(0, 3)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.tuples(st.integers(1, 21), st.integers(1, 21)),
    st.tuples(st.integers(1, 7), st.integers(1, 7)),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.sampled_from([b"SAME", b"VALID", b"EXPLICIT"]),
    st.tuples(edge, edge, edge, edge),
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.integers(1, 4),
    st.sampled_from([1, 5, 16, 33]),
    st.booleans(),
)
def test_blocks_of_any_size(
    sizes: tuple[int, int],
    window: tuple[int, int],
    strides: tuple[int, int],
    padding: bytes,
    edges: tuple[int, ...],
    steps: tuple[int, int],
    channels: int,
    width: int,
    first: bool,
) -> None:
    try:
        _, layer = layer_of(
            *(sizes, window, strides, padding, edges if padding == b"EXPLICIT" else ()),
            channels=channels,
            width=width,
            first=first,
        )
    except LibraryError:
        assume(False)
        raise
    down, across = (Axis.of(layer.geometry, axis, steps[axis]) for axis in (0, 1))
    try:
        gradient = BlockGradient(layer, down, across, first, alone=True)
    except LibraryError:
        event("not computed in blocks")
        # Some of the padding is nowhere near the image: the gradient's edge has no part in any block.
        assert any(axis.before < 0 or axis.after < 0 for axis in (down, across))
        return
    check(layer, first, gradient)


#: Layers as (sizes, window, stride, channels, outputs), and the pixels of the blocks that are best.
KNOWN = {
    "ResNet": ((224, 224), (7, 7), 2, 3, 64, (2, 2)),
    "AlexNet": ((227, 227), (11, 11), 4, 3, 96, (4, 4)),
    "VGG": ((224, 224), (3, 3), 1, 3, 64, (2, 2)),
    "digits": ((28, 28), (5, 5), 1, 1, 32, (4, 4)),
}


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("first", [False, True])
def test_first_layers_of_known_networks_are_computed_in_blocks(name: str, first: bool) -> None:
    sizes, window, stride, channels, width, block = KNOWN[name]
    sliding, layer = layer_of(
        *(sizes, window, (stride, stride), b"SAME"), batch=1, channels=channels, width=width, first=first
    )
    found = cheapest(layer.geometry, channels, width, planes=not first)
    assert found is not None
    assert tuple(axis.block for axis in found) == block
    gradient = block_gradient(layer, first, not first, alone=True)
    assert gradient is not None
    check(layer, first, gradient)
    whole = convolution.input_gradient(sliding, layer.input, layer.filter_shape)
    assert whole is not None
    w, upstream = numbers(1, *layer.filter_shape), numbers(2, *layer.output)
    np.testing.assert_array_equal(whole(w, upstream), gradient(w, upstream))


@pytest.mark.parametrize(
    ("window", "stride", "channels", "width", "why"),
    [
        (1, 1, 3, 64, "blocks would be as many vectors as pixels"),
        (3, 1, 16, 64, "vectors are full"),
        (4, 2, 12, 64, "half of the places have no filter"),
        (4, 2, 3, 64, "planes are quicker"),
        (9, 9, 3, 64, "blocks would have too many numbers"),
    ],
)
def test_others_are_not(window: int, stride: int, channels: int, width: int, why: str) -> None:
    geometry = windows((64, 64), (window, window), (stride, stride), (1, 1), b"SAME")
    assert cheapest(geometry, channels, width, planes=channels <= 4) is None, why


def test_holes_and_groups_are_not() -> None:
    holes = windows((64, 64), (3, 3), (1, 1), (2, 2), b"SAME")
    assert cheapest(holes, 3, 64, planes=False) is None
    sliding = WindowAttributes((1, 1, 1, 1), (1, 1, 1, 1), b"SAME", (), False)
    groups = Layer(sliding, (1, 32, 32, 6), (3, 3, 3, 64))
    assert block_gradient(groups, False, False, alone=True) is None


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_reaches_no_more_pixels_than_its_window(number: float, first: bool) -> None:
    sliding, layer = layer_of((24, 24), (5, 5), (2, 2), b"SAME", first=first)
    whole = convolution.input_gradient(sliding, layer.input, layer.filter_shape)
    in_blocks = block_gradient(layer, first, not first, alone=True)
    assert whole is not None
    assert in_blocks is not None
    w, upstream = numbers(1, *layer.filter_shape), numbers(2, *layer.output)
    upstream[(0, 0, 6, 6) if first else (0, 6, 6, 0)] = number
    with np.errstate(all="ignore"):  # as where kernels run
        assert in_blocks(w, upstream) is None
        got = whole(w, upstream)
    got = np.moveaxis(got, 1, -1) if first else got
    reached = np.zeros(got.shape, bool)
    top, left = (2 * 6 - edge for edge in layer.geometry.before)
    reached[0, top : top + 5, left : left + 5] = True
    np.testing.assert_array_equal(~np.isfinite(got), reached)
