"""`fe.data.Dataset`: pipelines in Python, against what Python itself makes of the same numbers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core.errors import (
    DataLossError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
)


async def _all(dataset: fe.data.Dataset) -> list[Any]:
    return [np.asarray(element).tolist() async for element in dataset]


async def test_numbers_in_batches() -> None:
    squares = fe.data.Dataset.range(5).map(lambda x: x * x).batch(2)
    assert await _all(squares) == [[0, 1], [4, 9], [16]]
    assert len(squares) == 3
    assert squares.types == (fe.dtypes.int64,)


async def test_large_batches_end_where_they_are_full() -> None:
    numbers = fe.data.Dataset.range(700)
    for dataset in (numbers, numbers.map(lambda x: x), numbers.filter(lambda x: x >= 0)):
        assert [len(each) for each in await _all(dataset.batch(300))] == [300, 300, 100]


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


@pytest.mark.parametrize("ahead", [0, 3])
async def test_several_tasks_share_elements_and_all_come_to_the_end(ahead: int) -> None:
    numbers = fe.data.Dataset.range(50).map(lambda x: x + 1)
    numbers = numbers.prefetch(ahead) if ahead else numbers
    found: list[int] = []
    async with numbers.elements() as elements:
        async with trio.open_nursery() as nursery:

            async def take() -> None:
                async for each in elements:
                    found.append(int(each))
                    await trio.lowlevel.checkpoint()

            for _ in range(4):
                nursery.start_soon(take)
        assert sorted(found) == list(range(1, 51))
        # The end stays, for whoever asks again.
        for _ in range(2):
            with pytest.raises(StopAsyncIteration):
                await elements.__anext__()


async def test_elements_that_were_closed_say_so() -> None:
    elements = fe.data.Dataset.range(5).elements()
    assert await elements.__anext__() == 0
    await elements.close()
    with pytest.raises(FailedPreconditionError, match="these elements are closed"):
        await elements.__anext__()


async def test_what_is_wrong_with_a_pipeline_is_told_when_it_is_made() -> None:
    numbers = fe.data.Dataset.range(3)
    with pytest.raises(InvalidArgumentError, match="Batch size"):
        numbers.batch(0)
    with pytest.raises(InvalidArgumentError, match="must return tensors"):
        numbers.map(lambda x: 3)
    with pytest.raises(InvalidArgumentError, match="at least one file"):
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


@given(st.lists(st.integers(-3, 3), max_size=12), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
def test_what_python_makes_of_lists(numbers: list[int], size: int, shift: int, stride: int) -> None:
    source = fe.data.Dataset.from_slices(np.array(numbers, np.int64))
    assert trio.run(_all, source.unique()) == list(dict.fromkeys(numbers))
    assert trio.run(_all, source.take_while(lambda x: x < 2)) == list(takewhile(lambda x: x < 2, numbers))
    sums = source.scan(np.int64(1), lambda state, x: (state + x, state * x))
    before = list(accumulate(numbers, initial=1))
    assert trio.run(_all, sums) == [s * x for s, x in zip(before, numbers, strict=False)]
    assert trio.run(source.reduce, np.int64(1), lambda state, x: state + x) == before[-1]
    windows = trio.run(_all, source.sliding_window(size, shift=shift, stride=stride))
    ends = range(0, len(numbers) - (size - 1) * stride, shift)
    assert windows == [numbers[at : at + size * stride : stride] for at in ends]


async def test_numbered_and_chosen_elements() -> None:
    letters = fe.data.Dataset.from_slices(["a", "b", "c"])
    assert [(int(n), s) async for n, s in letters.enumerate(5)] == [(5, b"a"), (6, b"b"), (7, b"c")]
    choice = fe.data.Dataset.from_slices(np.array([1, 0, 0, 1, 1], np.int64))
    chosen = fe.data.Dataset.choose_from([fe.data.Dataset.range(2), fe.data.Dataset.range(7, 9)], choice)
    assert await _all(chosen) == [7, 0, 1, 8]
    assert await _all(fe.data.Dataset.from_tensors([1, 2]).apply(lambda each: each.repeat(2))) == [[1, 2]] * 2
    with pytest.raises(InvalidArgumentError, match=r"types differ: .* and"):
        fe.data.Dataset.choose_from([letters, choice], choice)
    with pytest.raises(FailedPreconditionError):
        await _all(letters.assert_cardinality(2))


async def test_random_numbers_are_the_same_for_a_seed() -> None:
    numbers = await _all(fe.data.Dataset.random(3).take(9))
    assert numbers == await _all(fe.data.Dataset.random(3).take(9))
    assert len(set(numbers)) == 9
    assert all(0 <= number < 2**32 for number in numbers)


async def test_records_of_one_size(tmp_path: Path) -> None:
    path = tmp_path / "records"
    path.write_bytes(b"HHabcdefF")
    records = fe.data.Dataset.fixed_length_records(str(path), 3, header=2, footer=1)
    assert [record async for record in records] == [b"abc", b"def"]


async def test_a_generator_is_made_for_each_run_and_ends_with_it() -> None:
    ended: list[int] = []

    def numbered() -> Iterator[tuple[int, str]]:
        try:
            for number in range(100):
                yield number, str(number)
        finally:
            ended.append(number)

    dataset = fe.data.Dataset.from_generator(numbered, ["int32", "string"], [[], []])
    assert ended == []
    assert [(int(n), s) async for n, s in dataset.take(2)] == [(0, b"0"), (1, b"1")]
    assert len([each async for each in dataset.prefetch(3)]) == 100
    async with dataset.prefetch(2).elements() as elements:
        await elements.__anext__()
    assert len(ended) == 3
    assert ended[1] == 99


async def test_what_is_wrong_with_a_generator_is_raised_in_its_place() -> None:
    def numbers() -> Iterator[Any]:
        yield 1
        yield "text"
        yield [1, 2]
        yield (1, 2)
        raise KeyError("gone")

    found: list[Any] = []
    async with fe.data.Dataset.from_generator(numbers, ["int64"], [[]]).elements() as elements:
        while True:
            try:
                found.append(int(await elements.__anext__()))
            except OpError as error:
                found.append(error.message)
            except StopAsyncIteration:
                break
    number, text, shape, several, gone = found
    assert number == 1
    assert "'text', which is not of type int64" in text
    assert "the shape [2]" in shape
    assert "gave 2" in several
    assert "KeyError: 'gone'" in gone


async def test_a_state_is_as_the_first() -> None:
    numbers = fe.data.Dataset.range(3)
    with pytest.raises(InvalidArgumentError, match="must return the next state"):
        numbers.scan(np.int64(0), lambda state, x: state + x)
    with pytest.raises(InvalidArgumentError, match="must return a state"):
        await numbers.reduce(np.int64(0), lambda state, x: (state, x))
    sums = await numbers.reduce((np.int64(0), np.int64(1)), lambda a, b, x: (a + x, b * 2))
    assert [int(each) for each in sums] == [3, 8]
