"""Iterators that work ahead: how much they make, where, and the work left when nobody wants more."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core.accounting import bytes_of
from flowengine.core.errors import CancelledError, InvalidArgumentError
from flowengine.resources.data import working_ahead
from flowengine.resources.data.batches import joined_beside
from flowengine.resources.data.working_ahead import AheadIterator, AwaitedElement
from flowengine.resources.elements import ElementRun
from tests.resources.data.test_closing import Watched, iteration

Dataset = fe.data.Dataset


def filled(number: fe.Tensor) -> fe.Tensor:
    """8 KB."""
    ops = number.graph.ops
    return ops.Fill(np.array([1024], np.int32), number)


def repeated_text(number: fe.Tensor) -> fe.Tensor:
    """64 strings, each of its own."""
    ops = number.graph.ops
    return ops.AsString(ops.Add(ops.Range(np.int64(0), np.int64(64), np.int64(1)), number))


def ahead_of(elements: fe.data.Elements) -> AheadIterator:
    """Return the iterator that the front of a pipeline's iterator reads from."""
    front: Any = elements._iterator._front
    found = front.input
    assert isinstance(found, AheadIterator)
    return found


@pytest.mark.parametrize("make", [filled, repeated_text])
@pytest.mark.parametrize("parallel", [1, 3])
async def test_bytes_that_are_ready_are_bounded(
    monkeypatch: pytest.MonkeyPatch, make: Any, parallel: int
) -> None:
    monkeypatch.setattr(working_ahead, "BYTES_AHEAD_MAX", 40_000)
    dataset = Dataset.range(1000).map(make, parallel=parallel).prefetch(500)
    async with dataset.elements() as elements:
        for _ in range(3):
            await elements.__anext__()
            ahead = ahead_of(elements)
            # A call on a thread is no task that is not blocked.
            with trio.fail_after(30):
                while ahead.held < 40_000:
                    await ahead.changed.wait()
            await trio.testing.wait_all_tasks_blocked()
            sizes = [sum(map(bytes_of, each.element or ())) for each in ahead.line]
            assert ahead.held == sum(sizes)
            # The bound is passed by one element at most.
            assert ahead.held < 40_000 + max(sizes)
            below = ahead.input
            if isinstance(below, AheadIterator):
                assert below.held <= 3 * max(sizes)  # so many calls


async def test_an_element_larger_than_the_bound_is_made_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working_ahead, "BYTES_AHEAD_MAX", 10)
    async with Dataset.range(5).map(filled).prefetch(4).elements() as elements:
        found = [int(element[0]) async for element in elements]
    assert found == [0, 1, 2, 3, 4]


async def test_threads_parse_and_join() -> None:
    threads: set[int] = set()

    def joined(elements: ElementRun) -> Any:
        threads.add(threading.get_ident())
        return (np.stack(elements.columns[0]),)

    small, large = (np.zeros(10),), (np.zeros(1_000_000),)
    assert (await joined_beside(joined, ElementRun.of([small] * 2)))[0].shape == (2, 10)
    assert threads == {threading.get_ident()}
    assert (await joined_beside(joined, ElementRun.of([large] * 2)))[0].shape == (2, 1_000_000)
    assert len(threads) == 2


@given(st.lists(st.one_of(st.integers(0, 5), st.none()), max_size=12), st.integers(1, 4))
def test_errors_are_kept_for_their_places(outcomes: list[int | None], size: int) -> None:
    async def main() -> list[Any]:
        columns = np.array([-1 if each is None else each for each in outcomes], np.int64)

        def wrong(number: fe.Tensor) -> fe.Tensor:
            ops = number.graph.ops
            return ops.Gather(np.arange(6), number)

        found: list[Any] = []
        async with (
            Dataset.from_slices(columns).map(wrong, parallel=size).prefetch(size).elements() as elements
        ):
            while True:
                try:
                    found.append(int(await elements.__anext__()))
                except InvalidArgumentError:
                    found.append(None)
                except StopAsyncIteration:
                    return found

    assert trio.run(main) == outcomes


async def test_a_fault_of_ours_is_told_to_who_asks() -> None:
    outcome = AwaitedElement()

    async def fails() -> Any:
        raise ZeroDivisionError("by nothing")

    await working_ahead.outcome_of(fails, outcome)
    with pytest.raises(fe.errors.InternalError, match="ZeroDivisionError: by nothing"):
        outcome.value()


class _Refused(AheadIterator):
    """Begins something where nothing can be begun any more."""

    ends = True

    async def begin(self, outcome: AwaitedElement) -> None:
        if self.ends:
            self.iteration.tasks.cancel()
        raise CancelledError("its resource was ended")


@pytest.mark.parametrize("ends", [True, False])
async def test_a_task_that_is_ended_while_it_begins_something_is_no_fault(
    ends: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with iteration() as run:
        ahead = _Refused(run, Watched(1).iterator(run))
        ahead.ends = ends
        ahead.wake()
        await trio.testing.wait_all_tasks_blocked()
        assert run.tasks.count == 0
    assert [each.message for each in caplog.records] == ([] if ends else ["a task of a resource has failed"])
