"""The rendezvous between tasks: pushes, early arrivals, ended steps, incarnations, credit, loss."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

from flowengine.core.errors import (
    AbortedError,
    AlreadyExistsError,
    FailedPreconditionError,
    InvalidArgumentError,
)
from flowengine.testing.rendezvous import check_rendezvous
from flowengine.transport.limits import ENTRY_BYTES, Limits
from flowengine.transport.tensors.rendezvous import LocalRendezvous
from tests.transport.tensors.exchanging import A, B, key, settle, steps_of, tasks


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
        with pytest.raises(FailedPreconditionError, match="step ids are never reused"):
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


async def test_a_cancelled_receiver_leaves_the_value_there() -> None:
    async with tasks() as (pair, _):
        a, b = pair.begin()
        with trio.move_on_after(0.01) as scope:
            await b.wait_received(key("x"))
        assert scope.cancelled_caught
        a.send(key("x"), 4, False)
        assert (await b.wait_received(key("x")))[0] == 4


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
