"""Convolutions of codes beside one written out over padded, dilated arrays, number by number."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flowengine.kernels.quantized.uniform_convolution import _summed
from flowengine.ops.quantized.dilated_windows import windows_of

_FEW: Final = st.integers(1, 3)


@st.composite
def convolutions(draw: Any) -> tuple[Any, Any, dict[str, Any]]:
    """(lhs, rhs, attributes) of one or two spatial dimensions, in the plain order of dimensions."""
    count = draw(st.integers(1, 2))
    attrs = {
        "feature_group_count": draw(_FEW),
        "batch_group_count": draw(_FEW),
        "padding": draw(st.sampled_from([b"VALID", b"SAME", b"EXPLICIT"])),
        "explicit_padding": [],
        **{
            name: draw(st.lists(_FEW, min_size=count, max_size=count))
            for name in ("window_strides", "lhs_dilation", "rhs_dilation")
        },
    }
    inputs = draw(_FEW)
    sizes = draw(st.lists(st.integers(0, 6), min_size=count, max_size=count))
    window = draw(st.lists(st.integers(1, 3), min_size=count, max_size=count))
    if attrs["padding"] == b"VALID":
        sizes = [size + 9 for size in sizes]
    if attrs["padding"] == b"EXPLICIT":
        attrs["explicit_padding"] = draw(st.lists(st.integers(7, 9), min_size=2 * count, max_size=2 * count))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    groups, batches = attrs["feature_group_count"], attrs["batch_group_count"]
    lhs = random.integers(-200, 200, (batches * draw(_FEW), inputs * groups, *sizes))
    rhs = random.integers(-200, 200, (groups * batches * draw(_FEW), inputs, *window))
    return lhs, rhs, attrs


def _spread(x: Any, dilations: Any, lower: Any, needed: Any) -> Any:
    """The input with gaps between its numbers and zeros around it, so large that every window lies inside."""
    whole = np.zeros((*x.shape[:2], *needed), np.int64)
    for at in itertools.product(*(range(size) for size in x.shape[2:])):
        place = tuple(low + k * by for low, k, by in zip(lower, at, dilations, strict=True))
        if all(part < size for part, size in zip(place, needed, strict=True)):
            whole[(slice(None), slice(None), *place)] = x[(slice(None), slice(None), *at)]
    return whole


def written_out(lhs: Any, rhs: Any, attrs: dict[str, Any]) -> Any:
    windows = windows_of(attrs, lhs.shape[2:], rhs.shape[2:])
    reach = [(k - 1) * by + 1 for k, by in zip(rhs.shape[2:], windows.kernel_dilations, strict=True)]
    needed = [max(n - 1, 0) * s + r for n, s, r in zip(windows.sizes, windows.strides, reach, strict=True)]
    whole = _spread(lhs, windows.input_dilations, windows.lower, needed)
    outputs, inputs = rhs.shape[:2]
    of_features = outputs // attrs["feature_group_count"]
    of_batch = outputs // attrs["batch_group_count"]
    count = lhs.shape[0] // attrs["batch_group_count"]
    found = np.zeros((count, outputs, *windows.sizes), np.int64)
    for place in np.ndindex(*found.shape):
        n, f, *spatial = place
        first = f // of_features * inputs
        here = tuple(
            slice(o * s, o * s + r, by)
            for o, s, r, by in zip(spatial, windows.strides, reach, windows.kernel_dilations, strict=True)
        )
        seen = whole[(f // of_batch * count + n, slice(first, first + inputs), *here)]
        found[place] = (seen * rhs[f]).sum()
    return found


@given(convolutions())
def test_is_the_sum_over_each_window(drawn: tuple[Any, Any, dict[str, Any]]) -> None:
    lhs, rhs, attrs = drawn
    windows = windows_of(attrs, lhs.shape[2:], rhs.shape[2:])
    found = _summed(np, lhs, rhs, windows, attrs)
    np.testing.assert_array_equal(found, written_out(lhs, rhs, attrs))


def test_dilations_and_strides_without_end_take_no_time() -> None:
    """Which outputs meet a number is reckoned, not looked for: of a dilation of 2^61, the first alone."""
    lhs, rhs = np.ones((1, 1, 3), np.int64), np.ones((1, 1, 2), np.int64)
    attrs = {
        "feature_group_count": 1,
        "batch_group_count": 1,
        "padding": b"EXPLICIT",
        "explicit_padding": [2**40, 2**40],
        "window_strides": [2**40],
        "lhs_dilation": [2**61],
        "rhs_dilation": [2**61],
    }
    windows = windows_of(attrs, (3,), (2,))
    assert windows.sizes == ((2 * 2**61 + 1 + 2 * 2**40 - 2**61 - 1) // 2**40 + 1,)
    few = type(windows)(
        windows.strides, windows.input_dilations, windows.kernel_dilations, windows.lower, (4,)
    )
    assert _summed(np, lhs, rhs, few, attrs).tolist() == [[[0, 2, 0, 0]]]
