"""Datasets that read several others, or end before them: they close those, and refuse bad arguments.

A dataset closed early is one whose files are shut and whose tasks that work ahead are ended: nobody else does
it before the whole run ends.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import SCALAR
from flowengine.resources.container import ResourceManager
from flowengine.resources.data.batches import RebatchDataset
from flowengine.resources.data.caching import CacheDataset
from flowengine.resources.data.choosing import ChooseFastestBranchDataset, WeightedFlatMapDataset
from flowengine.resources.data.dataset import DataIterator, DatasetValue, Iteration, Origin
from flowengine.resources.data.ordering import ConcatenateDataset, SkipDataset, TakeDataset, ZipDataset
from flowengine.resources.data.shuffling import ShuffleDatasetV2
from flowengine.resources.elements import Element

ONE: dict[str, Any] = {"output_types": [dtypes.int64], "output_shapes": [SCALAR]}


def origin(**attrs: Any) -> Origin:
    return Origin("Test", {**ONE, **attrs}, ())


class Watched(DatasetValue):
    """Numbers from 0; says how many of its runs were closed, and how often it was asked."""

    def __init__(self, count: int) -> None:
        super().__init__(origin())
        self.count = count
        self.closed = self.asked = 0

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _WatchedIterator(iteration, self)

    def cardinality(self) -> int:
        return self.count


class _WatchedIterator(DataIterator):
    def __init__(self, iteration: Iteration, made: Watched) -> None:
        super().__init__(iteration)
        self.made = made
        self.given = 0

    async def next(self) -> Element | None:
        self.made.asked += 1
        if self.given == self.made.count:
            return None
        self.given += 1
        return (np.int64(self.given - 1),)

    def close(self) -> None:
        self.made.closed += 1


@asynccontextmanager
async def iteration() -> AsyncIterator[Iteration]:
    resources = ResourceManager()
    resources.bind_to_current_run()
    run = Iteration(resources.services)
    yield run
    run.tasks.cancel()
    await run.tasks.ended()
    resources.close()
    await resources.ended()


@pytest.mark.parametrize("way", ["one by one", "many"])
async def test_what_is_taken_of_a_dataset_closes_it(way: str) -> None:
    source = Watched(10)
    async with iteration() as run:
        iterator = TakeDataset(origin(), source, np.int64(3)).iterator(run)
        if way == "many":
            assert [int(each) for (each,) in await iterator.take(5)] == [0, 1, 2]
        else:
            assert [await iterator.next() for _ in range(4)] == [(0,), (1,), (2,), None]
        assert source.closed == 1
        assert await iterator.next() is None
        iterator.close()
    assert source.closed == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda a, b: WeightedFlatMapDataset(origin(), (a, b), (np.float32(1), np.float32(2))),
        lambda a, b: ZipDataset(origin(), (a, b)),
        lambda a, b: ConcatenateDataset(origin(), TakeDataset(origin(), a, np.int64(1)), b),
        lambda a, b: ZipDataset(origin(), (SkipDataset(origin(), a, np.int64(1)), b)),
    ],
)
async def test_who_stops_early_closes_all_that_were_begun(make: Any) -> None:
    sources = Watched(10), Watched(10)
    async with iteration() as run:
        iterator = make(*sources).iterator(run)
        for _ in range(3):
            assert await iterator.next() is not None
        iterator.close()
        assert [each.closed for each in sources] == [1, 1]


async def test_the_shortest_of_several_ends_and_closes_all() -> None:
    sources = Watched(10), Watched(2)
    async with iteration() as run:
        iterator = ZipDataset(origin(), sources).iterator(run)
        assert [await iterator.next() for _ in range(3)] == [(0, 0), (1, 1), None]
        assert all(each.closed for each in sources)
        assert await iterator.next() is None


@pytest.mark.parametrize("replicas", [-1, 0])
def test_batches_for_no_replica_are_refused(replicas: int) -> None:
    with pytest.raises(InvalidArgumentError, match="num_replicas must be greater than zero"):
        RebatchDataset(origin(), Watched(4), np.int64(replicas))


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [(1, [[0, 1, 2, 3, 4, 5]]), (2, [[0, 1, 2], [3, 4, 5]]), (4, [[0, 1], [2, 3], [4, 5]])],
)
async def test_a_batch_is_shared_by_replicas(replicas: int, expected: list[list[int]]) -> None:
    """Parts of the size that is the quotient rounded up, as long as there are rows."""
    graph = fe.Graph()
    rows = graph.ops.TensorSliceDataset([np.arange(6)[np.newaxis]], output_shapes=[[6]])
    kinds: dict[str, Any] = {"output_types": ["int64"], "output_shapes": [[None]]}
    made = graph.ops.RebatchDataset(rows, np.int64(replicas), **kinds)
    iterator = graph.ops.IteratorV2(shared_name="", container="", **kinds)
    begin = graph.ops.MakeIterator(made, iterator)
    element = graph.ops.IteratorGetNext(iterator, **kinds)
    found = []
    async with fe.Session(graph) as session:
        await session.run([], targets=[begin])
        for _ in expected:
            (values,) = await session.run(list(element))
            found.append(values.tolist())
    assert found == expected


@pytest.mark.parametrize("value", [np.int64(7), Watched(1)])
def test_only_a_generator_of_seeds_gives_seeds(value: Any) -> None:
    handle = np.empty((), object)
    handle[()] = value
    with pytest.raises(InvalidArgumentError, match="seed_generator must be the handle of a seed generator"):
        ShuffleDatasetV2(origin(), Watched(4), np.int64(2), handle)


@pytest.mark.parametrize("lengths", [[], [0, 0]])
def test_branches_have_as_many_lists_of_arguments(lengths: list[int]) -> None:
    caller: Any = SimpleNamespace(function=str)
    given = Origin("Test", {**ONE, "branches": ["f"], "other_arguments_lengths": lengths}, (), caller=caller)
    with pytest.raises(InvalidArgumentError, match="no branches: give at least one"):
        ChooseFastestBranchDataset(given, Watched(4), np.int64(1), np.int64(2), ())


@pytest.mark.parametrize("weights", [[1.0], [1.0, 2.0, 3.0], [-1.0, 2.0], [0.0, 0.0]])
def test_each_dataset_has_a_weight_and_one_of_them_counts(weights: list[float]) -> None:
    datasets = (Watched(1), Watched(2))
    with pytest.raises(InvalidArgumentError, match="2 datasets need as many weights"):
        WeightedFlatMapDataset(origin(), datasets, tuple(np.float64(each) for each in weights))
    made = WeightedFlatMapDataset(origin(), datasets, (np.float64(0), np.float64(4)))
    assert made.weights.tolist() == [0.0, 1.0]


async def test_a_scan_whose_function_is_out_of_range_says_that_of_the_function() -> None:
    """It has promised as many elements as it is given, so this is no end."""

    def cut(state: fe.Tensor, box: fe.Tensor) -> tuple[fe.Tensor, fe.Tensor]:
        ops = state.graph.ops
        image, corners = np.ones((1, 1, 1, 1), np.float32), np.array([[0, 0, 1, 1]], np.float32)
        part = ops.CropAndResize(image, corners, ops.ExpandDims(box, np.int32(0)), np.array([1, 1], np.int32))
        return state + 1, ops.Reshape(part, np.array([1], np.int32))

    boxes = fe.data.Dataset.from_slices(np.array([0, 0, 1], np.int32))
    found: list[Any] = []
    with pytest.raises(InvalidArgumentError, match="Function invocation produced OutOfRangeError"):
        found.extend([each async for each in boxes.scan(np.int64(0), cut)])
    taken = [np.asarray(each).tolist() async for each in boxes.take(2).scan(np.int64(0), cut)]
    assert taken == [[1.0], [1.0]]


async def test_elements_kept_in_files_are_asked_for_once(tmp_path: Path) -> None:
    source = Watched(4)
    made = CacheDataset(origin(), source, str(tmp_path / "kept").encode())
    for _ in range(2):
        async with iteration() as run:
            iterator = made.iterator(run)
            assert [await iterator.next() for _ in range(5)] == [(0,), (1,), (2,), (3,), None]
            iterator.close()
    assert source.asked == 5
    names = os.listdir(tmp_path)
    assert "kept.index" in names
    assert not [name for name in names if name.endswith("lockfile")]
