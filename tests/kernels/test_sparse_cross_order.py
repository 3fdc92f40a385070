"""SparseCross where rows are out of order or outside: they are read once, in order."""

from __future__ import annotations

import numpy as np
import pytest

import flowengine as fe


# What TensorFlow 2.21 gives.
@pytest.mark.parametrize(
    ("rows", "places", "values"),
    [
        ([-1, 0, 1], [], []),
        ([0, 2, 1, 2], [[0, 0], [2, 0]], [b"a", b"b"]),
        ([0, 5, 1], [[0, 0]], [b"a"]),
        ([0, 1, 0, 2], [[0, 0], [1, 0]], [b"a", b"b"]),
    ],
)
async def test_a_row_out_of_order_ends_the_reading(
    rows: list[int], places: list[list[int]], values: list[bytes]
) -> None:
    g = fe.Graph()
    indices = np.array([[row, 0] for row in rows], np.int64)
    words = np.array([b"a", b"b", b"c", b"d"][: len(rows)], object)
    crossed = g.ops.SparseCrossV2([indices], [words], [np.array([3, 2], np.int64)], [], b"-")
    async with fe.Session(g) as session:
        got = await session.run(list(crossed))
    np.testing.assert_array_equal(got[0], np.reshape(places, (-1, 2)))
    assert got[1].tolist() == values
    np.testing.assert_array_equal(got[2], [3, min(len(places), 1)])
