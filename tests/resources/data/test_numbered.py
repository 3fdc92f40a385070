"""Elements by number: those of a run, found without the ones before; and datasets that ask for them so."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core import abandonment
from flowengine.core.errors import (
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    OpError,
    OutOfRangeError,
)
from flowengine.resources.data.by_number.order import shuffled_index
from flowengine.resources.data.by_number.shuffled import GlobalShuffleDataset
from flowengine.resources.data.dataset import DatasetValue, Iteration
from flowengine.resources.data.iterator import IteratorResource
from tests.resources.data.test_recorded_pipelines import CASES, graph_of, shown

KINDS: dict[str, Any] = {"output_types": ["int64"], "output_shapes": [[]]}


@example(greatest=2**16, seed=(1, 2, 3))
@given(greatest=st.integers(0, 3000), seed=st.tuples(*[st.integers(0, 2**32 - 1)] * 3))
def test_an_order_has_each_index_once(greatest: int, seed: tuple[int, ...]) -> None:
    found = [shuffled_index(index, seed, greatest, 8) for index in range(greatest + 1)]
    assert sorted(found) == list(range(greatest + 1))


@pytest.mark.parametrize("bits", [16, 18, 24, 40, 60, 62])
@pytest.mark.parametrize("more", [-1, 0, 1, 3])
def test_orders_of_about_a_power_of_two(bits: int, more: int) -> None:
    """An index of 2**bits is one more than the cipher has numbers: it keeps its place, as in TensorFlow."""
    greatest = 2**bits + more
    indices = [0, 1, 2**bits - 2, 2**bits - 1, *range(2**bits, greatest + 1)]
    found = [shuffled_index(index, (1, 2, 3), greatest, 4) for index in indices if index <= greatest]
    assert len(set(found)) == len(found)
    assert 0 <= min(found) <= max(found) <= greatest
    if not more:
        assert found[-1] == greatest


@given(greatest=st.integers(2**17, 2**64 - 1), seed=st.tuples(*[st.integers(0, 2**32 - 1)] * 3))
def test_places_in_a_long_order_are_inside_and_differ(greatest: int, seed: tuple[int, ...]) -> None:
    indices = [*range(20), greatest - 1, greatest]
    found = [shuffled_index(index, seed, greatest, 4) for index in indices]
    assert len(set(found)) == len(indices)
    assert 0 <= min(found) <= max(found) <= greatest


class _GivenUp:
    is_given_up = True


@pytest.mark.parametrize("greatest", [5, 2**20])
def test_nobody_goes_through_many_rounds_for_a_step_that_is_over(greatest: int) -> None:
    abandonment.begin(_GivenUp())
    try:
        with pytest.raises(CancelledError):
            shuffled_index(1, (1, 2, 3), greatest, 2**31)
    finally:
        abandonment.begin(None)


#: Their functions number rows that are not there, or others than those that come.
NUMBERED_OTHERWISE = {"flattened_few", "flattened_gaps", "flattened_scalars"}


def _is_shuffled(made: DatasetValue) -> bool:
    return isinstance(made, GlobalShuffleDataset) or any(map(_is_shuffled, made.sources()))


@pytest.mark.parametrize("case", CASES)
async def test_an_element_is_that_of_a_run(case: dict[str, Any]) -> None:
    """Of whatever can be asked for by number; of what is shuffled globally, all come once."""
    async with fe.Session(graph_of(case)) as session:
        await session.run([], targets=[case["init"]])
        (resource,) = session.resources.held(IteratorResource)
        made = resource.dataset
        assert made is not None
        count = made.cardinality()
        if made.unnumbered() is not None or count < 0 or case["name"] in NUMBERED_OTHERWISE:
            return
        iteration = Iteration(session.resources.services)
        found: list[Any] = []
        for number in range(min(count, 60)):
            try:
                found.append([shown(value) for value in await made.element_at(iteration, number)])
            except OpError as error:
                found.append({"error": type(error).__name__})
        with pytest.raises(OutOfRangeError):
            await made.element_at(iteration, count)
    given = [each for each in case["elements"] if each != {"error": "OutOfRangeError"}]
    if not _is_shuffled(made):
        assert found == given
    elif count <= 60 and "repeat" not in case["name"]:
        assert Counter(map(str, found)) == Counter(map(str, given))


def test_enough_pipelines_can_be_asked_for_elements_by_number() -> None:
    kinds = [case.values[0]["name"] for case in CASES]
    assert sum(name.startswith(("shuffled", "flattened")) for name in kinds) >= 25


def _element(graph: fe.Graph, dataset: fe.Tensor) -> tuple[Any, Any]:
    """(what begins an iterator over a dataset, its next element)."""
    ops = graph.ops
    handle = ops.IteratorV2(container="", shared_name="it", **KINDS)
    return ops.MakeIterator(dataset, handle), ops.IteratorGetNext(handle, **KINDS)[0]


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        ("filter", FailedPreconditionError, "FilterDataset does not have"),
        ("rest", FailedPreconditionError, "BatchDatasetV2 does not have"),
        ("padded", FailedPreconditionError, "PaddedBatchDatasetV2 does not have"),
        ("shuffle", FailedPreconditionError, "ShuffleDataset does not have"),
        ("repeat", FailedPreconditionError, "RepeatDataset does not have"),
        ("nothing", InvalidArgumentError, "cardinality 0"),
        ("unknown", InvalidArgumentError, "cardinality -2"),
    ],
)
async def test_what_cannot_be_shuffled_globally(kind: str, error: type[OpError], words: str) -> None:
    """Each as TensorFlow 2.21 refuses it."""
    graph = fe.Graph()
    ops = graph.ops

    @fe.function(graph, ["int64"])
    def is_large(number: Any) -> Any:
        return number > np.int64(3)

    numbers = ops.RangeDataset(*map(np.int64, (0, 0 if kind == "nothing" else 10, 1)), **KINDS)
    dataset = {
        "filter": lambda: ops.FilterDataset(numbers, [], predicate=is_large.attr, **KINDS),
        "rest": lambda: ops.BatchDatasetV2(numbers, np.int64(3), False, **KINDS),
        "padded": lambda: ops.PaddedBatchDatasetV2(
            numbers, np.int64(2), [np.zeros(0, np.int64)], [np.int64(0)], True, output_shapes=[[]]
        ),
        "shuffle": lambda: ops.ShuffleDataset(numbers, np.int64(3), np.int64(1), np.int64(2), **KINDS),
        "repeat": lambda: ops.RepeatDataset(numbers, np.int64(-1), **KINDS),
        "nothing": lambda: numbers,
        "unknown": lambda: ops.MapDataset(numbers, [], f=is_large.attr, **KINDS),
    }[kind]()
    seeds = ops.DummySeedGenerator()
    made = ops.GlobalShuffleDataset(dataset, np.int64(1), np.int64(2), seeds, **KINDS)
    make, _ = _element(graph, made)
    async with fe.Session(graph) as session:
        with pytest.raises(error, match=words):
            await session.run([], targets=[make])


def _rows(graph: fe.Graph, map_func: Any, index_map_func: Any) -> fe.Tensor:
    """Rows that `map_func` makes of the numbers from 0 to 3."""
    numbers = graph.ops.RangeDataset(*map(np.int64, (0, 4, 1)), **KINDS)
    dataset: fe.Tensor = graph.ops.IndexFlatMapDataset(
        numbers,
        [],
        [],
        np.int64(-2),
        map_func=fe.function(graph, ["int64"])(map_func).attr,
        index_map_func=fe.function(graph, ["int64"])(index_map_func).attr,
        **KINDS,
    )
    return dataset


def _three(number: Any) -> Any:
    return number.graph.ops.Fill([3], number)


@pytest.mark.parametrize(
    ("located", "words"),
    [
        (lambda i: [i, i, i], r"two int32/int64 values.*Got: int64\[\], int64\[\], int64\[\]"),
        (lambda i: [i.graph.ops.Cast(i, DstT="float32"), i], r"Got: float32\[\], int64\[\]"),
        (lambda i: [i, i + 3], "offset 3, but the element that `map_func` made has 3 rows"),
        (lambda i: [i - 1, i], "gave (the )?element -1"),
    ],
)
async def test_a_function_that_numbers_no_row(located: Any, words: str) -> None:
    graph = fe.Graph()
    make, following = _element(graph, _rows(graph, _three, located))
    async with fe.Session(graph) as session:
        await session.run([], targets=[make])
        with pytest.raises(InvalidArgumentError, match=words):
            await session.run(following)


async def test_rows_of_an_element_that_failed_go_with_it() -> None:
    graph = fe.Graph()

    def rows(number: Any) -> Any:
        ops = number.graph.ops
        return ops.CheckNumerics(
            ops.Fill([3], ops.Div(number.graph.constant(1.0), ops.Cast(number - 1, DstT="float32"))),
            message="one",
        )

    def cast(number: Any) -> Any:
        return number.graph.ops.Cast(rows(number) * 6, DstT="int64")

    make, following = _element(graph, _rows(graph, cast, lambda i: [i // 3, i % 3]))
    async with fe.Session(graph) as session:
        await session.run([], targets=[make])
        found: list[Any] = []
        while "end" not in found:
            try:
                found.append(int(await session.run(following)))
            except InvalidArgumentError:
                found.append("wrong")
            except OutOfRangeError:
                found.append("end")
    assert found == [-6, -6, -6, "wrong", 6, 6, 6, 3, 3, 3, "end"]
