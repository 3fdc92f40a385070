"""Pooling of gradients that have no image."""

from __future__ import annotations

from typing import Any

import numpy as np

import flowengine as fe


async def test_of_no_gradient_comes_zero() -> None:
    g = fe.Graph()
    nothing = np.zeros((0, 4, 2, 2, 2), np.float32)
    sides: dict[str, Any] = {"ksize": [1, 1, 2, 2, 1], "strides": [1, 1, 2, 2, 1], "padding": "VALID"}
    back = g.ops.AvgPool3DGrad(np.array([1, 4, 4, 4, 2], np.int32), nothing, **sides)
    async with fe.Session(g) as session:
        np.testing.assert_array_equal(await session.run(back), np.zeros((1, 4, 4, 4, 2)))
