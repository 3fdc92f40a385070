"""Iterators: what TensorFlow's give from step to step, where they stand, and when their tasks end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.core import dtypes
from flowengine.core.errors import (
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    OpError,
    OutOfRangeError,
)
from flowengine.resources.data.dataset import DataIterator, Iteration
from flowengine.resources.data.iterator import IteratorResource
from flowengine.resources.elements import HeldTensor
from tests.resources.data.states import state_read, state_written
from tests.resources.data.test_recorded_pipelines import CASES, elements_of, graph_of, shown

HERE = Path(__file__).parent
RECORDED = [json.loads(line) for line in (HERE / "iterators.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: str(case["name"]))
async def test_steps_give_what_they_gave_in_tensorflow(case: dict[str, Any]) -> None:
    async with fe.Session(graph_of(case)) as session:
        for fetches, targets, expected in case["steps"]:
            found: Any
            try:
                found = [shown(value) for value in await session.run(fetches, targets=targets)]
            except OpError as error:
                found = {"error": type(error).__name__}
            assert found == expected
        await session.reset([""])
        session.resources.clear(session._runner.owner)
        await session.resources.ended()
        assert session.resources.services.count == 0


#: They draw from a sequence of a function's, which is not part of where an iterator stands; or give variants
#: of ragged values.
UNSAVED = {"random_in_map", "random_in_inner_map", "rejection", "example_dataset_ragged"}


async def _rest(iterator: DataIterator, most: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < most:
        try:
            element = await iterator.next()
        except OpError as error:
            found.append(type(error).__name__)
            continue
        if element is None:
            break
        found.append([_tensors(value) for value in element])
    return found


def _tensors(value: Any) -> Any:
    """A value, or those that are held as variants."""
    held = [each for each in np.atleast_1d(np.asarray(value, object)).flat if isinstance(each, HeldTensor)]
    return [shown(each.value) for each in held] if held else shown(value)


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.values[0]["name"] not in UNSAVED],
)
async def test_an_iterator_goes_on_where_another_stood(case: dict[str, Any]) -> None:
    async with fe.Session(graph_of(case)) as session:
        await session.run([], targets=[case["init"]])
        (resource,) = session.resources.held(IteratorResource)
        dataset = resource.dataset
        assert dataset is not None
        first = Iteration(session.resources.services)
        iterator = dataset.iterator(first)
        _mark(resource, first)
        await _rest(iterator, 3)
        kept = state_read(state_written(await iterator.state()), dataset)
        expected = await _rest(iterator, 40)
        second = Iteration(session.resources.services)
        _mark(resource, second)
        other = dataset.iterator(second)
        await other.restore(kept)
        assert await _rest(other, 40) == expected
        for each in (first, second):
            each.tasks.cancel()
            await each.tasks.ended()


def _mark(resource: IteratorResource, iteration: Iteration) -> None:
    front = resource._front
    assert front is not None
    iteration.shuffles_through = front.iteration.shuffles_through


def _prefetching(graph: fe.Graph, buffer_size: int = 3) -> tuple[Any, Any]:
    """An iterator over numbers that are prefetched: (what begins it, the next element)."""
    ops = graph.ops
    kinds: dict[str, Any] = {"output_types": [dtypes.int64], "output_shapes": [[]]}
    numbers = ops.RangeDataset(*(np.int64(each) for each in (0, 100, 1)), **kinds)
    ahead = ops.PrefetchDataset(numbers, np.int64(buffer_size), **kinds)
    iterator = ops.IteratorV2(shared_name="it", container="", **kinds)
    (following,) = ops.IteratorGetNext(iterator, **kinds)
    return ops.MakeIterator(ahead, iterator, name="make"), following


async def test_nothing_starts_before_the_first_element_and_all_ends_with_the_session() -> None:
    graph = fe.Graph()
    make, following = _prefetching(graph)
    session = fe.Session(graph)
    await session.run([], targets=[make])
    services = session.resources.services
    assert services.count == 0
    assert await session.run(following) == 0
    await trio.testing.wait_all_tasks_blocked()
    assert services.count == 2  # what is asked, and what works ahead
    (iterator,) = session.resources.held(IteratorResource)
    assert iterator._front is not None
    ahead: Any = iterator._front.input
    assert [outcome.element for outcome in ahead.line] == [(1,), (2,), (3,)]  # and there it stands still
    await session.run([], targets=[make])
    assert services.count == 0  # before the step returned
    assert [await session.run(following) for _ in range(3)] == [0, 1, 2]
    await session.close()
    assert services.count == 0


async def test_reset_and_deletion_end_tasks_before_they_return() -> None:
    graph = fe.Graph()
    make, following = _prefetching(graph)
    async with fe.Session(graph) as session:
        await session.run([], targets=[make])
        await session.run(following)
        await session.reset([""])
        assert session.resources.services.count == 0


class _Slow(DataIterator):
    """Gives numbers, each when it is let."""

    def __init__(self, iteration: Iteration) -> None:
        super().__init__(iteration)
        self.number = 0
        self.gate = trio.Event()

    async def next(self) -> tuple[Any, ...] | None:
        await self.gate.wait()
        self.number += 1
        return (self.number,)


async def test_a_get_that_is_cancelled_leaves_its_element_at_the_front() -> None:
    graph = fe.Graph()
    make, _ = _prefetching(graph)
    async with fe.Session(graph) as session:
        await session.run([], targets=[make])
        (iterator,) = session.resources.held(IteratorResource)
        front: Any = iterator._front
        slow = front.input = _Slow(front.iteration)
        with trio.move_on_after(0):
            await iterator.get()
        async with trio.open_nursery() as nursery:
            scope = trio.CancelScope()

            async def get() -> None:
                with scope:
                    await iterator.get()

            nursery.start_soon(get)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
        slow.gate.set()
        assert await iterator.get() == (1,)
        assert await iterator.get() == (2,)


async def test_who_waits_for_an_element_hears_that_the_iterator_was_ended() -> None:
    graph = fe.Graph()
    make, _ = _prefetching(graph)
    async with fe.Session(graph) as session:
        await session.run([], targets=[make])
        (iterator,) = session.resources.held(IteratorResource)
        front: Any = iterator._front
        front.input = _Slow(front.iteration)
        async with trio.open_nursery() as nursery:

            async def get() -> None:
                with pytest.raises(CancelledError):
                    await iterator.get()

            nursery.start_soon(get)
            await trio.testing.wait_all_tasks_blocked()
            await iterator.end()


async def test_where_an_iterator_stands_is_kept_in_a_checkpoint(tmp_path: Path) -> None:
    graph = fe.Graph()
    make, following = _prefetching(graph)
    ops = graph.ops
    handle = graph.operation("IteratorV2").outputs[0]
    prefix = str(tmp_path / "state")
    state = ops.SerializeIterator(handle)
    save = ops.SaveV2(prefix, [b"iterator"], [b""], [state], name="save")
    read = ops.RestoreV2(prefix, [b"iterator"], [b""], dtypes=[dtypes.variant])
    back = ops.DeserializeIterator(handle, read[0], name="back")
    async with fe.Session(graph) as session:
        await session.run([], targets=[make])
        assert [await session.run(following) for _ in range(4)] == [0, 1, 2, 3]
        await session.run([], targets=[save])
        assert await session.run(following) == 4
        await session.run([], targets=[back])
        assert await session.run(following) == 4
    async with fe.Session(graph) as session:  # which has never seen the dataset
        await session.run([], targets=[back])
        assert [await session.run(following) for _ in range(3)] == [4, 5, 6]
        rest = [await session.run(following) for _ in range(93)]
        assert rest[-1] == 99
        with pytest.raises(OutOfRangeError):
            await session.run(following)


async def test_pipelines_of_one_session_do_not_wait_for_each_other() -> None:
    case: Any = next(case.values[0] for case in CASES if case.values[0]["name"] == "deep")
    async with fe.Session(graph_of(case)) as one, fe.Session(graph_of(case)) as two:
        found: list[Any] = []

        async def run(session: fe.Session) -> None:
            found.append(await elements_of(session, case))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, one)
            nursery.start_soon(run, two)
        assert found == [case["elements"]] * 2


async def test_an_element_by_its_number() -> None:
    """As TensorFlow 2.21 gives it, but that a filtered dataset can be asked, too."""
    graph = fe.Graph()
    ops = graph.ops
    kinds: dict[str, Any] = {"output_types": ["int64"], "output_shapes": [[]]}
    numbers = ops.RangeDataset(*map(np.int64, (0, 3000, 1)), **kinds)
    endless = ops.RepeatDataset(numbers, np.int64(-1), **kinds)
    twice = ops.RepeatDataset(numbers, np.int64(2), **kinds)

    @fe.function(graph, ["int64"])
    def is_large(number: Any) -> Any:
        return number > np.int64(2900)

    some = ops.FilterDataset(numbers, [], predicate=is_large.attr, **kinds)
    index = graph.placeholder("int64", [], name="index")
    found = [ops.GetElementAtIndex(each, index, **kinds)[0] for each in (numbers, twice, some, endless)]
    async with fe.Session(graph) as session:
        for number in (0, 1023, 1024, 2999):
            assert await session.run(found[0], {index: number}) == number
        assert await session.run(found[1], {index: 4001}) == 1001
        assert await session.run(found[2], {index: 98}) == 2999
        for which, number, end in ((0, 3000, 3000), (0, -1, 3000), (2, 99, 99)):
            with pytest.raises(OutOfRangeError, match=rf"Index out of range \[0, {end}\): {number}"):
                await session.run(found[which], {index: number})
        with pytest.raises(FailedPreconditionError, match="no end"):
            await session.run(found[3], {index: 0})


@pytest.mark.parametrize("op", ["IteratorGetNext", "IteratorGetNextSync", "IteratorGetNextAsOptional"])
@pytest.mark.parametrize(
    ("types", "shapes", "words"),
    [
        (["int64", "float32"], [[], [2]], ""),
        (["int64", "float32"], [[], [None]], ""),
        (["int64", "float32"], [None, None], ""),
        (["int64"], [[]], "expected 1 types but got 2"),
        (["int64", "float32", "float32"], [[], [2], []], "expected 3 types but got 2"),
        (["int32", "float32"], [[], [2]], "component 0: expected int32 but got int64"),
        (["int64", "float32"], [[], [3]], r"component 1: expected \[3\] but got \[2\]"),
        (["int64", "float32"], [[1], [None]], r"component 0: expected \[1\] but got \[\]"),
    ],
)
@pytest.mark.parametrize("known", [True, False])
async def test_what_is_asked_for_is_what_there_is(
    op: str, types: Any, shapes: Any, words: str, known: bool
) -> None:
    """As in TensorFlow 2.21, where 1.15 ends the process. Whether the dataset says its shapes or not."""
    graph = fe.Graph()
    ops = graph.ops
    said: Any = [[], [2]] if known else [None, None]
    rows = (np.arange(3), np.zeros((3, 2), np.float32))
    dataset = ops.TensorSliceDataset(list(rows), output_shapes=said)
    iterator = ops.IteratorV2(
        shared_name="it", container="", output_types=["int64", "float32"], output_shapes=said
    )
    make = ops.MakeIterator(dataset, iterator)
    found = getattr(ops, op)(iterator, output_types=types, output_shapes=shapes)
    async with fe.Session(graph) as session:
        await session.run([], targets=[make])
        if words:
            with pytest.raises(InvalidArgumentError, match=words):
                await session.run(found)
            return
        for _ in range(3):
            await session.run(found)


async def test_groups_that_are_left_come_by_their_keys() -> None:
    """Those whose window is full come first, as they get full; the others in rising order of their keys."""
    graph = fe.Graph()
    kinds: dict[str, Any] = {"output_types": ["int64"], "output_shapes": [[]]}

    @fe.function(graph, ["int64"])
    def key(number: Any) -> Any:
        return number.graph.ops.FloorDiv(number, np.int64(10))

    @fe.function(graph, ["int64"])
    def size(_: Any) -> Any:
        return np.int64(2)

    @fe.function(graph, ["int64", "variant"])
    def reduce(_: Any, window: Any) -> Any:
        return window

    numbers = graph.ops.TensorSliceDataset(
        [np.array([30, -10, 31, 20, 0, 32, -20, 1])], Toutput_types=["int64"], output_shapes=[[]]
    )
    groups = graph.ops.GroupByWindowDataset(
        numbers,
        [],
        [],
        [],
        key_func=key.attr,
        reduce_func=reduce.attr,
        window_size_func=size.attr,
        **kinds,
    )
    iterator = graph.ops.IteratorV2(shared_name="it", container="", **kinds)
    make = graph.ops.MakeIterator(groups, iterator)
    following = graph.ops.IteratorGetNext(iterator, **kinds)[0]
    async with fe.Session(graph) as session:
        await session.run([], targets=[make])
        assert [int(await session.run(following)) for _ in range(8)] == [30, 31, 0, 1, -20, -10, 20, 32]
        with pytest.raises(OutOfRangeError):
            await session.run(following)
