"""Estimates of cost: they are asked before a kernel looks at its inputs."""

from __future__ import annotations

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.costs import elements_of


def test_a_shape_has_its_elements_and_what_is_none_has_none() -> None:
    assert elements_of(np.array([2, 3, 4], np.int32)) == 24
    assert elements_of(np.array([], np.int32)) == 1
    assert elements_of(np.empty((1 << 40, 0), np.int32)) == 0
    assert elements_of(np.zeros(1 << 20, np.int32)) == 0


async def test_rows_of_nothing_are_no_size_and_no_list_is_made_of_them() -> None:
    g = fe.Graph()
    size = g.placeholder("int32", name="size")
    images = g.ops.BroadcastTo(g.placeholder("float32", [1, 1, 1, 1], name="image"), [1, 512, 512, 3])
    resized = g.ops.ResizeBilinear(images, size)
    async with fe.Session(g) as session:
        with pytest.raises(InvalidArgumentError):
            await session.run(
                resized, {size: np.empty((1 << 40, 0), np.int32), "image:0": np.zeros((1, 1, 1, 1), "f")}
            )
