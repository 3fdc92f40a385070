"""Parts of images drawn by a seed: the numbers that TensorFlow 2.21 draws."""

from __future__ import annotations

from typing import Any

import numpy as np

import flowengine as fe

_BOXES = np.array([[[0.1, 0.2, 0.6, 0.9], [0.5, 0.5, 0.75, 1.0]]], np.float32)


async def _drawn(op: str, *more: Any, **attrs: Any) -> list[Any]:
    graph = fe.Graph()
    inputs = [np.array([90, 100, 3], np.int32), _BOXES, np.float32(0.75), *more]
    found = getattr(graph.ops, op)(*map(graph.constant, inputs), **attrs)
    async with fe.Session(graph) as session:
        return [value.tolist() for value in await session.run(list(found))]


async def test_a_part_by_the_seeds_of_a_node() -> None:
    begin, size, box = await _drawn("SampleDistortedBoundingBoxV2", seed=3, seed2=11)
    assert (begin, size) == ([7, 6, 0], [66, 71, -1])
    expected = [0.07777778059244156, 0.05999999865889549, 0.8111110925674438, 0.7699999809265137]
    assert box == [[expected]]


async def test_a_part_by_a_seed_that_is_given() -> None:
    seed = np.array([4, 5], np.int32)
    begin, size, box = await _drawn("StatelessSampleDistortedBoundingBox", seed)
    assert (begin, size) == ([2, 2, 0], [73, 96, -1])
    expected = [0.02222222276031971, 0.019999999552965164, 0.8333333134651184, 0.9800000190734863]
    assert box == [[expected]]
