"""Pipelines built and run: batches have what went in, in order or shuffled, and end where the input ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

import flowengine as fe
from flowengine.core.errors import InvalidArgumentError, OutOfRangeError


async def drained(graph: fe.Graph, fetches: Any, **options: Any) -> list[Any]:
    """Return the values of all steps until the input is at its end."""
    results: list[Any] = []
    async with fe.Session(graph, **options) as session, fe.train.QueueRunners(session):
        while True:
            results.append(await session.run(fetches))
    return results


def numbers(graph: fe.Graph, count: int, **options: Any) -> fe.Tensor:
    """The numbers below `count`, once, in order."""
    options = {"num_epochs": 1, "shuffle": False, **options}
    (number,) = fe.train.range_input_producer(graph, count, **options).dequeue()
    return number


async def test_a_producer_gives_each_row_once_an_epoch_in_order() -> None:
    graph = fe.Graph()
    queue = fe.train.string_input_producer(graph, ["a", "b", "c"], num_epochs=2, shuffle=False)
    assert await drained(graph, queue.dequeue()[0]) == [b"a", b"b", b"c"] * 2


async def test_a_shuffling_producer_gives_each_row_once_an_epoch() -> None:
    graph = fe.Graph()
    queue = fe.train.string_input_producer(graph, [str(i) for i in range(9)], num_epochs=3, seed=5)
    names = await drained(graph, queue.dequeue()[0])
    epochs = [names[i : i + 9] for i in (0, 9, 18)]
    assert all(sorted(epoch) == sorted(epochs[0]) for epoch in epochs)
    assert epochs[0] != epochs[1]


async def test_a_seed_makes_the_order_the_same_each_time() -> None:
    async def order() -> list[Any]:
        graph = fe.Graph()
        queue = fe.train.range_input_producer(graph, 20, num_epochs=2, seed=7)
        return await drained(graph, queue.dequeue()[0])

    assert await order() == await order()


async def test_without_a_number_of_epochs_there_is_no_end() -> None:
    graph = fe.Graph()
    (number,) = fe.train.range_input_producer(graph, 3, shuffle=False).dequeue()
    async with fe.Session(graph) as session, fe.train.QueueRunners(session):
        assert [await session.run(number) for _ in range(100)] == [i % 3 for i in range(100)]


async def test_slices_of_several_tensors_belong_together() -> None:
    graph = fe.Graph()
    squares = graph.constant([0, 1, 4, 9, 16])
    names = graph.constant(["0", "1", "4", "9", "16"], "string")
    row = fe.train.slice_input_producer([squares, names], num_epochs=1, seed=1)
    rows = await drained(graph, row)
    assert Counter(int(number) for number, _ in rows) == Counter([0, 1, 4, 9, 16])
    assert all(str(number).encode() == name for number, name in rows)


async def test_file_names_are_matched_once(tmp_path: Any) -> None:
    for name in ("b.txt", "a.txt", "c.csv"):
        (tmp_path / name).write_text(f"in {name}\n")
    graph = fe.Graph()
    found = fe.train.match_filenames_once(graph, str(tmp_path / "*.txt"))
    queue = fe.train.string_input_producer(graph, found, num_epochs=1, shuffle=False)
    line = graph.ops.ReaderReadV2(graph.ops.TextLineReaderV2(), queue.handle)
    assert [record for _, record in await drained(graph, line)] == [b"in a.txt", b"in b.txt"]


async def test_an_empty_match_is_an_error_of_the_block(tmp_path: Any) -> None:
    graph = fe.Graph()
    found = fe.train.match_filenames_once(graph, str(tmp_path / "*"))
    queue = fe.train.string_input_producer(graph, found, num_epochs=1)
    with pytest.raises(InvalidArgumentError, match="at least one string"):
        await drained(graph, queue.dequeue()[0])


@pytest.mark.parametrize("threads", [1, 3])
async def test_batches_hold_everything_and_drop_the_rest(threads: int) -> None:
    graph = fe.Graph()
    number = numbers(graph, 11)
    (batch,) = fe.train.batch([number], 4, num_threads=threads)
    assert batch.shape.as_list() == [4]
    batches = await drained(graph, batch)
    assert [len(each) for each in batches] == [4, 4]
    together = np.concatenate(batches).tolist()
    assert together == list(range(8)) if threads == 1 else len(set(together)) == 8


async def test_a_smaller_final_batch_holds_the_rest() -> None:
    graph = fe.Graph()
    (batch,) = fe.train.batch([numbers(graph, 11)], 4, allow_smaller_final_batch=True)
    assert [each.tolist() for each in await drained(graph, batch)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]


async def test_batches_of_a_dict_are_a_dict() -> None:
    graph = fe.Graph()
    number = numbers(graph, 4)
    batch = fe.train.batch({"n": number, "double": graph.ops.Add(number, number)}, 2)
    first, second = await drained(graph, batch)
    assert first["n"].tolist() == [0, 1]
    assert second["double"].tolist() == [4, 6]


async def test_many_examples_at_once() -> None:
    graph = fe.Graph()
    number = numbers(graph, 3)
    rows = graph.ops.Add(graph.ops.Mul(number, 10), graph.constant([0, 1, 2]))
    (batch,) = fe.train.batch([rows], 2, enqueue_many=True, allow_smaller_final_batch=True)
    together = np.concatenate(await drained(graph, batch)).tolist()
    assert together == [0, 1, 2, 10, 11, 12, 20, 21, 22]


async def test_lengths_that_vary_are_padded() -> None:
    graph = fe.Graph()
    number = numbers(graph, 5)
    ones = graph.ops.Fill(graph.ops.ExpandDims(number, 0), number)
    (batch,) = fe.train.batch([ones], 2, shapes=[[None]], dynamic_pad=True, allow_smaller_final_batch=True)
    batches = await drained(graph, batch)
    assert [each.tolist() for each in batches] == [
        [[0], [1]],
        [[2, 2, 0], [3, 3, 3]],
        [[4, 4, 4, 4]],
    ]


async def test_examples_that_are_not_kept() -> None:
    graph = fe.Graph()
    number = numbers(graph, 10)
    odd = graph.ops.Equal(graph.ops.FloorMod(number, 2), 1)
    (batch,) = fe.train.batch([number], 2, keep_input=odd, allow_smaller_final_batch=True)
    assert np.concatenate(await drained(graph, batch)).tolist() == [1, 3, 5, 7, 9]


async def test_rows_that_are_not_kept() -> None:
    graph = fe.Graph()
    number = numbers(graph, 4)
    rows = graph.ops.Add(number, graph.constant([0, 10, 20]))
    keep = graph.constant([True, False, True])
    (batch,) = fe.train.batch([rows], 2, enqueue_many=True, keep_input=keep, capacity=6)
    assert np.concatenate(await drained(graph, batch)).tolist() == [0, 20, 1, 21, 2, 22, 3, 23]


async def test_several_sources_are_joined() -> None:
    graph = fe.Graph()
    sources = [[numbers(graph, 6, name="low")], [graph.ops.Add(numbers(graph, 6, name="high"), 100)]]
    (batch,) = fe.train.batch_join(sources, 3, allow_smaller_final_batch=True)
    together = np.concatenate(await drained(graph, batch)).tolist()
    assert sorted(together) == [*range(6), *range(100, 106)]
    assert [n for n in together if n < 100] == list(range(6))


@given(
    count=st.integers(1, 40),
    size=st.integers(1, 7),
    least=st.integers(0, 9),
    rows=st.integers(1, 5),
)
def test_shuffled_batches_are_a_permutation(count: int, size: int, least: int, rows: int) -> None:
    graph = fe.Graph()
    number = numbers(graph, count)
    block = graph.ops.Add(graph.ops.Mul(number, rows), graph.constant(list(range(rows))))
    (batch,) = fe.train.shuffle_batch(
        [block],
        size,
        capacity=least + 12,
        min_after_dequeue=least,
        enqueue_many=True,
        allow_smaller_final_batch=True,
    )
    batches = run(lambda: drained(graph, batch))
    assert sorted(np.concatenate(batches).tolist()) == list(range(count * rows))
    assert all(len(each) == size for each in batches[:-1])


def run(function: Callable[[], Awaitable[Any]]) -> Any:
    import trio

    return trio.run(function, clock=MockClock(autojump_threshold=0))


async def test_shuffling_mixes_and_is_repeatable_from_a_seed() -> None:
    async def order() -> list[int]:
        graph = fe.Graph()
        (batch,) = fe.train.shuffle_batch(
            [numbers(graph, 60)], 10, capacity=40, min_after_dequeue=30, seed=3, num_threads=1
        )
        return [int(n) for n in np.concatenate(await drained(graph, batch))]

    first = await order()
    assert first != sorted(first)
    assert sorted(first) == list(range(60))


async def test_several_sources_are_joined_and_shuffled() -> None:
    graph = fe.Graph()
    sources = [{"n": numbers(graph, 10, name="a")}, {"n": numbers(graph, 10, name="b")}]
    batch = fe.train.shuffle_batch_join(sources, 5, capacity=12, min_after_dequeue=4)
    together = np.concatenate([each["n"] for each in await drained(graph, batch)]).tolist()
    assert Counter(together) == Counter([*range(10), *range(10)])


async def test_buckets_hold_what_is_alike() -> None:
    graph = fe.Graph()
    number = numbers(graph, 20)
    which, (batch,) = fe.train.bucket(
        [number], graph.ops.FloorMod(number, 3), [2, 3, 4], 3, allow_smaller_final_batch=True
    )
    results = await drained(graph, [which, batch])
    assert sorted(n for _, each in results for n in each.tolist()) == list(range(20))
    for bucket, each in results:
        assert set(each % 3) == {bucket}
        assert len(each) <= (2, 3, 4)[bucket]


async def test_bucketing_by_length_pads_within_a_bucket_only() -> None:
    graph = fe.Graph()
    number = numbers(graph, 12)
    row = graph.ops.Fill(graph.ops.ExpandDims(number, 0), number)
    lengths, batch = fe.train.bucket_by_sequence_length(
        number,
        {"row": row},
        3,
        [4, 8],
        shapes=[[None]],
        dynamic_pad=True,
        allow_smaller_final_batch=True,
    )
    seen = []
    for length, rows in await drained(graph, [lengths, batch["row"]]):
        assert rows.shape == (len(length), max(length))
        assert len({int(np.digitize(n, [4, 8])) for n in length}) == 1
        for n, padded in zip(length, rows, strict=True):
            assert padded.tolist() == [n] * n + [0] * (max(length) - n)
        seen += length.tolist()
    assert sorted(seen) == list(range(12))


async def test_buckets_whose_rest_is_dropped_end_too() -> None:
    graph = fe.Graph()
    number = numbers(graph, 10)
    which, (batch,) = fe.train.bucket([number], graph.ops.FloorMod(number, 2), 4, 2)
    assert sorted(int(which) for which, _ in await drained(graph, [which, batch])) == [0, 1]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda g: fe.train.string_input_producer(g, []), "at least one string"),
        (lambda g: fe.train.range_input_producer(g, 3, num_epochs=0), "num_epochs must be positive"),
        (lambda g: fe.train.input_producer(g, g.placeholder("float32", [None, None])), "element_shape"),
        (lambda g: fe.train.input_producer(g, g.constant(1.0)), "is a scalar"),
        (lambda g: fe.train.batch([], 2), "tensors is empty"),
        (lambda g: fe.train.batch([g.placeholder("float32")], 2), "give `shapes`"),
        (lambda g: fe.train.batch([g.placeholder("float32", [None])], 2), "complete shapes"),
        (
            lambda g: fe.train.shuffle_batch([g.constant(1)], 2, capacity=3, min_after_dequeue=3),
            "must be larger than min_after_dequeue",
        ),
        (lambda g: fe.train.batch_join([[g.constant(1)], [g.constant(1.0)]], 2), "differ in the types"),
        (lambda g: fe.train.batch_join([[g.constant(1)], {"a": g.constant(1)}], 2), "the examples differ"),
        (lambda g: fe.train.bucket([g.constant(1)], 0, [1, 2], 3), "2 entries for 3 buckets"),
        (
            lambda g: fe.train.bucket_by_sequence_length(g.constant(1), [g.constant(1)], 2, [5, 4]),
            "must be positive and increase",
        ),
        (
            lambda g: fe.train.bucket_by_sequence_length(g.constant(1), [g.constant(1)], 2, [0, 4]),
            "must be positive and increase",
        ),
    ],
)
def test_what_cannot_be_built(build: Callable[[fe.Graph], Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        build(fe.Graph())


async def test_the_end_of_the_input_is_an_error_outside_of_the_block() -> None:
    graph = fe.Graph()
    (batch,) = fe.train.batch([numbers(graph, 4)], 2)
    async with fe.Session(graph) as session:
        async with fe.train.QueueRunners(session):
            await session.run(batch)
            await session.run(batch)
        with pytest.raises(OutOfRangeError, match="closed and has insufficient elements"):
            await session.run(batch)


def test_what_a_dequeue_gives_is_a_tuple_of_components() -> None:
    graph = fe.Graph()
    queue = fe.train.slice_input_producer([graph.constant([1, 2]), graph.constant([3.0, 4.0])])
    assert [type(each) for each in (queue, queue[0])] == [list, fe.Tensor]
    pairs = fe.train.string_input_producer(graph, ["a", "b"])
    for components in (pairs.dequeue(), pairs.dequeue_many(2), pairs.dequeue_up_to(2)):
        assert isinstance(components, tuple)
        assert len(components) == 1
    with pytest.raises(InvalidArgumentError, match="at least one tensor"):
        fe.train.slice_input_producer([])
