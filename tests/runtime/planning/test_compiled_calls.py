"""Functions of datasets that are called as a whole, several calls in a run on one thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core.errors import CancelledError, InvalidArgumentError, OpError
from flowengine.core.work_pieces import at_once
from flowengine.resources.function_calls import CallOutcome
from flowengine.runtime.planning import compiled_calls, tiers
from flowengine.runtime.planning.compiled_calls import RUN_CALLS_MAX, WholePlan, outcomes_of
from flowengine.runtime.planning.tiers import TieredPlan
from flowengine.runtime.step import StepRunner
from flowengine.runtime.threads import Inbox
from flowengine.session import Session

Dataset = fe.data.Dataset


@pytest.fixture(autouse=True)
def hot_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans are compiled before their first step, so that all calls but the first are whole ones."""
    monkeypatch.setattr(tiers, "HOT_RUNS", 0)


@pytest.fixture
def on_threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Everything is worth the way to a thread; gives how many calls each run had."""
    lengths: list[int] = []
    monkeypatch.setattr(compiled_calls, "HEAVY_MICROSECONDS", -1.0)
    monkeypatch.setattr(compiled_calls, "ALONE_MICROSECONDS", -1.0)
    work = compiled_calls.CallRun.work

    def counted(run: compiled_calls.CallRun) -> None:
        assert threading.current_thread().name.startswith("flowengine-")
        lengths.append(len(run._calls))
        work(run)

    monkeypatch.setattr(compiled_calls.CallRun, "work", counted)
    return lengths


class Planned:
    """A function of one graph, ready to be called as a whole."""

    def __init__(self, graph: fe.Graph, fetch: fe.Tensor, feed: fe.Tensor) -> None:
        self.session = Session(graph)
        prepared = self.session._planning.prepare([str(fetch.port)], [str(feed.port)], ()).prepared
        assert isinstance(prepared.plan, TieredPlan)
        self.runner: StepRunner = self.session._runner
        whole = WholePlan.of(at_once(prepared.plan.making_whole()), 1.0)
        assert whole is not None
        self.whole = whole


def gathering() -> Planned:
    """10 * places[i], wrong for i beyond 3."""
    graph = fe.Graph()
    number = graph.placeholder("int64", [])
    chosen = graph.ops.Gather(np.arange(4), number)
    return Planned(graph, chosen * np.int64(10), number)


def numbers(*values: int) -> list[tuple[Any, ...]]:
    return [(np.int64(each),) for each in values]


async def made(planned: Planned, calls: Sequence[Sequence[Any]], take: Any = list) -> list[CallOutcome]:
    doors = (take, tuple)
    return await outcomes_of(planned.runner, planned.whole, calls, None, doors, is_beside_others=True)


@pytest.mark.parametrize("seconds", [0.0, 1.0], ids=["here", "on a thread"])
async def test_what_is_wrong_with_a_call_is_its_outcome(seconds: float) -> None:
    planned = gathering()
    planned.whole.seconds = seconds
    outcomes = await made(planned, numbers(1, 7, 3))
    assert [each.results for each in outcomes] == [(10,), (), (30,)]
    assert outcomes[0].bytes == 8
    assert isinstance(outcomes[1].error, InvalidArgumentError)
    assert "Gather" in str(outcomes[1].error)  # the node is named
    with pytest.raises(InvalidArgumentError):
        outcomes[1].value()
    assert not planned.runner.running


async def test_who_is_cancelled_leaves_the_rest_of_a_run() -> None:
    planned = gathering()
    begun, gate = threading.Event(), threading.Event()
    taken: list[int] = []

    def take(arguments: Sequence[Any]) -> list[Any]:
        taken.append(int(arguments[0]))
        begun.set()
        gate.wait()
        return list(arguments)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(made, planned, numbers(1, 2, 3), take)
        await trio.to_thread.run_sync(begun.wait)
        assert len(planned.runner.running) == 1
        nursery.cancel_scope.cancel()
    assert not planned.runner.running
    gate.set()
    # The thread is free for others when it has noticed.
    assert [each.results for each in await made(planned, numbers(0))] == [(0,)]
    assert [each.results for each in await made(planned, numbers(1))] == [(10,)]
    assert taken == [1]


async def test_a_session_that_is_closed_ends_a_run() -> None:
    planned = gathering()
    begun, gate = threading.Event(), threading.Event()

    def take(arguments: Sequence[Any]) -> list[Any]:
        begun.set()
        gate.wait()
        return list(arguments)

    async def close() -> None:
        await trio.to_thread.run_sync(begun.wait)
        await planned.session.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(close)
        with pytest.raises(CancelledError, match="session was closed"):
            await made(planned, numbers(1, 2), take)
    gate.set()


def test_plans_that_are_more_than_one_item_are_no_whole() -> None:
    graph = fe.Graph()
    number = graph.placeholder("float32", [])
    drawn = graph.ops.RandomUniform(np.array([2], np.int32), dtype=fe.dtypes.float32) * number
    prepared = Session(graph)._planning.prepare([str(drawn.port)], [str(number.port)], ()).prepared
    assert isinstance(prepared.plan, TieredPlan)
    assert WholePlan.of(at_once(prepared.plan.making_whole()), 0.0) is None


def test_what_needs_the_step_is_no_whole() -> None:
    """A kernel that asks its step for something, though the op has no state, is called in a step."""
    graph = fe.Graph()
    image = graph.placeholder("float32", [1, 4, 4, 1])
    pooled = graph.ops.FractionalMaxPool(image, pooling_ratio=[1.0, 1.5, 1.5, 1.0], seed=1).output
    prepared = Session(graph)._planning.prepare([str(pooled.port)], [str(image.port)], ()).prepared
    assert isinstance(prepared.plan, TieredPlan)
    assert WholePlan.of(at_once(prepared.plan.making_whole()), 0.0) is None


def test_a_run_has_as_many_calls_as_fill_its_time() -> None:
    whole = gathering().whole
    lengths = []
    for seconds in (0.0, 1e-6, 0.001, 0.0015, 1.0):
        whole.seconds = seconds
        lengths.append(whole.run_length)
    assert lengths == [1, RUN_CALLS_MAX, 6, 4, 1]
    whole.seconds = 0.0
    for took in (0.004, 0.002, 0.1):
        whole.took(took)
    assert whole.seconds == pytest.approx(0.0022)  # the least is believed, not for ever


def checked(number: fe.Tensor) -> fe.Tensor:
    """Three times the number; an error for those that end in 7."""
    ops = number.graph.ops
    return number * np.int64(3) + ops.Gather(np.zeros(7, np.int64), ops.FloorMod(number, np.int64(8)))


@pytest.mark.usefixtures("on_threads")
@given(
    st.lists(st.integers(0, 40), max_size=60),
    st.sampled_from([-1, 1, 2, 9, 40]),
    st.sampled_from([0, 1, 3]),
)
def test_elements_and_errors_come_as_from_single_calls(values: list[int], parallel: int, batch: int) -> None:
    async def through(dataset: fe.data.Dataset) -> list[Any]:
        found: list[Any] = []
        async with dataset.elements() as elements:
            while True:
                try:
                    found.append(np.asarray(await elements.__anext__()).tolist())
                except OpError as error:
                    found.append((type(error).__name__, error.message))
                except StopAsyncIteration:
                    return found

    async def main() -> None:
        source = Dataset.from_slices(np.array(values, np.int64))
        both = [source.map(checked, parallel=parallel), source.map(checked)]
        if batch:
            both = [each.batch(batch) for each in both]
        assert await through(both[0]) == await through(both[1])

    trio.run(main)


async def test_runs_are_longer_than_one_where_the_input_is_quick(on_threads: list[int]) -> None:
    numbers = Dataset.range(200).map(lambda x: x * x, parallel=-1)
    assert [int(each) async for each in numbers] == [each * each for each in range(200)]
    assert max(on_threads) > 1
    assert sum(on_threads) >= 190  # but for those before it was hot


async def test_an_element_is_not_kept_waiting_for_those_behind_it(on_threads: list[int]) -> None:
    """A source that goes on only when what it gave before has been seen."""
    seen = threading.Semaphore(1)

    def numbers() -> Iterator[int]:
        for number in range(40):
            assert seen.acquire(timeout=30)
            yield number

    found = []
    slow = Dataset.from_generator(numbers, ["int64"], [[]]).map(lambda x: x + 1, parallel=-1)
    async with slow.elements() as elements:
        async for each in elements:
            found.append(int(each))
            seen.release()
    assert found == list(range(1, 41))


async def test_what_a_function_hands_on_is_the_callers_own(on_threads: list[int]) -> None:
    rows = np.arange(80, dtype=np.int64).reshape(40, 2)
    constant = np.array([5, 6], np.int64)
    made = Dataset.from_slices(rows).map(lambda x: (x, x.graph.constant(constant), x * x), parallel=-1)
    async for row, fixed, _ in made:
        row += 1
        fixed += 1
        assert fixed.tolist() == [6, 7]
    assert rows.tolist() == np.arange(80).reshape(40, 2).tolist()
    assert on_threads


async def test_many_threads_wake_the_event_loop_and_nothing_is_left() -> None:
    inbox = Inbox()
    done: list[int] = []
    everything = trio.Event()

    def doing(number: int) -> None:
        done.append(number)
        if len(done) == 4000:
            everything.set()

    def put(start: int) -> None:
        for number in range(start, start + 1000):
            inbox.put(lambda number=number: doing(number))  # type: ignore[misc]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(inbox.serve)
        for start in range(0, 4000, 1000):
            nursery.start_soon(trio.to_thread.run_sync, put, start)
        with trio.fail_after(60):
            await everything.wait()
        nursery.cancel_scope.cancel()
    assert sorted(done) == list(range(4000))


def test_a_kernel_of_a_library_that_stays_on_its_thread_is_no_hindrance() -> None:
    graph = fe.Graph()
    pixels = graph.placeholder("uint8", [1, 90, 90, 3])
    small = graph.ops.ResizeBilinear(pixels, np.array([60, 60], np.int32), half_pixel_centers=True)
    Planned(graph, small / 255.0, pixels)
