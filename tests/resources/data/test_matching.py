"""Files that match patterns, caches and generators of seeds as resources, tables out of datasets.

Elements are those that TensorFlow gives for the same files and seeds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core import dtypes
from flowengine.core.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
    PermissionDeniedError,
)

SCALAR = [fe.TensorShape([])]
INT64: dict[str, Any] = {"output_types": [dtypes.int64], "output_shapes": SCALAR}
STRING: dict[str, Any] = {"output_types": [dtypes.string], "output_shapes": SCALAR}


def ranged(graph: fe.Graph, stop: int) -> Any:
    return graph.ops.RangeDataset(
        graph.constant(np.int64(0)), graph.constant(np.int64(stop)), graph.constant(np.int64(1)), **INT64
    )


async def elements(
    graph: fe.Graph, dataset: Any, about: dict[str, Any] = INT64, config: fe.Config | None = None
) -> list[Any]:
    """All elements of one component."""
    iterator = graph.ops.IteratorV2(shared_name="", container="", **about)
    begin = graph.ops.MakeIterator(dataset, iterator)
    following = graph.ops.IteratorGetNext(iterator, **about)
    found: list[Any] = []
    async with fe.Session(graph, config=config) as session:
        await session.run([], targets=[begin])
        while True:
            try:
                found.append(np.asarray(await session.run(following)).item())
            except OutOfRangeError:
                return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a/1.txt", "a/2.csv", "a/10.txt", "b/1.txt", "b/x.txt", ".h/1.txt", "z.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    return tmp_path


@pytest.mark.parametrize("op", ["MatchingFilesDataset", "ExperimentalMatchingFilesDataset"])
@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["*/*.txt"], [".h/1.txt", "a/1.txt", "a/10.txt", "b/1.txt", "b/x.txt"]),
        (["b/*", "*/1.txt"], ["b/1.txt", "b/x.txt", ".h/1.txt", "a/1.txt", "b/1.txt"]),
        (["nothing*", "z.txt"], ["z.txt"]),
        (["*"], ["z.txt"]),
    ],
)
async def test_files_match_patterns_in_turn(
    folder: Path, op: str, patterns: list[str], expected: list[str]
) -> None:
    graph = fe.Graph()
    texts = np.array([f"{folder}/{each}".encode() for each in patterns], object)
    dataset = getattr(graph.ops, op)(graph.constant(texts, dtypes.string))
    assert await elements(graph, dataset, STRING) == [f"{folder}/{each}".encode() for each in expected]


async def test_one_pattern_needs_no_vector(folder: Path) -> None:
    graph = fe.Graph()
    dataset = graph.ops.MatchingFilesDataset(graph.constant(f"{folder}/z.t?t".encode()))
    assert await elements(graph, dataset, STRING) == [f"{folder}/z.txt".encode()]


@pytest.mark.parametrize("pattern", ["nothing*", "*/", "nowhere/x*"])
async def test_no_file_matches(folder: Path, pattern: str) -> None:
    graph = fe.Graph()
    dataset = graph.ops.MatchingFilesDataset(graph.constant(f"{folder}/{pattern}".encode()))
    with pytest.raises(NotFoundError, match="no file matches"):
        await elements(graph, dataset, STRING)


async def test_patterns_are_refused_where_reading_is(folder: Path) -> None:
    graph = fe.Graph()
    dataset = graph.ops.MatchingFilesDataset(graph.constant(f"{folder}/*".encode()))
    with pytest.raises(PermissionDeniedError):
        await elements(graph, dataset, STRING, fe.Config(file_access="none"))


async def test_a_generator_of_random_seeds_gives_the_order_of_tensorflow() -> None:
    graph = fe.Graph()
    seeds, deleter = graph.ops.AnonymousRandomSeedGenerator(
        graph.constant(np.int64(3)), graph.constant(np.int64(4))
    )
    shuffled = graph.ops.ShuffleDatasetV2(ranged(graph, 10), graph.constant(np.int64(4)), seeds, **INT64)
    dataset = graph.ops.RepeatDataset(shuffled, graph.constant(np.int64(2)), **INT64)
    # Recorded from TensorFlow 1.15.
    assert await elements(graph, dataset) == [
        *(1, 2, 3, 4, 5, 7, 0, 8, 6, 9),
        *(3, 4, 2, 5, 7, 0, 1, 9, 6, 8),
    ]
    delete = graph.ops.DeleteRandomSeedGenerator(seeds, deleter)
    async with fe.Session(graph) as session:
        await session.run([], targets=[delete])


async def test_datasets_share_a_cache() -> None:
    """A cache that one dataset has filled feeds the other, whatever the other is made of."""
    graph = fe.Graph()
    cache, deleter = graph.ops.AnonymousMemoryCache()
    first, second = (
        graph.ops.CacheDatasetV2(ranged(graph, stop), graph.constant(b""), cache, **INT64) for stop in (3, 5)
    )
    assert await elements(graph, graph.ops.ConcatenateDataset(first, second, **INT64)) == [0, 1, 2] * 2
    async with fe.Session(graph) as session:
        await session.run([], targets=[graph.ops.DeleteMemoryCache(cache, deleter)])


def table_of(graph: fe.Graph) -> Any:
    return graph.ops.HashTableV2(
        container="", shared_name="t", key_dtype=dtypes.string, value_dtype=dtypes.int64
    )


def pairs(graph: fe.Graph, keys: Any, values: Any) -> Any:
    return graph.ops.TensorSliceDataset(
        [graph.constant(keys, dtypes.string), graph.constant(values)],
        Toutput_types=[dtypes.string, graph.constant(values).dtype],
        output_shapes=[fe.TensorShape(list(np.shape(values)[1:]))] * 2,
    )


async def test_a_table_is_filled_from_a_dataset() -> None:
    graph = fe.Graph()
    table = table_of(graph)
    keys = np.array([b"a", b"b"], object)
    fill = graph.ops.InitializeTableFromDataset(table, pairs(graph, keys, np.array([5, 7])))
    found = graph.ops.LookupTableFindV2(
        table,
        graph.constant(np.array([b"b", b"x", b"a"], object), dtypes.string),
        graph.constant(np.int64(-1)),
    )
    async with fe.Session(graph) as session:
        with pytest.raises(FailedPreconditionError):
            await session.run(found)
        await session.run([], targets=[fill])
        assert (await session.run(found)).tolist() == [7, -1, 5]


@pytest.mark.parametrize(
    "make",
    [
        lambda graph: ranged(graph, 3),
        lambda graph: pairs(graph, np.array([b"a"], object), np.array([1.5])),
        lambda graph: pairs(graph, np.array([[b"a", b"b"]], object), np.array([[1, 2]])),
    ],
    ids=["one component", "another type", "vectors"],
)
async def test_a_table_refuses_other_elements(make: Any) -> None:
    graph = fe.Graph()
    fill = graph.ops.InitializeTableFromDataset(table_of(graph), make(graph))
    async with fe.Session(graph) as session:
        with pytest.raises(InvalidArgumentError):
            await session.run([], targets=[fill])
