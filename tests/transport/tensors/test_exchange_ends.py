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
    ResourceExhaustedError,
    UnavailableError,
)
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.limits import ENTRY_BYTES, Limits
from flowengine.transport.tensors import steps as steps_module
from flowengine.transport.tensors.exchange import Exchange, task_of_device
from flowengine.transport.tensors.ledger import TensorLedger
from flowengine.transport.tensors.rendezvous import LocalRendezvous
from flowengine.transport.tensors.steps import EndedSteps, StepTable
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


def step_table(monkeypatch: pytest.MonkeyPatch) -> StepTable:
    """A table that remembers the failures of two steps that have not begun."""
    monkeypatch.setattr(steps_module, "_FAILURES_MAX", 2)
    return StepTable(lambda step, key: None)


def fails_at_once(table: StepTable, number: int) -> bool:
    return table.begin(number, None).table.error is not None


def test_of_failures_elsewhere_the_oldest_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    table = step_table(monkeypatch)
    for number in (1, 2, 3):
        table.fail(number, OutOfRangeError("there"))
    assert [fails_at_once(table, number) for number in (1, 2, 3)] == [False, True, True]


def test_failures_of_steps_that_are_over_take_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of one that ends after it has failed, nor of one whose failure is heard of later."""
    table = step_table(monkeypatch)
    table.fail(1, OutOfRangeError("there"))
    table.fail(2, OutOfRangeError("there"))
    table.end(2)
    table.end(3)
    table.fail(3, OutOfRangeError("there"))
    table.fail(4, OutOfRangeError("there"))
    assert [fails_at_once(table, number) for number in (1, 4)] == [True, True]


async def test_a_step_that_failed_elsewhere_holds_nothing_for_its_pull() -> None:
    async with tasks(Limits(credit_bytes=4000)) as (pair, _):
        a, b = pair.begin()
        a.send(key("large"), np.ones(8000, np.uint8), False)
        assert pair.a.statistics().values_held_for_pull == 1
        b.abort(OutOfRangeError("there"))
        await settle()
        assert pair.a.statistics().values_held_for_pull == 0


async def test_what_is_announced_to_a_step_that_has_failed_costs_nothing() -> None:
    async with tasks(Limits(credit_bytes=4000)) as (pair, _):
        whole = pair.peer_b.statistics().credit_left
        for step in range(1, 30):
            a, b = pair.begin(step)
            # The task that sends has not heard of it yet.
            b._step.table.abort(OutOfRangeError("there"))
            a.send(key("large", step), np.ones(8000, np.uint8), False)
            await settle()
        # But for what is told in the next instalment, an eighth.
        assert pair.peer_b.statistics().tensors_announced == 29
        assert pair.peer_b.statistics().credit_left > whole - 4000 // 8 - ENTRY_BYTES


def test_a_pull_of_a_step_that_has_failed_there_is_none_that_waits() -> None:
    """Its tensor does not come any more: another may be pulled in its place."""
    ledger = TensorLedger(Limits())
    ledger.opened(4000, pulls_max=1)
    assert ledger.may_pull(key("x", 1), "there")
    ledger.pull_sent(key("x", 1))
    ledger.step_failed_there(2)
    with pytest.raises(ResourceExhaustedError, match="as many wait"):
        ledger.may_pull(key("x", 3), "there")
    ledger.step_failed_there(1)
    assert ledger.may_pull(key("x", 3), "there")


async def test_a_step_is_not_at_rest_while_more_credit_would_send() -> None:
    """Tensors sent and received are counted only once nothing more happens by itself."""
    async with tasks(Limits(credit_bytes=4000)) as (pair, _):
        a, b = pair.begin()
        a.send(key("pushed"), np.ones(1000, np.uint8), False)
        a.send(key("announced"), np.ones(8000, np.uint8), False)
        await settle()
        assert pair.a.traffic(1) == (2, 0), "who asks for it can have it"
        for number in range(8):
            a.send(key(f"x{number}"), np.ones(8000, np.uint8), False)
        assert pair.a.traffic(1) is None
        for edge in ("pushed", "announced", *(f"x{number}" for number in range(8))):
            await b.wait_received(key(edge))
        await settle()
        (sent, received), there = pair.a.traffic(1) or (0, 0), pair.b.traffic(1)
        assert there == (received, sent) != (0, 0)


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


def test_what_is_there_before_it_is_expected_is_let_go_of_once() -> None:
    """However it is taken: by then somebody has it, and its credit goes back."""
    table = LocalRendezvous()
    released: list[str] = []
    for edge in ("expected", "taken", "dropped"):
        table.deliver(key(edge), 1, False, partial(released.append, edge))
    table.expect(key("expected").step, {key("expected")[1:5]: 0}, lambda *_: None)
    assert released == ["expected"]
    assert table.take(key("taken")) == (1, False)
    assert released == ["expected", "taken"]
    table.abort(CancelledError("over"))
    assert released == ["expected", "taken", "dropped"]


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
