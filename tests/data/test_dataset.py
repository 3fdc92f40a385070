"""`fe.data.Dataset`: pipelines in Python, against what Python itself makes of the same numbers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core.errors import DataLossError, InvalidArgumentError, NotFoundError


async def _all(dataset: fe.data.Dataset) -> list[Any]:
    return [np.asarray(element).tolist() async for element in dataset]


async def test_numbers_in_batches() -> None:
    squares = fe.data.Dataset.range(5).map(lambda x: x * x).batch(2)
    assert await _all(squares) == [[0, 1], [4, 9], [16]]
    assert len(squares) == 3
    assert squares.types == (fe.dtypes.int64,)


@given(st.integers(0, 20), st.integers(0, 8), st.integers(-1, 8), st.integers(1, 3), st.integers(1, 5))
def test_order_is_that_of_lists(count: int, skip: int, take: int, repeat: int, size: int) -> None:
    dataset = fe.data.Dataset.range(count).skip(skip).repeat(repeat).take(take).prefetch(2).batch(size)
    expected = list(range(count))[skip:] * repeat
    if take >= 0:
        expected = expected[:take]
    assert trio.run(_all, dataset) == [expected[at : at + size] for at in range(0, len(expected), size)]


async def test_shuffled_elements_are_all_there_and_the_same_for_a_seed() -> None:
    dataset = fe.data.Dataset.range(50).shuffle(20, seed=7)
    first = await _all(dataset)
    assert sorted(first) == list(range(50))
    assert first != list(range(50))
    assert await _all(fe.data.Dataset.range(50).shuffle(20, seed=7)) == first


async def test_parallel_maps_keep_the_order() -> None:
    dataset = fe.data.Dataset.range(30).map(lambda x: x + 1, parallel=4).filter(lambda x: x > 20)
    assert await _all(dataset) == list(range(21, 31))


async def test_several_components() -> None:
    dataset = fe.data.Dataset.from_slices([1.0, 2.0, 3.0], ["a", "bb", ""]).map(lambda x, s: (x * 2, s))
    assert [(float(x), s) async for x, s in dataset] == [(2.0, b"a"), (4.0, b"bb"), (6.0, b"")]
    zipped = fe.data.Dataset.zip(fe.data.Dataset.range(2), fe.data.Dataset.range(5, 9))
    assert [(int(a), int(b)) async for a, b in zipped] == [(0, 5), (1, 6)]


async def test_padding() -> None:
    rows = fe.data.Dataset.range(1, 4).map(lambda n: n.graph.ops.Fill(n.graph.ops.Reshape(n, [1]), n))
    assert await _all(rows.padded_batch(3, [[-1]])) == [[[1, 0, 0], [2, 2, 0], [3, 3, 3]]]
    assert await _all(rows.batch(1).unbatch().take(1)) == [[1]]


async def test_lines_of_files(tmp_path: Path) -> None:
    lines = [f"{number} {random.Random(number).random()}" for number in range(1000)]
    path = tmp_path / "lines"
    path.write_text("\n".join(lines))
    dataset = fe.data.Dataset.text_lines(str(path))
    assert [line.decode() async for line in dataset] == lines
    with pytest.raises(NotFoundError):
        await _all(fe.data.Dataset.text_lines(str(tmp_path / "missing")))


async def test_errors_are_raised_in_their_place(tmp_path: Path) -> None:
    path = tmp_path / "damaged"
    path.write_bytes(b"no record at all")
    dataset = fe.data.Dataset.tf_records(str(path)).prefetch(2)
    with pytest.raises(DataLossError):
        await _all(dataset)
    assert await _all(dataset.ignore_errors()) == []


async def test_tasks_end_with_the_block() -> None:
    async with fe.data.Dataset.range(100).prefetch(4).elements() as elements:
        async for element in elements:
            assert element == 0
            break
        services = elements._resources.services
        assert services.count == 2
    assert services.count == 0


async def test_what_is_wrong_with_a_pipeline_is_told_when_it_is_made() -> None:
    numbers = fe.data.Dataset.range(3)
    with pytest.raises(InvalidArgumentError, match="Batch size"):
        numbers.batch(0)
    with pytest.raises(InvalidArgumentError, match="must return tensors"):
        numbers.map(lambda x: 3)
    with pytest.raises(InvalidArgumentError, match="no file"):
        fe.data.Dataset.tf_records([])
    with pytest.raises(TypeError):
        len(numbers.repeat())


@given(
    st.lists(st.integers(0, 5), max_size=8),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from([1, 2, -1]),
)
def test_datasets_of_elements_take_turns(sizes: list[int], cycle: int, block: int, parallel: int) -> None:
    def counted(number: Any) -> fe.data.Dataset:
        return fe.data.Dataset.range(int(number)).map(lambda x: x + 10 * int(number))

    source = fe.data.Dataset.from_slices(np.array(sizes, np.int64))
    made = source.interleave(counted, cycle_length=cycle, block_length=block, parallel=parallel)
    found = trio.run(_all, made)
    assert sorted(found) == sorted(n + 10 * size for size in sizes for n in range(size))
    assert found == trio.run(_all, source.interleave(counted, cycle_length=cycle, block_length=block))
    if cycle == 1:
        assert found == [n for size in sizes for n in range(10 * size, 11 * size)]


async def test_lines_of_several_files_in_turns(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text(f"{name}1\n{name}2\n")
    paths = fe.data.Dataset.from_slices([str(tmp_path / name) for name in "ab"])
    lines = paths.interleave(fe.data.Dataset.text_lines, cycle_length=2, parallel=2)
    assert [line async for line in lines] == [b"a1", b"b1", b"a2", b"b2"]
    assert [line async for line in paths.flat_map(fe.data.Dataset.text_lines)] == [b"a1", b"a2", b"b1", b"b2"]
    assert lines.types == (fe.dtypes.string,)
    with pytest.raises(InvalidArgumentError, match="must return a dataset, not a int"):
        paths.flat_map(cast("Any", len))
