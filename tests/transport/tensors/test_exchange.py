"""The rendezvous between tasks: pushes, early arrivals, ended steps, incarnations, credit, loss."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core.errors import (
    AbortedError,
    AlreadyExistsError,
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    OutOfRangeError,
    UnavailableError,
)
from flowengine.core.rendezvous import RendezvousKey
from flowengine.testing.links import KEY, identity
from flowengine.testing.rendezvous import check_rendezvous
from flowengine.transport.connection import Connection
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.limits import ENTRY_BYTES, Limits
from flowengine.transport.peer import Peer
from flowengine.transport.streams.inproc import stream_pair
from flowengine.transport.tensors.exchange import Exchange, task_of_device
from flowengine.transport.tensors.rendezvous import LocalRendezvous
from flowengine.transport.tensors.step_rendezvous import StepRendezvous
from flowengine.transport.tensors.steps import EndedSteps
from flowengine.transport.wire.states import Side

A, B = "/job:w/task:0", "/job:w/task:1"
CPU = "/device:CPU:0"


def key(edge: str, step: int = 1, *, source: str = A, target: str = B, incarnation: int = 0) -> RendezvousKey:
    return RendezvousKey(step, source + CPU, incarnation, edge, target + CPU)


class Pair:
    """Two tasks that exchange tensors."""

    def __init__(self) -> None:
        self.a = Exchange(A)
        self.b = Exchange(B)
        self.peer_a: Peer
        self.peer_b: Peer

    async def join(self, nursery: trio.Nursery, limits: Limits | None, lives: tuple[int, int]) -> None:
        near, far = stream_pair()
        now = trio.current_time()
        options: dict[str, Any] = {"now": now, "key": KEY, "limits": limits}
        self.peer_b = Peer(
            near,
            Connection(Side.DIALLER, identity(A, incarnation=lives[0]), address="inproc://b", **options),
            tensors=self.a,
        )
        self.peer_a = Peer(
            far,
            Connection(Side.LISTENER, identity(B, incarnation=lives[1]), address="inproc://a", **options),
            tensors=self.b,
        )
        nursery.start_soon(self.peer_a.run)
        await nursery.start(self.peer_b.run)
        await trio.testing.wait_all_tasks_blocked()

    def begin(self, step: int = 1) -> tuple[StepRendezvous, StepRendezvous]:
        return self.a.begin_step(step), self.b.begin_step(step)


@asynccontextmanager
async def tasks(
    limits: Limits | None = None, *, lives: tuple[int, int] = (10, 11)
) -> AsyncIterator[tuple[Pair, trio.Nursery]]:
    pair = Pair()
    async with trio.open_nursery() as nursery:
        await pair.join(nursery, limits, lives)
        yield pair, nursery
        nursery.cancel_scope.cancel()


async def settle() -> None:
    await trio.testing.wait_all_tasks_blocked()


async def test_tensors_both_ways_and_within_a_task() -> None:
    async with tasks() as (pair, _):
        a, b = pair.begin()
        a.send(key("x"), np.arange(5), False)
        b.send(key("y", source=B, target=A), b"text", False)
        a.send(key("z"), None, True)
        a.send(key("here", target=A), "anything", False)
        value, is_dead = await b.wait_received(key("x"))
        assert value.tolist() == [0, 1, 2, 3, 4]
        assert not is_dead
        assert await a.wait_received(key("y", source=B, target=A)) == (b"text", False)
        assert await b.wait_received(key("z")) == (None, True)
        assert await a.wait_received(key("here", target=A)) == ("anything", False)
        a.send(key("dead here", target=A), None, True)
        assert await a.wait_received(key("dead here", target=A)) == (None, True)


async def test_edges_that_are_received_together_are_asked_for_where_they_must_be() -> None:
    """Those that were announced are pulled, and of those that a lost task owes it is told."""
    async with tasks(Limits(credit_bytes=100_000)) as (pair, _):
        a, b = pair.begin()
        for number in range(20):
            a.send(key(f"x{number}"), np.full(20_000, number, np.uint8), False)
        await settle()
        assert pair.peer_b.statistics().tensors_announced > 10
        told: dict[int, Any] = {}
        errors: list[Exception | None] = []

        def done(number: int, value: Any, is_dead: bool, error: Exception | None) -> None:
            assert not is_dead
            told[number] = value
            if error is not None:
                errors.append(error)

        b.receive_all({key(f"x{number}")[1:5]: number for number in range(20)}, done)
        await settle()
        assert sorted(told) == list(range(20))
        assert all((value == number).all() for number, value in told.items())
        assert errors == []
        pair.peer_b._stream.close()
        await settle()
        b.receive_all({key("late")[1:5]: 20}, done)
        assert len(errors) == 1
        assert "late will not come from /job:w/task:0" in str(errors[0])
        assert told.keys() >= {20}


async def test_a_receiver_may_come_first() -> None:
    async with tasks() as (pair, nursery):
        a, b = pair.begin()
        got: list[Any] = []

        async def receive(edge: str) -> None:
            got.append(await b.wait_received(key(edge)))

        nursery.start_soon(receive, "x")
        nursery.start_soon(receive, "x")
        await settle()
        a.send(key("x"), 1.5, False)
        await settle()
        assert [value for value, _ in got] == [1.5]
        a.send(key("x"), 2.5, False)
        await settle()
        assert [value for value, _ in got] == [1.5, 2.5]


async def test_tensors_that_arrive_before_their_step() -> None:
    async with tasks() as (pair, _):
        a = pair.a.begin_step(5)
        a.send(key("x", 5), np.ones(3), False)
        await settle()
        assert pair.b.statistics().steps_not_begun == 1
        b = pair.b.begin_step(5)
        taken = b.take(key("x", 5))
        assert taken is not None
        assert taken[0].tolist() == [1, 1, 1]
        assert b.take(key("x", 5)) is None


async def test_tensors_of_an_ended_step_are_dropped_and_their_credit_given_back() -> None:
    limits = Limits(credit_bytes=100_000)
    async with tasks(limits) as (pair, _):
        a, _ = pair.begin(3)
        pair.b.end_step(3)
        for number in range(50):
            a.send(key(f"x{number}", 3), np.zeros(10_000, np.uint8), False)
            await settle()
        assert pair.b.statistics().values_dropped >= 7
        assert pair.b.statistics().steps == pair.b.statistics().steps_not_begun == 0
        with pytest.raises(FailedPreconditionError, match="step ids never return"):
            pair.b.begin_step(3)
        pair.a.end_step(3)
        assert pair.a.statistics().values_held_for_pull == 0
        pair.a.begin_step(4)
        with pytest.raises(FailedPreconditionError, match="begun already"):
            pair.a.begin_step(4)


async def test_above_the_credit_tensors_are_announced_and_pulled() -> None:
    async with tasks(Limits(credit_bytes=100_000)) as (pair, _):
        a, b = pair.begin()
        for number in range(40):
            a.send(key(f"x{number}"), np.full(20_000, number, np.uint8), False)
        a.send(key("large"), np.ones(1_000_000, np.uint8), False)
        await settle()
        counted = pair.peer_b.statistics()
        assert 0 < counted.tensors_pushed < 5
        assert counted.tensors_announced > 30
        assert pair.a.statistics().values_held_for_pull == counted.tensors_announced
        # The last first: nothing that is awaited stands behind what is not.
        assert (await b.wait_received(key("large")))[0].sum() == 1_000_000
        for number in reversed(range(40)):
            value, _ = await b.wait_received(key(f"x{number}"))
            assert (value == number).all()
        assert pair.a.statistics().values_held_for_pull == 0
        assert pair.peer_b.statistics().tensors_pulled == counted.tensors_announced


@pytest.mark.parametrize("sizes", [(20_000, 20_000), (90_000, 90_000), (90_000, 1000), (1000, 90_000)])
async def test_a_key_that_holds_a_value_takes_no_other(sizes: tuple[int, int]) -> None:
    """However each of the two travels: pushed, or announced because the credit does not reach."""
    async with tasks(Limits(credit_bytes=100_000)) as (pair, _):
        a, b = pair.begin()
        first, second = (np.full(size, mark, np.uint8) for mark, size in enumerate(sizes))
        a.send(key("x"), first, False)
        await settle()
        caught: list[Exception] = []
        for end in (partial(a.send, key("x"), second, False), partial(b.take, key("x"))):
            try:
                end()
            except AlreadyExistsError as error:
                caught.append(error)
            await settle()
        assert caught
        assert "x was sent twice" in str(caught[0])


async def test_what_is_held_goes_in_the_order_in_which_it_was_sent() -> None:
    """A small tensor does not overtake a large one that finds no credit: the large one would starve."""
    async with tasks(Limits(credit_bytes=4000)) as (pair, _):
        a, b = pair.begin()
        a.send(key("first"), np.ones(1000, np.uint8), False)
        a.send(key("waits"), np.ones(2400, np.uint8), False)  # finds credit for its announcement
        a.send(key("large"), np.ones(2400, np.uint8), False)
        await settle()
        for number in range(6):
            a.send(key(f"small{number}"), np.ones(10, np.uint8), False)
        await settle()
        pushed = pair.peer_b.statistics().tensors_pushed
        assert pushed == 1
        # A part of the credit comes back: it covers a small one and not the large one before it.
        assert b.take(key("first")) is not None
        pair.peer_a.flush()
        await settle()
        assert pair.peer_b.statistics().credit_left > 1000 + 10 + ENTRY_BYTES
        assert pair.peer_b.statistics().tensors_pushed == pushed


async def test_without_credit_even_for_announcements_everything_still_arrives() -> None:
    async with tasks(Limits(credit_bytes=4000)) as (pair, nursery):
        a, b = pair.begin()
        count = 60
        got: dict[int, int] = {}

        async def receive(number: int) -> None:
            value, _ = await b.wait_received(key(f"x{number}"))
            got[number] = int(value[0])

        for number in range(0, count, 2):
            nursery.start_soon(receive, number)
        await settle()
        for number in range(count):
            a.send(key(f"x{number}"), np.full(3000, number), False)
        await settle()
        assert sorted(got) == list(range(0, count, 2))
        for number in reversed(range(1, count, 2)):
            nursery.start_soon(receive, number)
        await settle()
        assert got == {number: number for number in range(count)}
        # And what is sent only after it was asked for.
        nursery.start_soon(receive, 1000)
        await settle()
        a.send(key("x1000"), np.full(3000, 1000), False)
        await settle()
        assert got[1000] == 1000
        pair.a.end_step(1)
        pair.b.end_step(1)
        await settle()
        assert pair.peer_b.is_open


async def test_the_credit_comes_back() -> None:
    async with tasks(Limits(credit_bytes=50_000)) as (pair, _):
        for step in range(1, 200):
            a, b = pair.begin(step)
            a.send(key("x", step), np.zeros(5000, np.uint8), False)
            if step % 3:
                await b.wait_received(key("x", step))
            pair.a.end_step(step)
            pair.b.end_step(step)
            await settle()
        assert pair.peer_b.statistics().tensors_pushed > 190
        assert pair.a.statistics().ranges_ended == 1


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


async def test_a_cancelled_receiver_leaves_the_value_there() -> None:
    async with tasks() as (pair, _):
        a, b = pair.begin()
        with trio.move_on_after(0.01) as scope:
            await b.wait_received(key("x"))
        assert scope.cancelled_caught
        a.send(key("x"), 4, False)
        assert (await b.wait_received(key("x")))[0] == 4


async def test_a_large_tensor_of_an_ended_step_is_not_sent_on() -> None:
    async with tasks() as (pair, _):
        a, _ = pair.begin()
        a.send(key("x"), np.zeros(20_000_000, np.uint8), False)
        pair.a.end_step(1)
        await settle()
        assert pair.peer_b.statistics().bytes_sent < 2_000_000
        assert pair.peer_b.statistics().credit_left > 32 << 20
        assert pair.b.statistics().values_waiting == 0


async def test_a_value_that_cannot_travel_fails_at_its_send() -> None:
    async with tasks() as (pair, _):
        a, _ = pair.begin()
        with pytest.raises(InvalidArgumentError, match="only tensors can"):
            a.send(key("x"), object(), False)
        a.send(key("x"), 1, False)


async def test_both_kinds_of_rendezvous_keep_their_promises() -> None:
    async def local() -> tuple[LocalRendezvous, LocalRendezvous]:
        table = LocalRendezvous()
        return table, table

    await check_rendezvous(local, key)
    for limits in (None, Limits(credit_bytes=1600)):
        async with tasks(limits) as (pair, _):
            await check_rendezvous(*steps_of(pair))


def steps_of(pair: Pair) -> tuple[Any, Any]:
    """A new step of a pair each time, and keys of the latest."""
    step = 0

    async def make_pair() -> tuple[StepRendezvous, StepRendezvous]:
        nonlocal step
        step += 1
        return pair.begin(step)

    return make_pair, lambda edge: key(edge, step)


async def test_the_local_table() -> None:
    table = LocalRendezvous()
    table.send(key("x"), 1, False)
    with pytest.raises(AlreadyExistsError, match="x was sent twice"):
        table.send(key("x"), 2, False)
    assert await table.wait_received(key("x")) == (1, False)
    released: list[int] = []
    table.deliver(key("y"), 1, False, lambda: released.append(1))
    table.abort(AbortedError("over"))
    table.abort(AbortedError("again"))
    table.deliver(key("z"), 1, False, lambda: released.append(2))
    assert released == [1, 2]
    with pytest.raises(AbortedError, match="over"):
        await table.wait_received(key("y"))
    assert len(table) == 0


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
