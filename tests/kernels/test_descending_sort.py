"""Sorting by packed integers against a stable sort, over ties, zeros of both signs, NaN and infinities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.kernels.numpy.order.falling import MANY, falling_places

numbers = st.sampled_from([-0.0, 0.0, 1e-45, 1.5, -1.5, np.inf, -np.inf, np.nan, -np.nan]) | st.floats(
    width=32
)


@given(st.lists(numbers, max_size=60), st.booleans())
def test_places_are_those_of_a_stable_sort(values: list[float], nan_first: bool) -> None:
    array = np.array(values, np.float32)
    unknown = np.isnan(array)
    by_value = sorted(range(array.size), key=lambda place: -array[place] if not unknown[place] else 0)
    known = [place for place in by_value if not unknown[place]]
    nan = np.flatnonzero(unknown).tolist()
    found = falling_places(array, nan_first=nan_first).tolist()
    assert found == (nan + known if nan_first else known + nan)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("k", [1, 20, MANY, 2 * MANY])
@pytest.mark.parametrize("has_nan", [False, True])
async def test_the_greatest_of_long_rows(rows: int, k: int, has_nan: bool) -> None:
    """Of equal ones the first comes first, and a NaN before all in rows too long for TensorFlow's order."""
    random = np.random.default_rng(k)
    width = 9 * MANY if has_nan else 2 * MANY
    x = random.choice(np.linspace(-1, 1, 99, dtype=np.float32), (rows, width))
    if has_nan:
        x[random.random(x.shape) < 0.01] = np.nan
    g = fe.Graph()
    g.ops.TopKV2(g.placeholder("float32", [None, None], name="x"), k, name="top")
    async with fe.Session(g) as session:
        values, places = await session.run(["top:0", "top:1"], {"x:0": x})
    backwards = np.argsort(x[:, ::-1], axis=1, kind="stable")[:, ::-1]
    expected = (x.shape[1] - 1 - backwards)[:, :k]
    assert places.dtype == np.int32
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected, axis=1))
