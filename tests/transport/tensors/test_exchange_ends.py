"""Exchanges whose steps end: aborts, losses, other lives, and what is known of steps that are over."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core.errors import (
    AbortedError,
    CancelledError,
    InvalidArgumentError,
    OutOfRangeError,
    UnavailableError,
)
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.tensors.exchange import Exchange, task_of_device
from flowengine.transport.tensors.rendezvous import LocalRendezvous
from flowengine.transport.tensors.steps import EndedSteps
from tests.transport.tensors.exchanging import A, B, key, settle, tasks


async def test_an_abort_reaches_the_other_task() -> None:
    async with tasks() as (pair, nursery):
        a, b = pair.begin()
        errors: list[Exception] = []

        async def receive() -> None:
            try:
                await b.wait_received(key("x"))
            except OutOfRangeError as error:
                errors.append(error)

        nursery.start_soon(receive)
        await settle()
        a.abort(OutOfRangeError("queue is empty").locate(node_name="dequeue", op_type="QueueDequeueV2"))
        a.abort(CancelledError("derived"))
        await settle()
        (error,) = errors
        assert str(error) == "QueueDequeueV2 'dequeue': queue is empty"
        with pytest.raises(OutOfRangeError):
            await b.wait_received(key("y"))
        with pytest.raises(OutOfRangeError):
            await a.wait_received(key("y", source=B, target=A))
        b.send(key("y", source=B, target=A), 1, False)


async def test_an_abort_before_the_step_has_begun_there() -> None:
    async with tasks() as (pair, _):
        pair.a.begin_step(9).abort(InvalidArgumentError("wrong"))
        await settle()
        with pytest.raises(InvalidArgumentError, match="wrong"):
            await pair.b.begin_step(9).wait_received(key("x", 9))


async def test_a_lost_peer_fails_what_waits_for_it_and_nothing_else() -> None:
    async with tasks() as (pair, nursery):
        a, b = pair.begin()
        other = pair.b.begin_step(2, {B: 11})
        a.send(key("early"), 7, False)
        errors: list[Exception] = []

        async def receive(edge: str, source: str) -> None:
            try:
                await b.wait_received(key(edge, source=source))
            except ConnectionLostError as error:
                errors.append(error)

        nursery.start_soon(receive, "x", A)
        nursery.start_soon(receive, "mine", B)
        await settle()
        pair.peer_b._stream.close()
        await settle()
        (error,) = errors
        assert "step 1 lost /job:w/task:0; on the link from /job:w/task:1" in str(error)
        # What had arrived has arrived; what comes from this task still comes.
        assert (await b.wait_received(key("early")))[0] == 7
        b.send(key("mine", source=B), 3, False)
        with pytest.raises(ConnectionLostError, match="will not come from /job:w/task:0"):
            await b.wait_received(key("later"))
        with pytest.raises(ConnectionLostError, match="nothing can be sent to /job:w/task:0"):
            b.send(key("back", source=B, target=A), 3, False)
        with pytest.raises(UnavailableError, match="no connection to /job:w/task:0"):
            other.send(key("back", 2, source=B, target=A), 3, False)


async def test_nothing_is_delivered_to_or_from_another_life() -> None:
    async with tasks(lives=(10, 11)) as (pair, nursery):
        a = pair.a.begin_step(1, {A: 10, B: 11})
        b = pair.b.begin_step(1, {A: 10, B: 11})
        a.send(key("x", incarnation=10), 1, False)
        a.send(key("x", incarnation=9), 2, False)
        await settle()
        assert pair.b.statistics().values_dropped == 1
        assert (await b.wait_received(key("x", incarnation=10)))[0] == 1
        with pytest.raises(AbortedError, match="incarnation 9 was expected and it is 10 now"):
            await b.wait_received(key("y", incarnation=9))
        # Task 1 restarts: what this step has for it belonged to its former life.
        pair.peer_a._stream.close()
        await settle()
        pair.b = Exchange(B)
        await pair.join(nursery, None, (10, 12))
        with pytest.raises(ConnectionLostError):
            a.send(key("z", incarnation=10), 1, False)
        late = pair.a.begin_step(2, {A: 10, B: 11})
        with pytest.raises(AbortedError, match="began with incarnation 11, it is 12 now"):
            late.send(key("z", 2, incarnation=10), 1, False)
        fresh = pair.a.begin_step(3, {A: 10, B: 12})
        fresh.send(key("z", 3, incarnation=10), 5, False)
        assert (await pair.b.begin_step(3).wait_received(key("z", 3, incarnation=10)))[0] == 5


async def test_a_large_tensor_of_an_ended_step_is_not_sent_on() -> None:
    async with tasks() as (pair, _):
        a, _ = pair.begin()
        a.send(key("x"), np.zeros(20_000_000, np.uint8), False)
        pair.a.end_step(1)
        await settle()
        assert pair.peer_b.statistics().bytes_sent < 2_000_000
        assert pair.peer_b.statistics().credit_left > 32 << 20
        assert pair.b.statistics().values_waiting == 0


@given(st.lists(st.integers(0, 40), max_size=80))
def test_ended_steps_are_a_set(steps: list[int]) -> None:
    ended = EndedSteps()
    for step in steps:
        ended.add(step)
    assert [step for step in range(42) if step in ended] == sorted(set(steps))
    holes = sum(step + 1 not in ended for step in set(steps))
    assert ended.ranges == holes


def test_ended_steps_stay_small() -> None:
    ended = EndedSteps(ranges_max=3)
    for step in range(0, 100, 2):
        ended.add(step)
    assert ended.ranges <= 3
    assert 98 in ended
    assert 0 in ended
    assert 99 not in ended


def test_the_task_of_a_device() -> None:
    assert task_of_device("/job:w/replica:0/task:1/device:GPU:0") == "/job:w/task:1"
    assert task_of_device("/job:w/task:1/cpu:0") == "/job:w/task:1"


def test_edges_that_are_expected_as_a_whole() -> None:
    table = LocalRendezvous()
    told: list[tuple[int, object, bool, object]] = []
    table.send(key("early"), 1, False)
    routes = {key(edge)[1:5]: number for number, edge in enumerate(("early", "late", "dead", "never"))}
    table.expect(key("early").step, routes, lambda *what: told.append(what))
    assert told == [(0, 1, False, None)]
    assert table.is_awaited(key("late"))
    assert not table.is_awaited(key("early"))
    table.send(key("late"), 2, False)
    table.send(key("dead"), None, True)
    assert told[1:] == [(1, 2, False, None), (2, None, True, None)]
    assert table.waiting_keys() == [key("never")]
    table.send(key("late"), 3, False)  # a second one waits for whoever asks
    assert len(told) == 3
    assert table.holds(key("late"))
    assert not table.end()
    error = CancelledError("over")
    table.abort(error)
    assert told[3:] == [(3, None, False, error)]
    assert not table.waiting_keys()


def test_a_step_that_has_all_that_it_expected_may_end() -> None:
    table = LocalRendezvous()
    routes = {key(edge)[1:5]: number for number, edge in enumerate(("one", "other"))}
    table.expect(key("one").step, routes, lambda *_: None)
    for edge in ("one", "other"):
        assert not table.end()
        table.send(key(edge), 1, False)
    assert table.end()


async def test_steps_that_end_as_soon_as_they_hear_of_a_loss_are_no_trouble_to_others() -> None:
    async with tasks() as (pair, _):
        ended: list[int] = []

        def end(step: int, value: object, is_dead: bool, error: Exception | None) -> None:
            assert isinstance(error, ConnectionLostError)
            ended.append(step)
            pair.b.end_step(step, error)

        for step in (1, 2, 3):
            pair.b.begin_step(step).receive(key("x", step), partial(end, step))
        pair.peer_b._stream.close()
        await settle()
        assert sorted(ended) == [1, 2, 3]
        assert pair.b.statistics().steps == 0
