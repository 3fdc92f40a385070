"""Calls of one function by many steps: put together, computed once, each given its own rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core.errors import (
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    UnavailableError,
)
from flowengine.resources.batching.calls import BatcherOptions, CallBatcher, FunctionCall
from flowengine.resources.container import ResourceManager
from flowengine.resources.function_calls import StepCalls
from flowengine.resources.services import Services


class Recorded(StepCalls):
    """A function that notes what it is called with, takes a while, and gives ten times its rows."""

    name = "recorded"

    def __init__(self, seconds: float = 0.0, results: Callable[..., tuple[Any, ...]] | None = None) -> None:
        self.calls: list[list[Any]] = []
        self.ended = 0
        self._seconds = seconds
        self._results = results

    async def __call__(self, arguments: Sequence[Any], sequences: ResourceManager) -> tuple[Any, ...]:
        self.calls.append([np.asarray(each).tolist() for each in arguments])
        await trio.sleep(self._seconds)
        self.ended += 1
        return (arguments[0] * 10,) if self._results is None else self._results(*arguments)

    def of_rows(self, count: int) -> None:
        return None

    @property
    def rows(self) -> list[int]:
        return [len(call[0]) for call in self.calls]


class OneFunction:
    """A batcher, and the function that all its requests call."""

    def __init__(self, function: Recorded, services: Services | None = None, **options: Any) -> None:
        settings = {"max_batch_size": 10, "timeout_seconds": 1.0, "num_batch_threads": 1} | options
        self.function = function
        self.batcher = CallBatcher("b", services or Services(), BatcherOptions(**settings), 1)

    async def call(self, tensors: Sequence[Any], captured: Sequence[Any]) -> tuple[Any, ...]:
        return await self.batcher.call(tensors, FunctionCall(self.function, captured))


def rows(*values: int) -> list[Any]:
    return [np.array(values, dtype=np.int64)]


async def together(made: OneFunction, requests: Sequence[Sequence[int]], pause: float = 0.0) -> list[Any]:
    """Return the result or error of each request; a pause separates the beginnings of two."""
    found: list[Any] = [None] * len(requests)

    async def ask(place: int) -> None:
        try:
            (result,) = await made.call(rows(*requests[place]), ())
        except Exception as error:
            found[place] = error
        else:
            found[place] = np.asarray(result).tolist()

    async with trio.open_nursery() as nursery:
        for place in range(len(requests)):
            nursery.start_soon(ask, place)
            await trio.testing.wait_all_tasks_blocked()
            await trio.sleep(pause)
    return found


async def test_requests_of_one_moment_are_one_call(autojump_clock: trio.testing.MockClock) -> None:
    function = Recorded()
    began = trio.current_time()
    assert await together(OneFunction(function), [[1], [2, 3], [4]]) == [[10], [20, 30], [40]]
    assert function.calls == [[[1, 2, 3, 4]]]
    assert trio.current_time() - began == pytest.approx(1.0)
    assert autojump_clock.autojump_threshold == 0


async def test_a_full_batch_waits_for_nobody(autojump_clock: trio.testing.MockClock) -> None:
    function = Recorded()
    began = trio.current_time()
    assert await together(OneFunction(function, max_batch_size=3), [[1], [2, 3]]) == [[10], [20, 30]]
    assert trio.current_time() == began
    assert autojump_clock.autojump_threshold == 0


async def test_what_does_not_fit_begins_the_next_batch(autojump_clock: trio.testing.MockClock) -> None:
    function = Recorded()
    made = OneFunction(function, max_batch_size=4)
    assert await together(made, [[1, 2, 3], [4, 5], [6]]) == [[10, 20, 30], [40, 50], [60]]
    assert function.calls == [[[1, 2, 3]], [[4, 5, 6]]]
    assert autojump_clock.autojump_threshold == 0


async def test_an_open_batch_grows_while_all_places_are_taken(autojump_clock: trio.testing.MockClock) -> None:
    function = Recorded(seconds=10)
    made = OneFunction(function, timeout_seconds=0.5)
    await together(made, [[which] for which in range(8)], pause=1.0)
    # The first is computed from 0.5 to 10.5; all others have come by then.
    assert function.rows == [1, 7]
    two = Recorded(seconds=10)
    await together(
        OneFunction(two, timeout_seconds=0.5, num_batch_threads=0), [[each] for each in range(4)], pause=1.0
    )
    assert two.rows == [1, 1, 1, 1]
    assert autojump_clock.autojump_threshold == 0


async def test_too_many_batches_are_refused(autojump_clock: trio.testing.MockClock) -> None:
    made = OneFunction(Recorded(seconds=5), max_batch_size=2, max_enqueued_batches=1)
    found = await together(made, [[1, 2], [3], [4, 5], [6]])
    assert [found[0], found[1], found[3]] == [[10, 20], [30], [60]]
    assert isinstance(found[2], UnavailableError)
    assert autojump_clock.autojump_threshold == 0


async def test_allowed_sizes_are_filled_with_copies_of_the_first_row(
    autojump_clock: trio.testing.MockClock,
) -> None:
    function = Recorded()
    made = OneFunction(function, allowed_batch_sizes=(4, 7, 10))
    assert await together(made, [[], [1], [2, 3], [4, 5]]) == [[], [10], [20, 30], [40, 50]]
    assert function.calls == [[[1, 2, 3, 4, 5, 1, 1]]]
    assert await together(made, [[]]) == [[]]
    assert autojump_clock.autojump_threshold == 0


@pytest.mark.parametrize(
    ("requests", "calls"), [([[1, 2, 3], [4], [5, 6]], [4, 4]), ([[1, 2, 3], [4, 5]], [10])]
)
async def test_trimming_leaves_whole_requests_to_the_next_batch(
    autojump_clock: trio.testing.MockClock, requests: list[list[int]], calls: list[int]
) -> None:
    # The same requests give the same sizes in TensorFlow 2.21.
    function = Recorded()
    made = OneFunction(function, allowed_batch_sizes=(4, 10), trims=True)
    assert await together(made, requests) == [[10 * each for each in request] for request in requests]
    assert function.rows == calls
    assert autojump_clock.autojump_threshold == 0


async def test_large_requests_are_split(autojump_clock: trio.testing.MockClock) -> None:
    function = Recorded()
    made = OneFunction(function, allowed_batch_sizes=(1, 2, 4), splits=True, num_batch_threads=2)
    assert await together(made, [[1], [2, 3, 4, 5, 6, 7]]) == [[10], [20, 30, 40, 50, 60, 70]]
    assert function.calls == [[[1, 2, 3, 4]], [[5, 6, 7, 5]]]
    assert isinstance((await together(made, [range(11)]))[0], InvalidArgumentError)
    assert autojump_clock.autojump_threshold == 0


async def test_captured_values_are_those_of_the_last_request(autojump_clock: trio.testing.MockClock) -> None:
    function = Recorded()
    made = OneFunction(function, max_batch_size=2)
    async with trio.open_nursery() as nursery:
        for value in (1, 2):
            nursery.start_soon(made.call, rows(value), (np.int64(value),))
            await trio.testing.wait_all_tasks_blocked()
    assert function.calls == [[[1, 2], 2]]
    assert autojump_clock.autojump_threshold == 0


async def test_an_error_reaches_everybody_as_one_of_his_own(autojump_clock: trio.testing.MockClock) -> None:
    def refuse(*_: Any) -> tuple[Any, ...]:
        raise InvalidArgumentError("indices[0] = 100 is not in [0, 3)")

    found = await together(OneFunction(Recorded(results=refuse)), [[1], [2]])
    assert all(isinstance(each, InvalidArgumentError) and "= 100" in str(each) for each in found)
    assert found[0] is not found[1]
    assert autojump_clock.autojump_threshold == 0


@pytest.mark.parametrize(
    ("results", "message"),
    [
        (lambda x: (x.sum(),), "has 0 dimensions"),
        (lambda x: (x[1:],), "does not equal the sum"),
        (lambda x: (x, x), "has 2 results, not 1"),
    ],
)
async def test_results_that_are_not_rows(
    autojump_clock: trio.testing.MockClock, results: Callable[..., tuple[Any, ...]], message: str
) -> None:
    for error in await together(OneFunction(Recorded(results=results)), [[1], [2]]):
        assert isinstance(error, (FailedPreconditionError, InvalidArgumentError))
        assert message in str(error)
    assert autojump_clock.autojump_threshold == 0


async def test_rows_of_another_shape_are_refused_alone(autojump_clock: trio.testing.MockClock) -> None:
    made = OneFunction(Recorded())
    found: list[Any] = []

    async def ask() -> None:
        found.append(await made.call(rows(1), ()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(InvalidArgumentError, match="must agree but for their rows"):
            await made.call([np.zeros((1, 2))], ())
    assert found[0][0].tolist() == [10]
    assert autojump_clock.autojump_threshold == 0


async def test_a_cancelled_request_takes_only_its_rows_away(autojump_clock: trio.testing.MockClock) -> None:
    function = Recorded(seconds=1)
    services = Services()
    made = OneFunction(function, services)
    with trio.move_on_after(0.1):
        await made.call(rows(7), ())
    assert not made.batcher._line
    found: list[Any] = []

    async def patient() -> None:
        found.append(await made.call(rows(1), ()))

    for leaves_after in (0.5, 1.5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(patient)
            with trio.move_on_after(leaves_after):
                await made.call(rows(2, 3), ())
    assert sorted(len(call[0]) for call in function.calls) == [1, 3]
    assert [each[0].tolist() for each in found] == [[10], [10]]
    # The third call is computed for nobody from second 1 on.
    with trio.move_on_after(1.5):
        await made.call(rows(4), ())
    await trio.testing.wait_all_tasks_blocked()
    assert (len(function.calls), function.ended, services.count) == (3, 2, 0)
    assert autojump_clock.autojump_threshold == 0


async def test_whoever_waits_hears_that_the_batcher_was_removed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    services = Services()
    made = OneFunction(Recorded(seconds=5), services, max_batch_size=1)

    async def remove() -> None:
        await trio.sleep(1)
        made.batcher.destroy()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(remove)
        found = await together(made, [[1], [2]])
    assert all(isinstance(each, CancelledError) for each in found)
    await services.ended()
    assert services.count == 0
    assert autojump_clock.autojump_threshold == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_batch_size": 0}, "max_batch_size must be positive"),
        ({"timeout_seconds": -1e-6}, "must be non-negative; was -1"),
        ({"allowed_batch_sizes": (4, 7)}, "must rise and end"),
        ({"allowed_batch_sizes": (7, 4, 10)}, "must rise and end"),
        ({"allowed_batch_sizes": (4, 11), "splits": True}, "must rise and end"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        OneFunction(Recorded(), **options)


@given(
    requests=st.lists(
        st.tuples(st.integers(0, 4), st.floats(0, 3), st.none() | st.floats(0, 4)), min_size=1, max_size=12
    ),
    seconds=st.sampled_from([0.0, 0.7, 2.5]),
    places=st.integers(0, 2),
    allowed=st.sampled_from([(), (3, 4), (4,)]),
    splits=st.booleans(),
    trims=st.booleans(),
)
def test_everybody_gets_his_own_rows(
    requests: list[tuple[int, float, float | None]],
    seconds: float,
    places: int,
    allowed: tuple[int, ...],
    splits: bool,
    trims: bool,
) -> None:
    """Requests at random moments, some of which go away: the others get theirs, and nothing is left."""
    function = Recorded(seconds)
    services = Services()
    answered = 0

    async def play() -> None:
        nonlocal answered
        made = OneFunction(
            function,
            services,
            max_batch_size=4,
            num_batch_threads=places,
            max_enqueued_batches=100,
            allowed_batch_sizes=allowed,
            splits=splits,
            trims=trims,
        )

        async def ask(number: int, count: int, begins: float, leaves_after: float | None) -> None:
            nonlocal answered
            await trio.sleep(begins)
            own = [100 * number + each for each in range(count)]
            with trio.move_on_after(np.inf if leaves_after is None else leaves_after):
                (result,) = await made.call(rows(*own), ())
                assert result.tolist() == [10 * each for each in own]
                answered += 1

        async with trio.open_nursery() as nursery:
            for number, request in enumerate(requests):
                nursery.start_soon(ask, number, *request)
        await trio.testing.wait_all_tasks_blocked()
        assert not made.batcher._line
        assert not made.batcher._running
        assert services.count == 0

    trio.run(play, clock=trio.testing.MockClock(autojump_threshold=0))
    assert answered >= sum(leaves_after is None for _, _, leaves_after in requests)
    assert all(count in (0, *(allowed or range(5))) for count in function.rows)
