"""Maps of several elements at a time have a thread for each."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.resources.container import ResourceManager
from flowengine.resources.data import parallel as parallel_maps
from flowengine.resources.data.dataset import DataIterator, Iteration
from flowengine.resources.function_calls import CallOutcome
from flowengine.runtime import offload
from flowengine.runtime.planning import compiled_calls
from flowengine.runtime.planning.timings import ItemTimes
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
    taking = property(lambda _: 0.0005, lambda *_: None)
    monkeypatch.setattr(compiled_calls.WholePlan, "seconds", taking)
    pool = _Counting(POOL)
    for module in (offload, compiled_calls):
        monkeypatch.setattr(module, "POOL", pool)
    images = np.random.default_rng(0).integers(0, 256, (6, 250, 250, 3), np.uint8)
    small = fe.data.Dataset.from_slices(images).map(_small, parallel=parallel)
    found = [each async for each in small]
    assert [each.shape for each in found] == [(1, 200, 200, 3)] * 6
    assert pool.jobs == expected


class _Given(DataIterator):
    """Elements that come when the test sends them."""

    def __init__(self, iteration: Iteration, numbers: trio.MemoryReceiveChannel[int]) -> None:
        super().__init__(iteration)
        self._numbers = numbers

    async def next(self) -> Any:
        # What is there is given without a turn of the event loop, as sources do.
        try:
            return (self._numbers.receive_nowait(),)
        except trio.WouldBlock:
            pass
        except trio.EndOfChannel:
            return None
        try:
            return (await self._numbers.receive(),)
        except trio.EndOfChannel:
            return None


class _Held:
    """Calls that last until the test lets them end; which are under way."""

    run_length = 1

    def __init__(self) -> None:
        self.under_way: dict[int, trio.Event] = {}

    async def outcomes(self, _: Any, elements: Sequence[Any]) -> list[CallOutcome]:
        assert len(elements) == 1
        event = self.under_way[elements[0][0]] = trio.Event()
        await event.wait()
        return [CallOutcome((elements[0][0] * 10,), None, 8)]


async def test_what_comes_at_once_is_under_way_at_once() -> None:
    """A task that was idle takes one of two elements, and a new one the other."""
    resources = ResourceManager()
    send, receive = trio.open_memory_channel[int](10)
    calls = _Held()
    source: Any = SimpleNamespace(iterator=lambda iteration: _Given(iteration, receive))
    made: Any = SimpleNamespace(source=source, parallel=3, is_tuned=False, call=calls)
    iterator = parallel_maps._ParallelMapIterator(Iteration(resources.services), made)
    found: list[Any] = []

    async def taken() -> None:
        while (element := await iterator.next()) is not None:
            found.append(element[0])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(taken)
        await send.send(1)
        await trio.testing.wait_all_tasks_blocked()
        calls.under_way[1].set()
        await trio.testing.wait_all_tasks_blocked()
        assert found == [10]
        for number in (2, 3, 4):
            send.send_nowait(number)
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(calls.under_way) == [1, 2, 3, 4]
        for number in (4, 2, 3):
            calls.under_way[number].set()
        send.close()
    assert found == [10, 20, 30, 40]
    assert resources.services.count == 0
    resources.close()
    await resources.ended()
