"""Maps of several elements at a time have a thread for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.runtime import offload
from flowengine.runtime.planning.learned import ItemTimes
from flowengine.runtime.threads import POOL, Job


class _Counting:
    """The threads, and how many jobs they were given.

    Nobody is said to wait for them: on a busy machine a call would give way and be a job once more.
    """

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self.jobs = 0

    def is_wanted(self) -> bool:
        return False

    def submit(self, job: Job) -> None:
        self.jobs += 1
        self._pool.submit(job)


def _small(image: fe.Tensor) -> fe.Tensor:
    size = np.array([200, 200], np.int32)
    resized: fe.Tensor = image.graph.ops.ResizeBilinear(image[np.newaxis], size)
    return resized / 255.0


@pytest.mark.parametrize(("parallel", "expected"), [(2, 6), (1, 0)])
async def test_calls_beside_others_go_to_threads(
    monkeypatch: pytest.MonkeyPatch, parallel: int, expected: int
) -> None:
    """A kernel of some hundred microseconds, which alone is not worth the way.

    That is what it is estimated to take: what a busy machine makes of it is not learned.
    """
    monkeypatch.setattr(ItemTimes, "learn", lambda *_: None)
    pool = _Counting(POOL)
    monkeypatch.setattr(offload, "POOL", pool)
    images = np.random.default_rng(0).integers(0, 256, (6, 250, 250, 3), np.uint8)
    small = fe.data.Dataset.from_slices(images).map(_small, parallel=parallel)
    found = [each async for each in small]
    assert [each.shape for each in found] == [(1, 200, 200, 3)] * 6
    assert pool.jobs == expected
