"""Expectations of elements, of sparse tensors and of functions that make datasets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

from flowengine.core import dtypes
from flowengine.core.errors import (
    CancelledError,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
)
from flowengine.core.shapes import SCALAR, TensorShape
from flowengine.resources.container import ResourceManager
from flowengine.resources.data.batches import BatchDataset
from flowengine.resources.data.choosing import (
    AssertCardinalityDataset,
    DirectedInterleaveDataset,
    SamplingDataset,
    UniqueDataset,
    WeightedFlatMapDataset,
)
from flowengine.resources.data.dataset import (
    INFINITE,
    UNKNOWN,
    DataIterator,
    DatasetValue,
    Iteration,
    Origin,
)
from flowengine.resources.data.iterator import IteratorResource
from flowengine.resources.data.one_shot import OneShot
from flowengine.resources.data.ordering import (
    ConcatenateDataset,
    RepeatDataset,
    SkipDataset,
    TakeDataset,
    ZipDataset,
)
from flowengine.resources.data.selecting import ShardDataset
from flowengine.resources.data.shuffling import ShuffleAndRepeatDataset
from flowengine.resources.data.sources import ListDataset, SparseTensorSliceDataset
from flowengine.resources.data.windows import SlidingWindowDataset
from flowengine.resources.elements import Element
from flowengine.resources.services import Services
from tests.resources.data.test_closing import Watched, iteration, origin


class _Faulty(Watched):
    """Numbers from 0, some of which have an error in their place."""

    def __init__(self, count: int, *wrong: int) -> None:
        super().__init__(count)
        self.wrong = wrong

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _FaultyIterator(iteration, self)


class _FaultyIterator(DataIterator):
    def __init__(self, iteration: Iteration, made: _Faulty) -> None:
        super().__init__(iteration)
        self.made = made
        self.place = 0

    async def next(self) -> Element | None:
        if self.place == self.made.count:
            return None
        self.place += 1
        if self.place - 1 in self.made.wrong:
            raise InvalidArgumentError(f"{self.place - 1} is wrong")
        return (np.int64(self.place - 1),)


async def _given(made: DatasetValue, most: int) -> list[Any]:
    """Return the results of so many calls, and of none after the end; None stands for an error."""
    found: list[Any] = []
    async with iteration() as run:
        asked = made.iterator(run)
        for _ in range(most):
            try:
                element = await asked.next()
            except InvalidArgumentError:
                found.append(None)
                continue
            if element is None:
                found.append("end")
                break
            value: Any = element[0]
            found.append(value.tolist())
    return found


def _batches(made: DatasetValue, size: int) -> DatasetValue:
    return BatchDataset(origin(), made, np.int64(size), False)


@pytest.mark.parametrize("through", ["itself", "repeated", "taken"])
async def test_elements_that_an_error_takes_along_count_among_the_first(through: str) -> None:
    """A batch that fails is gone with those before its error, and they were some of those to be taken."""
    made: DatasetValue = _Faulty(12, 2)
    if through == "repeated":
        made = RepeatDataset(origin(), made, np.int64(2))
    elif through == "taken":
        made = TakeDataset(origin(), made, np.int64(-1))
    first = TakeDataset(origin(), made, np.int64(5))
    assert await _given(first, 9) == [0, 1, None, 3, 4, 5, "end"]
    assert await _given(_batches(first, 3), 9) == [None, [3, 4, 5], "end"]
    assert await _given(_batches(first, 2), 9) == [[0, 1], None, [3, 4], [5], "end"]


async def test_an_epoch_that_begins_with_an_error_is_not_empty() -> None:
    """Only an empty dataset ends that is repeated for ever."""
    for_ever = np.int64(-1)
    assert await _given(RepeatDataset(origin(), _Faulty(1, 0), for_ever), 3) == [None] * 3
    assert await _given(RepeatDataset(origin(), _Faulty(2, 1), for_ever), 5) == [0, None, 0, None, 0]
    assert await _given(_batches(RepeatDataset(origin(), _Faulty(2, 1), for_ever), 2), 3) == [None] * 3
    assert await _given(_batches(RepeatDataset(origin(), _Faulty(0), for_ever), 2), 3) == ["end"]
    # The batch that finds the end of an epoch is not the one that began it.
    assert await _given(_batches(RepeatDataset(origin(), _Faulty(2), for_ever), 2), 3) == [[0, 1]] * 3


@pytest.mark.parametrize(
    ("expected", "given", "words"),
    [
        (3, 3, ""),
        (0, 0, ""),
        (UNKNOWN, 3, ""),
        (3, 2, "contain 3 elements but contained 2"),
        (3, 0, "contain 3 elements but contained 0"),
        (3, 3, "contain 3 elements but contained at least 4"),
        (0, 0, "contain 0 elements but contained at least 1"),
        (INFINITE, 3, "an infinite number of elements but contained 3"),
    ],
)
async def test_a_dataset_has_as_many_elements_as_is_said(expected: int, given: int, words: str) -> None:
    count = given + ("at least" in words)
    made = AssertCardinalityDataset(origin(), Watched(count), np.int64(expected))
    assert made.cardinality() == expected
    found: list[int] = []
    error = ""
    async with iteration() as run:
        steps = made.iterator(run)
        try:
            while (element := await steps.next()) is not None:
                found.append(int(np.asarray(element[0])))
        except FailedPreconditionError as failure:
            error = str(failure)
    assert found == list(range(given))
    assert words in error
    assert bool(words) == bool(error)


def _sliced(indices: Any, values: Any, shape: Any) -> SparseTensorSliceDataset:
    node = Origin("Test", {"Tvalues": dtypes.float32}, ())
    return SparseTensorSliceDataset(
        node, np.array(indices, np.int64), np.array(values, np.float32), np.array(shape, np.int64)
    )


async def test_a_sparse_tensor_is_cut_into_its_rows() -> None:
    made = _sliced([[0, 1], [2, 0], [2, 3]], [5, 6, 7], [4, 4])
    assert made.cardinality() == 4
    found: list[Any] = []
    async with iteration() as run:
        steps = made.iterator(run)
        while (element := await steps.next()) is not None:
            found.append([np.asarray(each).tolist() for each in element])
    assert found == [[[[1]], [5], [4]], [[], [], [4]], [[[0], [3]], [6, 7], [4]], [[], [], [4]]]


@pytest.mark.parametrize(
    ("indices", "values", "shape", "words"),
    [
        ([0], [1], [3], "a matrix of indices"),
        ([[0]], [[1]], [3], "vectors of values"),
        ([[0]], [1], 3, "of its shape"),
        ([[0, 1]], [1], [3], "do not fit 1 values of rank 1"),
        ([[0], [1]], [1], [3], "do not fit 1 values of rank 1"),
        (np.empty((1, 0)), [1], [], "of rank 0"),
        ([[1], [0]], [1, 2], [3], "not in order"),
        ([[-1]], [1], [3], "between 0 and 2"),
        ([[0], [3]], [1, 2], [3], "between 0 and 2"),
    ],
)
def test_sparse_tensors_that_cannot_be_cut_are_refused(
    indices: Any, values: Any, shape: Any, words: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        _sliced(indices, values, shape)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ([SCALAR, TensorShape([2])], ""),
        ([SCALAR], "expected 1 types but got 2"),
        ([SCALAR, TensorShape([2]), SCALAR], "expected 3 types but got 2"),
        ([SCALAR, TensorShape([3])], "component 1"),
    ],
)
def test_elements_of_which_nothing_is_said_are_looked_at(shapes: list[TensorShape], words: str) -> None:
    iterator = IteratorResource(Services(), (), ())
    element = (np.int64(1), np.zeros(2))
    types = [dtypes.int64, dtypes.float64, dtypes.float64][: len(shapes)]
    if not words:
        assert iterator.checked(element, types, shapes) is element
        return
    with pytest.raises(InvalidArgumentError, match=words):
        iterator.checked(element, types, shapes)


class Factory:
    """A function that raises the errors first, one a call, then returns the results, and counts its calls."""

    def __init__(self, results: tuple[Any, ...], errors: Sequence[Exception] = ()) -> None:
        self.results = results
        self.errors = list(errors)
        self.calls = 0

    async def __call__(self, arguments: Any, resources: Any) -> tuple[Any, ...]:
        self.calls += 1
        await trio.lowlevel.checkpoint()
        if self.errors:
            raise self.errors.pop(0)
        return self.results


def _boxed(value: Any) -> Any:
    box = np.empty((), object)
    box[()] = value
    return box


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ((), "a single dataset, not 0 values"),
        ((_boxed(Watched(1)), _boxed(Watched(1))), "a single dataset, not 2 values"),
        ((np.int64(1),), "what `dataset_factory` returns"),
    ],
)
async def test_what_is_wrong_with_a_factory_is_told_to_all_who_ask(
    results: tuple[Any, ...], words: str
) -> None:
    resources = ResourceManager()
    resources.bind_to_current_run()
    factory: Any = Factory(results)
    made = OneShot(IteratorResource(resources.services, [dtypes.int64], [SCALAR]), factory)
    told: list[str] = []

    async def ask() -> None:
        with pytest.raises(InvalidArgumentError) as caught:
            await made.iterator()
        told.append(str(caught.value))

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(ask)
    await ask()
    assert len(told) == 4
    assert all(words in each for each in told)
    resources.close()
    await resources.ended()


async def test_what_happened_to_one_step_is_not_told_to_the_next() -> None:
    """A session that closes, or a deadline, while the dataset is made says nothing of the dataset."""
    resources = ResourceManager()
    resources.bind_to_current_run()
    passing = [CancelledError("the session was closed"), DeadlineExceededError("after 0.1 s")]
    factory: Any = Factory((_boxed(Watched(1)),), passing)
    made = OneShot(IteratorResource(resources.services, [dtypes.int64], [SCALAR]), factory)
    for each in passing:
        with pytest.raises(type(each)):
            await made.iterator()
    assert await made.iterator() is await made.iterator() is made.resource
    assert factory.calls == 3, "what is made is not made again"
    resources.close()
    await resources.ended()


def _numbers(*numbers: int) -> ListDataset:
    return ListDataset(origin(), tuple(map(np.int64, numbers)))


def _drawn() -> DatasetValue:
    return SamplingDataset(origin(), _numbers(*range(40)), np.float32(0.5), np.int64(3), np.int64(4))


def _windows(size: int, shift: int, stride: int, *, drops: bool = True) -> DatasetValue:
    made = origin(drop_remainder=drops)
    return SlidingWindowDataset(made, _numbers(*range(5)), *map(np.int64, (size, shift, stride)))


def _weighted() -> DatasetValue:
    sources = (_numbers(1, 2, 3), _numbers(10, 20, 30, 40), _numbers(100))
    return WeightedFlatMapDataset(origin(), sources, (np.float64(1), np.float64(2), np.float64(1)))


def _directed() -> DatasetValue:
    return DirectedInterleaveDataset(
        origin(), _numbers(0, 1, 0, 0, 1, 1), (_numbers(1, 2), _numbers(10, 20, 30))
    )


def _shuffled() -> DatasetValue:
    of = origin(reshuffle_each_iteration=True)
    return ShuffleAndRepeatDataset(of, _numbers(*range(5)), *map(np.int64, (3, 7, 8, 3)))


@pytest.mark.parametrize(
    "made",
    [
        _drawn,
        lambda: _windows(2, 1, 2),
        lambda: _windows(2, 3, 1),
        _weighted,
        _directed,
        _shuffled,
        lambda: UniqueDataset(origin(), _numbers(1, 2, 1, 3, 2, 4)),
        lambda: ZipDataset(origin(), (_numbers(1, 2, 3), _numbers(4, 5))),
        lambda: ConcatenateDataset(origin(), _numbers(1, 2), _numbers(3, 4, 5)),
    ],
    ids=["sample", "windows", "apart", "weighted", "directed", "shuffled", "unique", "zip", "concatenate"],
)
async def test_what_is_said_of_a_place_stays_what_it_was(made: Callable[[], DatasetValue]) -> None:
    """Though its iterator goes on, and others go on from there, more than one."""
    whole = await _given(made(), 60)
    assert whole[-1] == "end"
    async with iteration() as run:
        for place in range(len(whole)):
            asked = made().iterator(run)
            for _ in range(place):
                await asked.next()
            state = await asked.state()
            while await asked.next() is not None:
                pass
            for _ in range(2):
                other = made().iterator(run)
                await other.restore(state)
                rest: list[Any] = []
                while (element := await other.next()) is not None:
                    value: Any = element[0]
                    rest.append(value.tolist())
                assert rest == whole[place:-1]


@pytest.mark.parametrize(
    ("size", "shift", "stride", "drops", "windows"),
    [
        (2, 1, 3, True, [[0, 3], [1, 4]]),  # one of 2 and 4 has a place, and that beyond the end
        (2, 1, 3, False, [[0, 3], [1, 4], [2], [3], [4]]),
        (2, 4, 1, True, [[0, 1]]),
        (2, 4, 1, False, [[0, 1], [4]]),
        (3, 2, 1, True, [[0, 1, 2], [2, 3, 4]]),
        (6, 1, 1, True, []),
    ],
)
async def test_windows_that_reach_beyond_the_end(
    size: int, shift: int, stride: int, drops: bool, windows: list[Any]
) -> None:
    assert await _given(_windows(size, shift, stride, drops=drops), 9) == [*windows, "end"]


async def test_elements_of_another_shape_are_others() -> None:
    one = np.array(1)
    elements = (one, one.reshape(1), one, one.reshape(1, 1), np.array([1, 1]), one.reshape(1))
    made = UniqueDataset(origin(), ListDataset(origin(), elements))
    assert await _given(made, 9) == [1, [1], [[1]], [1, 1], "end"]


@pytest.mark.parametrize(
    ("count", "index", "fits"), [(3, 2, True), (2, 0, False), (2, 2, False), (0, 0, False)]
)
async def test_no_shard_may_be_empty_where_that_is_asked_for(count: int, index: int, fits: bool) -> None:
    """Each shard finds out by itself: also one that has an element says that another has none."""
    made = ShardDataset(origin(require_non_empty=True), Watched(count), np.int64(3), np.int64(index))
    found = await _given(made, 3)
    assert found == ([index, "end"] if fits else [*range(index, count, 3), None, "end"])


def _of(count: int) -> DatasetValue:
    return Watched(count)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda: TakeDataset(origin(), _of(10), np.int64(3)), 3),
        (lambda: TakeDataset(origin(), _of(2), np.int64(3)), 2),
        (lambda: TakeDataset(origin(), _of(INFINITE), np.int64(3)), 3),
        (lambda: TakeDataset(origin(), _of(UNKNOWN), np.int64(3)), UNKNOWN),
        (lambda: TakeDataset(origin(), _of(UNKNOWN), np.int64(0)), 0),
        (lambda: TakeDataset(origin(), _of(INFINITE), np.int64(-1)), INFINITE),
        (lambda: SkipDataset(origin(), _of(10), np.int64(3)), 7),
        (lambda: SkipDataset(origin(), _of(2), np.int64(3)), 0),
        (lambda: SkipDataset(origin(), _of(INFINITE), np.int64(3)), INFINITE),
        (lambda: SkipDataset(origin(), _of(INFINITE), np.int64(-1)), 0),
        (lambda: RepeatDataset(origin(), _of(0), np.int64(-1)), 0),
        (lambda: RepeatDataset(origin(), _of(UNKNOWN), np.int64(-1)), UNKNOWN),
        (lambda: RepeatDataset(origin(), _of(INFINITE), np.int64(0)), 0),
        (lambda: RepeatDataset(origin(), _of(3), np.int64(-1)), INFINITE),
        (lambda: RepeatDataset(origin(), _of(3), np.int64(4)), 12),
        (lambda: ConcatenateDataset(origin(), _of(UNKNOWN), _of(INFINITE)), INFINITE),
        (lambda: ConcatenateDataset(origin(), _of(UNKNOWN), _of(3)), UNKNOWN),
        (lambda: ZipDataset(origin(), (_of(INFINITE), _of(3), _of(5))), 3),
        (lambda: ZipDataset(origin(), (_of(INFINITE), _of(INFINITE))), INFINITE),
        (lambda: ZipDataset(origin(), (_of(0), _of(UNKNOWN))), UNKNOWN),
        (lambda: ShardDataset(origin(), _of(10), np.int64(4), np.int64(1)), 3),
        (lambda: ShardDataset(origin(), _of(10), np.int64(4), np.int64(2)), 2),
        (lambda: _batches(_of(10), 4), 3),
        (lambda: BatchDataset(origin(), _of(10), np.int64(4), True), 2),
        (lambda: _batches(_of(INFINITE), 4), INFINITE),
    ],
)
def test_how_many_elements_there_will_be(made: Callable[[], DatasetValue], expected: int) -> None:
    assert made().cardinality() == expected
