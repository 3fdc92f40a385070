"""Checks of any rendezvous: it must keep the promises of `flowengine.core.rendezvous.Rendezvous`.

    await check_rendezvous(make_pair)       make_pair() -> (where values are sent, where they are received)

The two are the same object for a rendezvous within one task.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count

import numpy as np
import trio
import trio.testing

from flowengine.core.errors import AbortedError, AlreadyExistsError
from flowengine.core.rendezvous import Rendezvous, RendezvousKey

MakePair = Callable[[], Awaitable[tuple[Rendezvous, Rendezvous]]]
MakeKey = Callable[[str], RendezvousKey]


async def check_rendezvous(make_pair: MakePair, make_key: MakeKey) -> None:
    """Run every check on new pairs.

    make_pair   a coroutine function that returns a new rendezvous for each side
    make_key    a function of an edge's name that returns a key from the first side to the second

    Raises AssertionError that says what is broken.

    >>> from flowengine.core.rendezvous import RendezvousKey
    >>> from flowengine.transport.tensors.rendezvous import LocalRendezvous
    >>> async def make_pair():
    ...     table = LocalRendezvous()
    ...     return table, table
    >>> trio.run(fe.testing.check_rendezvous, make_pair, lambda edge: RendezvousKey(1, "a", 1, edge, "b"))
    """
    for check in (
        _check_values_come_once,
        _check_receivers_first,
        _check_cancelled_receivers,
        _check_duplicates,
        _check_callbacks,
        _check_abort,
    ):
        sender, receiver = await make_pair()
        with trio.fail_after(20):
            await check(sender, receiver, make_key)


async def _check_values_come_once(sender: Rendezvous, receiver: Rendezvous, make_key: MakeKey) -> None:
    for number, (value, is_dead) in enumerate(((np.arange(6).reshape(2, 3), False), (None, True))):
        sender.send(make_key(f"edge{number}"), value, is_dead)
        got, was_dead = await receiver.wait_received(make_key(f"edge{number}"))
        assert was_dead == is_dead, "the dead bit was lost"
        assert is_dead or np.array_equal(got, np.asarray(value)), "the value was changed"
    with trio.move_on_after(0.02) as scope:
        await receiver.wait_received(make_key("edge0"))
    assert scope.cancelled_caught, "a value was received twice"


async def _check_receivers_first(sender: Rendezvous, receiver: Rendezvous, make_key: MakeKey) -> None:
    order: list[int] = []
    turns = count()

    async def receive() -> None:
        turn = next(turns)
        value, _ = await receiver.wait_received(make_key("edge"))
        assert value == turn, "receivers of one key were served out of turn"
        order.append(turn)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(receive)
            await trio.testing.wait_all_tasks_blocked()
        for number in range(3):
            sender.send(make_key("edge"), np.int32(number), False)
            await trio.testing.wait_all_tasks_blocked()
    assert sorted(order) == [0, 1, 2]


async def _check_cancelled_receivers(sender: Rendezvous, receiver: Rendezvous, make_key: MakeKey) -> None:
    with trio.move_on_after(0.02):
        await receiver.wait_received(make_key("edge"))
    sender.send(make_key("edge"), np.float32(2), False)
    assert (await receiver.wait_received(make_key("edge")))[0] == 2, "a cancelled receiver took the value"


async def _check_duplicates(sender: Rendezvous, receiver: Rendezvous, make_key: MakeKey) -> None:
    """A key that holds a value takes no other: the second sender fails, or the step does."""
    sender.send(make_key("edge"), np.float32(1), False)
    try:
        sender.send(make_key("edge"), np.float32(2), False)
    except AlreadyExistsError:
        return
    await trio.testing.wait_all_tasks_blocked(0.01)
    try:
        await receiver.wait_received(make_key("other"))
    except AlreadyExistsError:
        return
    raise AssertionError("a key was sent twice and nobody was told")


async def _check_callbacks(sender: Rendezvous, receiver: Rendezvous, make_key: MakeKey) -> None:
    """`receive` calls back once, whether asked before the value is there or after, and when aborted."""
    got: list[tuple[object, bool, Exception | None]] = []

    def done(value: object, is_dead: bool, error: Exception | None) -> None:
        got.append((value, is_dead, error))

    receiver.receive(make_key("later"), done)
    await trio.testing.wait_all_tasks_blocked()
    assert not got, "called back without a value"
    sender.send(make_key("later"), np.float32(3), False)
    sender.send(make_key("dead"), None, True)
    await trio.testing.wait_all_tasks_blocked(0.01)
    receiver.receive(make_key("dead"), done)
    receiver.receive(make_key("never"), done)
    await trio.testing.wait_all_tasks_blocked(0.01)
    sender.abort(AbortedError("enough"))
    await trio.testing.wait_all_tasks_blocked(0.01)
    receiver.receive(make_key("late"), done)
    await trio.testing.wait_all_tasks_blocked()
    assert [value for value, is_dead, error in got if not is_dead and error is None] == [3]
    assert [is_dead for _, is_dead, _ in got] == [False, True, False, False], "the dead bit was lost"
    assert [type(error) for *_, error in got] == [type(None)] * 2 + [AbortedError] * 2


async def _check_abort(sender: Rendezvous, receiver: Rendezvous, make_key: MakeKey) -> None:
    errors: list[AbortedError] = []

    async def receive(edge: str) -> None:
        try:
            await receiver.wait_received(make_key(edge))
        except AbortedError as error:
            errors.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive, "before")
        await trio.testing.wait_all_tasks_blocked()
        sender.abort(AbortedError("the first reason"))
        sender.abort(AbortedError("another"))
        await trio.testing.wait_all_tasks_blocked()
        await receive("after")
    assert [error.message for error in errors] == ["the first reason"] * 2, "an abort did not reach everybody"
    sender.send(make_key("late"), np.float32(1), False)


__all__ = ["check_rendezvous"]
