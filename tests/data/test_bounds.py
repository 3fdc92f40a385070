"""A pipeline that nobody asks fills to its bound and stands still, and its memory with it.

Elements are large arrays, each made anew and counted, so what NumPy holds tells how many are kept. Memory
that is kept for the next array of its size is given back at once here: it holds no element.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import trio.testing

import flowengine as fe
from flowengine.core import buffers, dtypes
from flowengine.resources.data import batches

#: Bytes of an element.
SIZE = 1_000_000
_NUMBERS: dict[str, Any] = {"output_types": [dtypes.int64], "output_shapes": [[]]}
_ROWS: dict[str, Any] = {"output_types": [dtypes.uint8], "output_shapes": [[None]]}
_BATCHES: dict[str, Any] = {"output_types": [dtypes.uint8], "output_shapes": [[None, None]]}


def _number(value: int) -> Any:
    return np.int64(value)


class _Pipeline:
    """Counted elements without end, through what is to be tested, to an iterator.

    made   how many elements were made
    """

    def __init__(self, build: Callable[[_Pipeline], Any], elements: dict[str, Any]) -> None:
        self.graph = graph = fe.Graph()
        self.made = graph.variable(_number(0), name="made")
        iterator = graph.ops.IteratorV2(shared_name="it", container="", **elements)
        graph.ops.MakeIterator(build(self), iterator, name="begin")
        (following,) = graph.ops.IteratorGetNext(iterator, **elements)
        self.following = graph.ops.Size(following)

    def source(self, graph: fe.Graph | None = None) -> Any:
        graph = self.graph if graph is None else graph
        body = fe.function(self.graph, [("int64", [])], name="element")(self._element)
        numbers = graph.ops.RangeDataset(_number(0), _number(10**9), _number(1), **_NUMBERS)
        return graph.ops.MapDataset(numbers, [self.made.handle], f=body.attr, **_ROWS)

    def _element(self, number: Any) -> Any:
        ops = number.graph.ops
        with number.graph.control_dependencies([ops.AssignAddVariableOp(self.made.handle, _number(1))]):
            return ops.Fill([SIZE], ops.Cast(number, DstT="uint8"))

    def other(self) -> Any:
        """A function that makes another array of an element."""
        build = fe.function(self.graph, [("uint8", [None])], name="other")
        return build(lambda row: row.graph.ops.BitwiseXor(row, np.uint8(1))).attr

    def sources(self) -> Any:
        """A function that makes a source of a number, and what it captures."""
        build = fe.function(self.graph, [("int64", [])], name="sources")
        return build(lambda number: self.source(number.graph))


def _prefetch(made: _Pipeline, ahead: int) -> Any:
    return made.graph.ops.PrefetchDataset(made.source(), _number(ahead), **_ROWS)


def _parallel(made: _Pipeline, calls: int) -> Any:
    return made.graph.ops.ParallelMapDatasetV2(made.source(), [], _number(calls), f=made.other(), **_ROWS)


def _interleave(made: _Pipeline, ahead: int) -> Any:
    ops, function = made.graph.ops, made.sources()
    numbers = ops.RangeDataset(_number(0), _number(2), _number(1), **_NUMBERS)
    settings = [_number(each) for each in (2, 1, ahead, 0, 2)]
    return ops.ParallelInterleaveDatasetV4(numbers, function.captures, *settings, f=function.attr, **_ROWS)


def _shuffle(made: _Pipeline, buffered: int) -> Any:
    return made.graph.ops.ShuffleDataset(made.source(), _number(buffered), _number(1), _number(2), **_ROWS)


def _cache(made: _Pipeline, taken: int) -> Any:
    """A cache does not run ahead; `take` bounds what it keeps."""
    few = made.graph.ops.TakeDataset(made.source(), _number(taken), **_ROWS)
    cached = made.graph.ops.CacheDataset(few, "", **_ROWS)
    return made.graph.ops.RepeatDataset(cached, _number(-1), **_ROWS)


def _batches(made: _Pipeline, ahead: int) -> Any:
    ops = made.graph.ops
    batched = ops.BatchDatasetV2(made.source(), _number(3), False, **_BATCHES)
    return ops.PrefetchDataset(batched, _number(ahead), **_BATCHES)


#: {what is tested: (it, its bound, elements that a step takes, that may be kept, that making one more takes)}
KINDS: dict[str, tuple[Callable[[_Pipeline, int], Any], int, int, int, int]] = {
    "prefetch": (_prefetch, 4, 1, 4, 1),
    "parallel map": (_parallel, 3, 1, 3, 1),
    "interleave": (_interleave, 2, 1, 2 * (2 + 1), 1),
    "shuffle": (_shuffle, 5, 1, 5, 1),
    "cache": (_cache, 6, 1, 6, 1),
    # A batch is made of its elements.
    "batches": (_batches, 2, 3, 2 * 3, 3 + 3),
}


async def _stands_still(session: fe.Session, made: Any) -> int:
    """How many elements were made when nothing happens any more."""
    before = -1
    while True:
        for _ in range(10):
            await trio.testing.wait_all_tasks_blocked()
        found = int(await session.run(made))
        if found == before:
            return found
        before = found


def _held_bytes() -> int:
    """The bytes of all arrays that NumPy has made since tracemalloc began, and that are alive."""
    gc.collect()
    arrays = tracemalloc.DomainFilter(inclusive=True, domain=np.lib.tracemalloc_domain)
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([arrays]).traces)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_pipeline_that_nobody_asks_stands_still_at_its_bound(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All in the loop's thread: then nothing is under way where every task waits.
    monkeypatch.setattr(batches, "_LARGE", 10 * SIZE)
    monkeypatch.setattr(buffers, "_kept", buffers.IdleMemory(idle_max=0))
    build, bound, taken, kept, making = KINDS[kind]
    pipeline = _Pipeline(lambda made: build(made, bound), _BATCHES if kind == "batches" else _ROWS)
    graph = pipeline.graph
    async with fe.Session(graph, config=fe.Config(worker_threads=False)) as session:
        await session.run([], targets=[pipeline.made.initializer, "begin"])
        tracemalloc.start()
        try:
            for asked in range(1, 4):
                assert await session.run(pipeline.following) == SIZE * taken
                made = await _stands_still(session, pipeline.made.value())
                assert asked * taken <= made <= asked * taken + kept
                # Large arrays are rounded up by at most an eighth.
                assert (made - asked * taken) * SIZE <= _held_bytes() < (kept + 1) * SIZE
            others = tracemalloc.get_traced_memory()[0] - _held_bytes()
            tracemalloc.reset_peak()
            for _ in range(30):
                await session.run(pipeline.following)
            # Beside what is kept: what was asked for, and what is being made.
            assert tracemalloc.get_traced_memory()[1] - others < (kept + taken + making + 1) * SIZE
        finally:
            tracemalloc.stop()
