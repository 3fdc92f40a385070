"""Pooling of volumes in which some are no numbers: those do not count, unless a window has no others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe


@pytest.mark.parametrize("dtype", ["float32", "float16"])
async def test_a_window_without_a_number_gives_none(dtype: Any) -> None:
    values = np.array([1, np.nan, np.nan, np.nan, -np.inf, np.nan, 5, 4], dtype).reshape(1, 1, 1, 8, 1)
    graph = fe.Graph()
    volume = graph.placeholder(dtype, None)
    size = [1, 1, 1, 2, 1]
    pooled = graph.ops.MaxPool3D(volume, ksize=size, strides=size, padding="VALID")
    async with fe.Session(graph) as session:
        found = await session.run(pooled, {volume: values})
    np.testing.assert_array_equal(found.ravel()[[0, 1, 3]], np.array([1, np.nan, 5], dtype))
    assert not np.isnan(found.ravel()[2])
