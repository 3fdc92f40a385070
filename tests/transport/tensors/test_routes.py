"""Numbered edges: both ends mean the same by a number, and the table stays bounded."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.rendezvous import RendezvousKey
from flowengine.transport import events as e
from flowengine.transport.connection import Connection
from flowengine.transport.tensors import routes
from flowengine.transport.tensors.credit import ReceiverCredit, push_cost
from flowengine.transport.tensors.routes import RoutesIn, RoutesOut
from tests.tools.links import ConnectionLink

DEVICE = "/job:ps/task:0/device:CPU:0"


def key(step: int, edge: str = "edge_1_w") -> RendezvousKey:
    return RendezvousKey(step, DEVICE, 7, edge, "/job:worker/task:0/device:CPU:0")


def deliver(side: Connection, key: RendezvousKey, value: Any, is_dead: bool) -> bool:
    return side.deliveries.deliver(key[1:5], key.step, value, is_dead)


def opened() -> ConnectionLink:
    link = ConnectionLink()
    link.open()
    return link


def test_a_tensor_arrives_as_if_pushed_and_its_edge_is_named_once() -> None:
    link = opened()
    sizes = []
    for step in range(1, 4):
        assert deliver(link.dialler, key(step), np.float32(step), False)
        sizes.append(link.move(link.dialler))
        (event,) = link.listener.take_events()
        assert event == e.TensorArrival(key(step), np.float32(step), False, 4 + 512)
        assert type(event.value) is np.float32
    assert sizes[0] > 100 > 2 * sizes[1]
    assert sizes[1] == sizes[2]


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6, dtype=np.int16).reshape(2, 3),
        np.zeros((0, 3), np.float64),
        np.bool_(True),
        np.array(5, np.uint8),
        b"text",
        np.array([b"a", b""], object),
        np.complex64(1 + 2j),
    ],
)
def test_values_of_all_kinds(value: Any) -> None:
    link = opened()
    assert deliver(link.dialler, key(1), value, False)
    link.settle()
    (event,) = link.listener.take_events()
    assert isinstance(event, e.TensorArrival)
    assert np.array_equal(event.value, value)
    assert np.asarray(event.value).dtype == np.asarray(value).dtype


def test_a_dead_one_and_what_cannot_travel() -> None:
    link = opened()
    assert deliver(link.dialler, key(1), None, True)
    link.settle()
    assert link.listener.take_events() == [e.TensorArrival(key(1), None, True, 512)]
    with pytest.raises(InvalidArgumentError, match="cannot travel"):
        deliver(link.dialler, key(1), object(), False)


def test_what_is_left_to_the_longer_form() -> None:
    link = opened()
    assert not deliver(link.dialler, key(1), np.zeros(100_000, np.uint8), False)
    assert not deliver(link.dialler, key(1, "e" * 1000), np.float32(1), False)
    link.listener.tensors.pull(key(1))
    link.settle()
    assert not deliver(link.dialler, key(1), np.float32(1), False)
    while deliver(link.listener, key(2), np.zeros(60_000, np.uint8), False):
        pass
    assert link.listener.tensors.credit_left < link.listener.limits.credit_bytes // 4 + 61_000
    link.dialler.goodbye()
    assert not deliver(link.dialler, key(1), np.float32(1), False)


def test_a_full_table_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "ROUTES_MAX", 4)
    link = opened()
    for turn in range(20):
        sent = [key(turn, f"edge_{number % 7}") for number in range(turn, turn + 3)]
        for each in sent:
            assert deliver(link.dialler, each, np.int32(turn), False)
        link.settle()
        assert [
            event.key for event in link.listener.take_events() if isinstance(event, e.TensorArrival)
        ] == sent


def test_the_text_of_routes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "ROUTES_TEXT_MAX", 1000)
    here: RoutesOut[int] = RoutesOut()
    there = RoutesIn()
    numbers = []
    for index in range(100):
        route = ("s" * 100, index, f"edge{index}", "t" * (index % 50))
        numbered = here.add(route, lambda number: number)
        number = numbered.number
        assert numbered.kept == number
        numbers.append(number)
        there.define(number, route)
        assert there.key(number, 1)[1:5] == route
        assert here.find(route) is numbered
    # Each time that it begins again there is room for all that fits.
    begun = [place for place, number in enumerate(numbers) if number == 1]
    assert all(later - earlier >= 6 for earlier, later in pairwise(begun))


def test_a_push_may_use_credit_up_to_the_reserve_and_no_byte_beyond() -> None:
    """Along a numbered edge as with its whole key: a quarter is left for announcements."""
    link = opened()
    outgoing = link.dialler.tensors.ledger.credit_out
    size = 1000
    for beyond in (0, 1):
        outgoing.left = outgoing.reserve + push_cost(size) - beyond
        assert outgoing.may_push(size) == (not beyond)
        assert deliver(link.dialler, key(1), np.zeros(size, np.uint8), False) == (not beyond)


def test_credit_is_given_back_in_instalments_of_an_eighth() -> None:
    credit = ReceiverCredit(8000)
    credit.charge(3000)
    assert [credit.give_back(cost) for cost in (999, 1, 500, 499, 1001)] == [0, 1000, 0, 0, 2000]
    assert (credit.left, credit.owed) == (8000, 0)
    link = opened()
    here, there = link.listener.tensors, link.dialler.tensors
    eighth = here.ledger.credit_in.instalment
    there.ledger.credit_out.charge(eighth)
    here.ledger.credit_in.charge(eighth)
    left = there.credit_left
    here.give_back(eighth - 1)
    link.settle()
    assert there.credit_left == left
    here.give_back(1)
    link.settle()
    assert there.credit_left == left + eighth
