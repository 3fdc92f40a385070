"""Accumulators: late gradients, averages, and who waits for how many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from flowengine.core import dtypes
from flowengine.core.arrays import WOULD_WAIT
from flowengine.core.errors import CancelledError, InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.resources.accumulator import Accumulator, SparseAccumulator
from tests.effort import examples


@settings(max_examples=examples(200))
@given(
    rules=st.lists(
        st.one_of(
            st.tuples(st.just("apply"), st.integers(0, 4), st.integers(-5, 5)),
            st.tuples(st.just("take"), st.integers(1, 4), st.just(0)),
            st.tuples(st.just("step"), st.integers(0, 4), st.just(0)),
            st.tuples(st.just("cancel"), st.integers(0, 4), st.just(0)),
        ),
        max_size=50,
    ),
    average=st.booleans(),
)
def test_against_a_list(rules: list[tuple[str, int, int]], average: bool) -> None:
    accumulator = Accumulator("a", dtypes.float64, TensorShape([]), average=average)
    step, held, waiting = 0, list[int](), list[tuple[int, Any]]()
    expected: list[float] = []
    got: list[float] = []

    def serve() -> None:
        nonlocal step, held
        while waiting and len(held) >= waiting[0][0]:
            _, attempt = waiting.pop(0)
            assert attempt.finished
            expected.append(sum(held) / (len(held) if average else 1))
            got.append(float(attempt.result))
            step, held = step + 1, []
        assert not any(attempt.finished for _, attempt in waiting)

    for what, number, value in rules:
        if what == "apply":
            accumulator.apply(number, np.float64(value))
            if number >= step:
                held.append(value)
        elif what == "take":
            result = accumulator.take_nowait(number)
            if result is WOULD_WAIT:
                waiting.append((number, accumulator.start_take(number)))
            else:
                got.append(float(result))
                expected.append(sum(held) / (len(held) if average else 1))
                step, held = step + 1, []
        elif what == "step":
            accumulator.set_global_step(number)
            step = number
        elif waiting:
            _, attempt = waiting.pop(number % len(waiting))
            accumulator.withdraw(attempt)
        serve()
        assert accumulator.count == len(held)
        assert accumulator.global_step == step
    assert got == expected


def test_shapes_and_own_memory() -> None:
    accumulator = Accumulator("a", dtypes.float32, TensorShape([None, 2]))
    given_first = np.ones((3, 2), np.float32)
    accumulator.apply(0, given_first)
    given_first[...] = 100
    with pytest.raises(InvalidArgumentError, match=r"expected \[3,2\], got \[1, 2\]"):
        accumulator.apply(0, np.ones((1, 2), np.float32))
    with pytest.raises(InvalidArgumentError, match="must be positive"):
        accumulator.take_nowait(0)
    assert accumulator.take_nowait(1).tolist() == [[1, 1]] * 3
    accumulator.apply(1, np.ones((1, 2), np.float32))


def test_integers_average_towards_zero() -> None:
    accumulator = Accumulator("a", dtypes.int32, TensorShape([]))
    for value in (1, 2):
        accumulator.apply(0, np.int32(value))
    assert accumulator.take_nowait(2) == 1


@given(
    st.lists(
        st.dictionaries(st.integers(0, 5), st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=1),
        min_size=1,
        max_size=6,
    ),
    st.booleans(),
)
def test_sparse_averages_by_slice(gradients: list[dict[int, tuple[int, int]]], average: bool) -> None:
    accumulator = SparseAccumulator("a", dtypes.float64, TensorShape([6, 2]), average=average)
    for gradient in map(dict, map(sorted, map(dict.items, gradients))):
        accumulator.apply(0, np.array(list(gradient)), np.array(list(gradient.values()), float), [6, 2])
    indices, values, shape = accumulator.take_nowait(len(gradients))
    everyone = sorted(set().union(*gradients))
    assert indices.tolist() == everyone
    assert shape.tolist() == [6, 2]
    for index, row in zip(everyone, values, strict=True):
        mine = [np.array(g[index], float) for g in gradients if index in g]
        np.testing.assert_allclose(row, sum(mine) / (len(mine) if average else 1))


@pytest.mark.parametrize(
    ("gradients", "indices", "averages"),
    [
        ([[1, 1, 0, 4], [2, 3, 3, 2]], [1, 1, 0, 2, 3, 3, 2, 4], [1, 2, 3, 5, 6, 7, 8, 4]),
        ([[3, 3, 1, 4], [1, 4, 2, 1]], [1, 3, 3, 1, 4, 2, 1], [5, 1, 2, 3, 5, 7, 8]),
        ([[0, 0, 2], [0, 2, 2], [2, 0]], [0, 0, 2, 0, 2], [2.5, 2, 5, 8, 6]),
        ([[5, 1], [1, 5]], [1, 5, 1], [3, 2.5, 2]),
    ],
)
def test_sparse_keeps_what_is_out_of_order_as_tensorflow_does(
    gradients: list[list[int]], indices: list[int], averages: list[float]
) -> None:
    """Recorded with TensorFlow 1.15: slices 1, 2, 3, ... at these indices."""
    accumulator = SparseAccumulator("a", dtypes.float32, TensorShape([6, 1]), average=True)
    number = 1
    for gradient in gradients:
        values = np.arange(number, number + len(gradient), dtype=np.float32)[:, None]
        number += len(gradient)
        accumulator.apply(0, np.array(gradient), values, [6, 1])
    got, values, _ = accumulator.take_nowait(len(gradients))
    assert got.tolist() == indices
    assert values[:, 0].tolist() == averages


def test_a_sparse_sum_has_memory_of_its_own() -> None:
    """Also where one gradient is all of it: who made that writes there again."""
    accumulator = SparseAccumulator("a", dtypes.float32, TensorShape([3, 2]))
    indices, values = np.array([2, 0]), np.ones((2, 2), np.float32)
    accumulator.apply(0, indices, values, [3, 2])
    indices[...] = 1
    values[...] = 100
    found, sums, _ = accumulator.take_nowait(1)
    assert (found.tolist(), sums.tolist()) == ([2, 0], [[1, 1], [1, 1]])


def test_sparse_refuses() -> None:
    accumulator = SparseAccumulator("a", dtypes.float32, TensorShape([3, 2]))
    ones = np.ones((1, 2), np.float32)
    zero = np.array([0])
    for indices, values, shape, message in [
        (np.array([[0]]), ones, None, "indices should be vector"),
        (zero, np.float32(1), None, "cannot be 0-dimensional"),
        (np.array([0, 1]), ones, None, "Expected 2 non-empty input values, got 1"),
        (zero, ones, [3], "rank at least 2, got 1"),
        (zero, ones, [4, 2], "expected dim 0 to be 3, got 4"),
        (np.array([3]), ones, None, "index is 3 exceeded 3"),
        (zero, np.ones((1, 5), np.float32), None, "expected values dim 1 to be 2, got 5"),
    ]:
        with pytest.raises(InvalidArgumentError, match=message):
            accumulator.apply(0, indices, np.asarray(values), shape)
    assert accumulator.count == 0


@pytest.mark.parametrize(("rows", "expected"), [(None, -1), (3, 3)])
async def test_sparse_sums_have_the_declared_number_of_rows(rows: int | None, expected: int) -> None:
    """Of an open one, -1."""
    accumulator = SparseAccumulator("a", dtypes.float32, TensorShape([rows, None]))
    accumulator.apply(0, np.array([0, 2]), np.ones((2, 2), np.float32), None)
    indices, values, shape = await accumulator.take(1)
    assert (indices.tolist(), values.tolist(), shape.tolist()) == ([0, 2], [[1, 1]] * 2, [expected, 2])


async def test_waiting_in_order_and_cancelled() -> None:
    accumulator = Accumulator("a", dtypes.float32, TensorShape([]))
    results: list[tuple[str, float]] = []

    async def take(name: str, count: int) -> None:
        results.append((name, float(await accumulator.take(count))))

    async with trio.open_nursery() as nursery, trio.open_nursery() as first:
        first.start_soon(take, "first", 3)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(take, "second", 1)
        await trio.testing.wait_all_tasks_blocked()
        accumulator.apply(0, np.float32(4))
        await trio.testing.wait_all_tasks_blocked()
        assert results == []
        first.cancel_scope.cancel()
    assert results == [("second", 4.0)]


async def test_removal_ends_the_wait() -> None:
    accumulator = Accumulator("a", dtypes.float32, TensorShape([]))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_expect_cancelled, accumulator)
        await trio.testing.wait_all_tasks_blocked()
        accumulator.destroy()


async def _expect_cancelled(accumulator: Accumulator) -> None:
    with pytest.raises(CancelledError):
        await accumulator.take(1)


@pytest.mark.parametrize(("replicas", "required"), [(4, 4), (5, 3)])
async def test_backup_workers_in_simulated_time(
    replicas: int, required: int, autojump_clock: trio.testing.MockClock
) -> None:
    """m of n replicas: with all of them the sequential result, else the slowest are ignored."""
    accumulator = Accumulator("a", dtypes.float64, TensorShape([]))
    parameter = 1.0
    current = 0
    moved = trio.Event()

    async def replica(which: int) -> None:
        while True:
            step, at = current, parameter
            await trio.sleep(1 + which)
            accumulator.apply(step, np.float64(at * (which + 1)))
            while current == step:
                await moved.wait()

    async with trio.open_nursery() as nursery:
        for which in range(replicas):
            nursery.start_soon(replica, which)
        for step in range(1, 6):
            parameter -= 0.1 * float(await accumulator.take(required))
            current = step
            moved.set()
            moved = trio.Event()
        nursery.cancel_scope.cancel()
    expected = 1.0
    for _ in range(5):
        expected -= 0.1 * expected * sum(range(1, required + 1)) / required
    assert parameter == pytest.approx(expected)
    assert autojump_clock.current_time() > 0
