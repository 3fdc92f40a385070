"""Convolution and pooling against loops that say what they mean, and gradients against their definition."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flowengine.core.errors import InvalidArgumentError, UnimplementedError
from flowengine.kernels.common.windows import Windows, windows
from flowengine.kernels.numpy import conv_planes, depthwise
from flowengine.kernels.numpy import conv_products as conv
from flowengine.kernels.numpy import window_extremes as pooling
from flowengine.kernels.numpy.patch_memory import BLOCK_BYTES, scratch

Run = Callable[..., Any]


@st.composite
def geometries(draw: Callable[..., Any], *, dilated: bool = True) -> Windows:
    """Small windows in one to three spatial dimensions, padded in every way."""
    rank = draw(st.integers(1, 3))
    sizes = tuple(draw(st.integers(1, 7)) for _ in range(rank))
    window = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    strides = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    dilations = tuple(draw(st.integers(1, 2)) if dilated else 1 for _ in range(rank))
    padding = draw(st.sampled_from([b"SAME", b"VALID", b"EXPLICIT"]))
    pairs = tuple((draw(st.integers(0, 3)), draw(st.integers(0, 3))) for _ in range(rank))
    try:
        return windows(sizes, window, strides, dilations, padding, pairs)
    except InvalidArgumentError:
        return windows(sizes, window, strides, dilations, b"SAME")


def _elements(geometry: Windows, place: tuple[int, ...]) -> Any:
    """(offset in the window, position in the input) of the real elements of one window."""
    for offset in itertools.product(*(range(n) for n in geometry.window)):
        position = tuple(
            p * s + o * d - b
            for p, s, o, d, b in zip(
                place, geometry.strides, offset, geometry.dilations, geometry.before, strict=True
            )
        )
        if all(0 <= p < n for p, n in zip(position, geometry.sizes, strict=True)):
            yield offset, position


def _places(geometry: Windows) -> Any:
    return itertools.product(*(range(n) for n in geometry.out))


def _slow_convolution(x: Any, filters: Any, geometry: Windows) -> Any:
    out = np.zeros((x.shape[0], *geometry.out, filters.shape[-1]))
    for image, place in itertools.product(range(x.shape[0]), _places(geometry)):
        for offset, position in _elements(geometry, place):
            out[(image, *place)] += x[(image, *position)] @ filters[offset]
    return out


def _random(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


@given(geometries())
def test_as_many_windows_as_are_told_fit_into_the_padded_sizes(geometry: Windows) -> None:
    """Libraries and gradients work the number out anew."""
    for size, window, stride, dilation, out in zip(
        geometry.padded, geometry.window, geometry.strides, geometry.dilations, geometry.out, strict=True
    ):
        reach = (window - 1) * dilation + 1
        assert out == max((size - reach) // stride + 1, 0)


@given(geometries(), st.integers(0, 3), st.integers(1, 3), st.integers(1, 3))
def test_convolution_is_the_sum_that_defines_it(
    geometry: Windows, count: int, depth: int, width: int
) -> None:
    x, filters = _random(0, count, *geometry.sizes, depth), _random(1, *geometry.window, depth, width)
    actual = conv.forward(x, filters, geometry)
    np.testing.assert_allclose(actual, _slow_convolution(x, filters, geometry), rtol=1e-9, atol=1e-9)


@example(windows((1,), (2,), (2,), (1,), b"EXPLICIT", ((1, 1),)), 2, 1, 1)
@given(geometries(), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
def test_gradients_are_adjoint_to_convolution(geometry: Windows, count: int, depth: int, width: int) -> None:
    x, filters = _random(0, count, *geometry.sizes, depth), _random(1, *geometry.window, depth, width)
    gradient = _random(2, count, *geometry.out, width)
    product = np.vdot(_slow_convolution(x, filters, geometry), gradient)
    by_input = conv.input_gradient(filters, gradient, geometry)
    by_filter = conv.filter_gradient(x, gradient, geometry)
    assert by_input.shape == x.shape
    assert by_filter.shape == filters.shape
    assert np.vdot(by_input, x) == pytest.approx(product, abs=1e-8)
    assert np.vdot(by_filter, filters) == pytest.approx(product, abs=1e-8)


@pytest.mark.parametrize("stride", [1, 2])
def test_blocks_of_rows_and_of_images_make_no_difference(stride: int) -> None:
    for count, size, depth in ((1, 150, 24), (9, 20, 24)):
        x, filters = _random(0, count, size, size, depth), _random(1, 3, 3, depth, 4)
        geometry = windows((size, size), (3, 3), (stride, stride), (1, 1), b"SAME")
        assert np.prod((count, *geometry.out)) * 9 * depth * 8 > BLOCK_BYTES
        whole = np.tensordot(geometry.patches(np, geometry.pad(np, x)), filters, axes=((3, 4, 5), (0, 1, 2)))
        np.testing.assert_allclose(conv.forward(x, filters, geometry), whole, rtol=1e-9, atol=1e-9)
        gradient = _random(2, *whole.shape)
        product = np.vdot(whole, gradient)
        assert np.vdot(conv.input_gradient(filters, gradient, geometry), x) == pytest.approx(product)
        assert np.vdot(conv.filter_gradient(x, gradient, geometry), filters) == pytest.approx(product)


def test_memory_for_patches_is_kept_and_bounded() -> None:
    first = scratch(1000, np.float32)
    assert np.shares_memory(first, scratch(500, np.float64))
    large = scratch(BLOCK_BYTES + 1, np.float64)
    assert not np.shares_memory(first, large)


@st.composite
def planes(draw: Callable[..., Any]) -> Windows:
    """Windows over two dimensions with one stride, as depthwise convolution has them."""
    stride = draw(st.integers(1, 3))
    dilation = draw(st.integers(1, 2)) if stride == 1 else 1
    sizes = (draw(st.integers(3, 8)), draw(st.integers(3, 8)))
    window = (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    padding = draw(st.sampled_from([b"SAME", b"VALID"]))
    return windows(sizes, window, (stride, stride), (dilation, dilation), padding)


@given(planes(), st.integers(1, 3), st.integers(1, 2))
def test_depthwise_convolution_is_one_convolution_a_channel(
    geometry: Windows, depth: int, multiplier: int
) -> None:
    x, filters = _random(0, 2, *geometry.sizes, depth), _random(1, *geometry.window, depth, multiplier)
    expected = np.concatenate(
        [_slow_convolution(x[..., c : c + 1], filters[:, :, c : c + 1], geometry) for c in range(depth)],
        axis=-1,
    )
    np.testing.assert_allclose(depthwise.forward(x, filters, geometry), expected, rtol=1e-9, atol=1e-9)
    gradient = _random(2, *expected.shape)
    product = np.vdot(expected, gradient)
    by_input = depthwise.input_gradient(filters, gradient, geometry)
    by_filter = depthwise.filter_gradient(x, gradient, geometry, multiplier)
    assert np.vdot(by_input, x) == pytest.approx(product, abs=1e-8)
    assert np.vdot(by_filter, filters) == pytest.approx(product, abs=1e-8)


@given(geometries(dilated=False), st.integers(1, 2), st.integers(1, 3))
def test_pools_are_what_their_windows_hold(geometry: Windows, count: int, depth: int) -> None:
    # Whole numbers, so that several elements of a window may be the greatest.
    x = np.round(_random(0, count, *geometry.sizes, depth) * 2)
    gradient = _random(1, count, *geometry.out, depth)
    with np.errstate(all="ignore"):
        greatest, mean = pooling.maximum(x, geometry), pooling.mean(x, geometry)
    by_greatest, by_mean = np.zeros_like(x), np.zeros_like(x)
    for image, place, channel in itertools.product(range(count), _places(geometry), range(depth)):
        positions = [position for _, position in _elements(geometry, place)]
        if not positions:
            return
        values = [x[(image, *p, channel)] for p in positions]
        spot = (image, *place, channel)
        assert greatest[spot] == max(values)
        assert mean[spot] == pytest.approx(sum(values) / len(values))
        by_greatest[(image, *positions[values.index(max(values))], channel)] += gradient[spot]
        for p in positions:
            by_mean[(image, *p, channel)] += gradient[spot] / len(positions)
    np.testing.assert_allclose(pooling.maximum_gradient(x, gradient, geometry), by_greatest, atol=1e-9)
    np.testing.assert_allclose(pooling.mean_gradient(gradient, geometry), by_mean, atol=1e-9)
    best, position = pooling.maximum_with_position(x, geometry)
    np.testing.assert_array_equal(best, greatest)
    for image in range(count):
        np.testing.assert_array_equal(x[image].reshape(-1)[position[image]], greatest[image])


def test_a_pool_over_rows_of_more_than_a_block(run_op: Run) -> None:
    """Each row of the result is a block of its own then."""
    x = np.random.default_rng(4).integers(-100, 100, (1, 4, pooling._BLOCK // 2 + 1, 1)).astype(np.int8)
    window = [1, 2, 1, 1]
    (found,) = run_op("MaxPool", x, ksize=window, strides=window, padding=b"VALID")
    np.testing.assert_array_equal(found, np.maximum(x[:, ::2], x[:, 1::2]))


def test_nchw_is_nhwc_seen_otherwise(run_op: Run) -> None:
    x, filters = _random(0, 2, 5, 6, 4).astype(np.float32), _random(1, 3, 2, 4, 3).astype(np.float32)
    last = {"strides": (1, 2, 1, 1), "padding": b"SAME"}
    first = {"strides": (1, 1, 2, 1), "padding": b"SAME", "data_format": b"NCHW"}
    turned = np.ascontiguousarray(np.moveaxis(x, -1, 1))
    (expected,) = run_op("Conv2D", x, filters, **last)
    (actual,) = run_op("Conv2D", turned, filters, **first)
    np.testing.assert_array_equal(np.moveaxis(actual, 1, -1), expected)
    pools = {"ksize": (1, 2, 3, 1), **last}, {"ksize": (1, 1, 2, 3), **first}
    for op in ("MaxPool", "AvgPool"):
        (expected,) = run_op(op, x, **pools[0])
        (actual,) = run_op(op, turned, **pools[1])
        np.testing.assert_array_equal(np.moveaxis(actual, 1, -1), expected)


def test_a_filter_of_fewer_channels_works_on_groups(run_op: Run) -> None:
    x, filters = _random(0, 1, 4, 4, 6), _random(1, 3, 3, 2, 9)
    attrs = {"strides": (1, 1, 1, 1), "padding": b"SAME"}
    (whole,) = run_op("Conv2D", x, filters, **attrs)
    for group in range(3):
        (part,) = run_op(
            "Conv2D", x[..., 2 * group : 2 * group + 2], filters[..., 3 * group : 3 * group + 3], **attrs
        )
        np.testing.assert_allclose(whole[..., 3 * group : 3 * group + 3], part)


@pytest.mark.parametrize(
    ("x", "filters", "attrs", "error", "message"),
    [
        (
            (1, 2, 2, 3),
            (5, 3, 3, 1),
            {"padding": b"VALID"},
            InvalidArgumentError,
            "would be negative: -2 ",
        ),
        ((1, 2, 2, 3), (3, 3, 2, 1), {}, InvalidArgumentError, "divisible by filter depth: 3 vs 2"),
        ((2, 2, 3), (3, 3, 3, 1), {}, InvalidArgumentError, r"input must be 4-dimensional: \[2,2,3\]"),
        ((1, 2, 2, 3), (3, 3, 3), {}, InvalidArgumentError, "filter must be 4-dimensional"),
        ((1, 2, 2, 3), (3, 3, 3, 1), {"strides": (2, 1, 1, 1)}, InvalidArgumentError, "batch and depth"),
        ((1, 2, 2, 3), (3, 3, 3, 1), {"strides": (1, 0, 1, 1)}, InvalidArgumentError, "Stride must be > 0"),
        ((1, 2, 2, 3), (3, 3, 3, 1), {"data_format": b"NCWH"}, InvalidArgumentError, "NCWH is not supported"),
    ],
)
def test_a_convolution_that_does_not_fit_says_why(
    run_op: Run, x: Any, filters: Any, attrs: Any, error: Any, message: str
) -> None:
    attrs = {"strides": (1, 1, 1, 1), "padding": b"SAME", **attrs}
    with pytest.raises(error, match=message):
        run_op("Conv2D", np.zeros(x, np.float32), np.zeros(filters, np.float32), **attrs)


def test_a_gradient_of_the_wrong_size_says_which(run_op: Run) -> None:
    attrs = {"strides": (1, 1, 1, 1), "padding": b"VALID"}
    x, filters = np.zeros((1, 4, 4, 2), np.float32), np.zeros((2, 2, 2, 3), np.float32)
    with pytest.raises(InvalidArgumentError, match=r"actual = \[1, 4, 4, 3\], computed = \[1, 3, 3, 3\]"):
        run_op(
            "Conv2DBackpropInput",
            np.array(x.shape, np.int32),
            filters,
            np.zeros((1, 4, 4, 3), np.float32),
            **attrs,
        )


def test_a_gradient_of_another_rank_is_refused(run_op: Run) -> None:
    x, sizes = np.zeros((1, 4, 4, 2), np.float32), np.array([2, 2, 2, 3], np.int32)
    with pytest.raises(InvalidArgumentError, match="out_backprop must be 4-dimensional"):
        run_op(
            "Conv2DBackpropFilter",
            x,
            sizes,
            np.zeros((3, 3, 3), np.float32),
            strides=(1, 1, 1, 1),
            padding=b"VALID",
        )


def test_a_pool_over_the_batch_is_refused_when_the_plan_is_made(run_op: Run) -> None:
    attrs = {"ksize": (1, 1, 1, 1), "strides": (2, 1, 1, 1), "padding": b"SAME"}
    with pytest.raises(UnimplementedError, match="batch dimension"):
        run_op("MaxPool", np.zeros((2, 2, 2, 1), np.float32), **attrs)


@pytest.mark.parametrize(
    ("size", "window", "stride", "channels", "width"),
    [(23, 7, 2, 3, 5), (40, 11, 4, 3, 2), (19, 2, 3, 1, 4), (17, 5, 1, 4, 40), (30, 3, 2, 2, 3)],
)
@pytest.mark.parametrize("padding", [b"SAME", b"VALID"])
def test_gradients_of_few_channels_are_those_of_patches(
    size: int, window: int, stride: int, channels: int, width: int, padding: bytes
) -> None:
    geometry = windows((size + 4, size + 30), (window, window), (stride, stride), (1, 1), padding)
    filters = _random(0, window, window, channels, width)
    gradient = _random(1, 2, *geometry.out, width)
    assert conv_planes.serves(geometry, channels)
    x = _random(2, 2, *geometry.sizes, channels)
    by_planes = conv_planes.input_gradient(filters, gradient, geometry)
    assert by_planes.shape == x.shape
    product = np.vdot(conv.forward(x, filters, geometry), gradient)
    assert np.vdot(by_planes, x) == pytest.approx(product, rel=1e-9)
    np.testing.assert_allclose(
        conv.input_gradient(filters, gradient, geometry), by_planes, rtol=1e-9, atol=1e-9
    )
