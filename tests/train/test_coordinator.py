"""Coordinator: the first error wins, an end of input is none, and nobody is left running."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from flowengine.core.errors import CancelledError, FailedPreconditionError, OutOfRangeError
from flowengine.train import Coordinator


async def test_a_block_that_ends_stops_its_tasks() -> None:
    ended = []
    async with Coordinator() as coordinator:

        async def wait() -> None:
            await coordinator.wait_for_stop()
            ended.append(coordinator.should_stop())

        coordinator.start(wait)
        coordinator.start(wait)
        assert not coordinator.should_stop()
    assert ended == [True, True]
    assert coordinator.joined


async def test_the_first_error_of_several_is_raised() -> None:
    async def fail(error: Exception) -> None:
        await trio.lowlevel.checkpoint()
        raise error

    with pytest.raises(ValueError, match="first"):
        async with Coordinator() as coordinator:
            coordinator.request_stop(ValueError("first"))
            coordinator.start(fail, KeyError("second"))
            await trio.sleep_forever()


async def test_what_has_failed_before_the_block_does_not_let_it_wait(autojump_clock: MockClock) -> None:
    started = trio.current_time()
    coordinator = Coordinator()
    with coordinator.stop_on_exception():
        raise ValueError("before")
    with pytest.raises(ValueError, match="before"):
        async with coordinator:
            await trio.sleep(60)
    assert trio.current_time() == started, "it was waited for what cannot come to anything"
    coordinator.clear_stop()
    coordinator.request_stop()
    async with coordinator:
        await trio.sleep(1)  # a stop without an error lets the block end by itself


async def test_a_task_that_is_at_its_end_stops_everybody_without_an_error() -> None:
    async def end() -> None:
        raise OutOfRangeError("no more")

    async with Coordinator() as coordinator:
        coordinator.start(end)
        await coordinator.wait_for_stop()


@pytest.mark.parametrize(
    ("error", "is_told"),
    [
        (ValueError("a slip in the block"), True),
        (CancelledError("its queue was closed"), False),
        (OutOfRangeError("its queue is empty"), False),
    ],
)
async def test_after_a_stop_errors_of_steps_follow_from_it_and_others_do_not(
    error: Exception, is_told: bool
) -> None:
    with pytest.raises(ValueError, match="slip") if is_told else nullcontext():
        async with Coordinator() as coordinator:
            coordinator.request_stop()
            raise error


async def test_other_errors_may_be_an_end() -> None:
    async with Coordinator((StopIteration,)) as coordinator:
        coordinator.request_stop(StopIteration())
    with pytest.raises(OutOfRangeError):
        async with Coordinator(()) as coordinator:
            raise OutOfRangeError("no more")


async def test_a_group_is_raised_without_what_is_only_an_end() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with Coordinator():
            raise ExceptionGroup("both", [OutOfRangeError("no more"), ValueError("bad")])
    assert [type(e) for e in caught.value.exceptions] == [ValueError]


async def test_stragglers_are_cancelled(autojump_clock: MockClock) -> None:
    cancelled = []

    async def never() -> None:
        try:
            await trio.sleep_forever()
        finally:
            cancelled.append(trio.current_time() - started)

    started = trio.current_time()
    async with Coordinator(stop_grace_period_seconds=3) as coordinator:
        coordinator.start(never)
    assert cancelled == [pytest.approx(3)]


async def test_an_interrupt_goes_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        async with Coordinator() as coordinator:
            coordinator.start(coordinator.wait_for_stop)
            raise KeyboardInterrupt


async def test_after_the_end_an_error_is_raised_where_it_is_reported() -> None:
    async with Coordinator() as coordinator:
        pass
    coordinator.request_stop(OutOfRangeError("no more"))
    with pytest.raises(ValueError, match="late"):
        coordinator.request_stop(ValueError("late"))
    coordinator.clear_stop()
    assert not coordinator.should_stop()
    assert not coordinator.joined


async def test_as_a_flag_for_tasks_that_run_elsewhere() -> None:
    coordinator = Coordinator()
    with coordinator.stop_on_exception():
        raise ValueError("bad")
    assert coordinator.should_stop()
    with pytest.raises(ValueError, match="bad"):
        coordinator.raise_requested_exception()
    with pytest.raises(FailedPreconditionError, match="enter the coordinator"):
        coordinator.start(trio.sleep_forever)


async def test_it_is_entered_once_at_a_time() -> None:
    async with Coordinator() as coordinator:
        with pytest.raises(FailedPreconditionError, match="entered already"):
            await coordinator.__aenter__()
        with pytest.raises(FailedPreconditionError, match="has not ended"):
            coordinator.clear_stop()


async def test_tasks_have_time_to_end(autojump_clock: MockClock) -> None:
    """Those that are asked to stop are waited for, until the last of several has ended."""
    ended: list[float] = []

    async def slow(seconds: float) -> None:
        await coordinator.wait_for_stop()
        await trio.sleep(seconds)
        ended.append(trio.current_time() - started)

    started = trio.current_time()
    async with Coordinator(stop_grace_period_seconds=30) as coordinator:
        coordinator.start(trio.lowlevel.checkpoint)
        await trio.testing.wait_all_tasks_blocked()  # nobody is left, for now
        for seconds in (1, 2):
            coordinator.start(slow, seconds)
    assert ended == [pytest.approx(1), pytest.approx(2)]
    assert trio.current_time() - started == pytest.approx(2), "not longer than they need"
