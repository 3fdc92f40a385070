"""Two connections against a model: any order of wishes, any cut of bytes, a break at any moment."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from flowengine.core.errors import CancelledError, InvalidArgumentError
from flowengine.core.rendezvous import RendezvousKey
from flowengine.transport import events as e
from flowengine.transport.connection import Connection
from flowengine.transport.errors import ConnectionLostError, LocalProtocolError
from flowengine.transport.limits import ENTRY_BYTES, INLINE_BYTES_MAX, Limits
from flowengine.transport.tensors.credit import push_cost
from flowengine.transport.wire.payload import Payload
from flowengine.transport.wire.states import State
from tests.effort import examples
from tests.tools.links import ConnectionLink

LIMITS = Limits(
    calls_max=4,
    request_bytes_max=400_000,
    credit_bytes=600_000,
    message_bytes_max=300_000,
    incoming_bytes_max=300_000,
    streams_max=2,
)
sizes = st.sampled_from([0, 1, 100, INLINE_BYTES_MAX, INLINE_BYTES_MAX + 1, 150_000, 290_000])
sides = st.sampled_from([0, 1])


def tensor(size: int, mark: int) -> Any:
    return np.full(size, mark % 251, np.uint8)


class Side:
    """The model's knowledge of one side."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        #: {call: (mark, size)} made and neither answered nor cancelled
        self.asked: dict[e.OutgoingCall, tuple[int, int]] = {}
        self.cancelled: set[e.OutgoingCall] = set()
        #: {number: mark} that came and wait for our answer
        self.to_answer: dict[int, int] = {}
        #: {mark: what} answered here, so what the other side must get
        self.answers: dict[int, int | str] = {}
        #: keys pushed, announced and pulled here
        self.pushed: dict[RendezvousKey, int] = {}
        self.announced: dict[RendezvousKey, int] = {}
        self.wanted: set[RendezvousKey] = set()
        self.received: dict[RendezvousKey, int] = {}
        self.charged = 0
        self.taken = 0
        self.costs: list[int] = []


class ConnectionMachine(RuleBasedStateMachine):
    @initialize(piece=st.integers(1, 100))
    def start(self, piece: int) -> None:
        self.begin(piece)

    def begin(self, piece: int) -> None:
        self.link = ConnectionLink(limits=LIMITS)
        self.link.settle(piece=piece)
        self.link.dialler.take_events()
        self.link.listener.take_events()
        self.sides = [Side(self.link.dialler), Side(self.link.listener)]
        self.marks = 0
        self.is_over = False

    @precondition(lambda self: self.is_over)
    @rule(piece=st.integers(1, 100))
    def dial_again(self, piece: int) -> None:
        self.begin(piece)

    def mark(self) -> int:
        self.marks += 1
        return self.marks

    # Wishes.

    @precondition(lambda self: not self.is_over)
    @rule(index=sides, size=sizes)
    def call(self, index: int, size: int) -> None:
        side, mark = self.sides[index], self.mark()
        payload = Payload([tensor(size, mark)])
        if not side.connection.calls.has_room(payload):
            return
        side.asked[side.connection.calls.request("method", [mark, size], payload)] = (mark, size)

    @precondition(lambda self: not self.is_over and any(side.asked for side in self.sides))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        side = data.draw(st.sampled_from([side for side in self.sides if side.asked]))
        call = data.draw(st.sampled_from(list(side.asked)))
        del side.asked[call]
        side.cancelled.add(call)
        side.connection.calls.cancel(call)

    @precondition(lambda self: not self.is_over and any(side.to_answer for side in self.sides))
    @rule(data=st.data(), size=sizes, how=st.sampled_from(["reply", "fail"]))
    def answer(self, data: st.DataObject, size: int, how: str) -> None:
        side = data.draw(st.sampled_from([side for side in self.sides if side.to_answer]))
        number = data.draw(st.sampled_from(list(side.to_answer)))
        mark = side.to_answer.pop(number)
        if how == "reply":
            side.connection.requests.reply(number, mark, Payload([tensor(size, mark)]))
            side.answers[mark] = size
        else:
            side.connection.requests.fail(number, InvalidArgumentError(f"mark {mark}"))
            side.answers[mark] = f"mark {mark}"
        try:
            side.connection.requests.fail(number, CancelledError("again"))
        except InvalidArgumentError:
            return
        raise AssertionError("a call was answered twice")

    @precondition(lambda self: not self.is_over)
    @rule(index=sides, size=sizes, step=st.integers(1, 3))
    def push_or_announce(self, index: int, size: int, step: int) -> None:
        side, mark = self.sides[index], self.mark()
        key = RendezvousKey(step, "/a", 1, f"edge{mark}", "/b", (("loop", mark),))
        payload = Payload([tensor(size, mark)])
        if side.connection.tensors.may_push(payload):
            side.connection.tensors.push(key, payload, False)
            side.pushed[key] = size
            side.charged += push_cost(size)
        elif side.connection.tensors.may_announce():
            side.connection.tensors.announce(key, size)
            side.announced[key] = size
            side.charged += ENTRY_BYTES
        else:
            side.connection.tensors.overflow()

    @precondition(lambda self: not self.is_over)
    @rule(index=sides, size=sizes, step=st.integers(1, 3))
    def deliver(self, index: int, size: int, step: int) -> None:
        side, mark = self.sides[index], self.mark()
        key = RendezvousKey(step, "/a", 1, f"edge{mark}", "/b")
        if side.connection.deliveries.deliver(key[1:5], step, tensor(size, mark), False):
            side.pushed[key] = size
            side.charged += push_cost(size)

    @precondition(lambda self: not self.is_over and any(side.costs for side in self.sides))
    @rule(data=st.data())
    def take_a_tensor(self, data: st.DataObject) -> None:
        side = data.draw(st.sampled_from([side for side in self.sides if side.costs]))
        cost = side.costs.pop()
        side.taken += cost
        side.connection.tensors.give_back(cost)

    # Bytes.

    @precondition(lambda self: not self.is_over)
    @rule(index=sides, count=st.integers(1, 200_000), piece=st.sampled_from([1 << 20, 50_000, 977]))
    def carry(self, index: int, count: int, piece: int) -> None:
        self.link.move(self.sides[index].connection, bytes_max=count, piece=piece)
        self.look()

    @precondition(lambda self: not self.is_over)
    @rule()
    def carry_everything(self) -> None:
        while self.link.move(self.link.dialler) + self.link.move(self.link.listener):
            self.look()
        self.look()
        for side, other in (self.sides, self.sides[::-1]):
            # Whatever was asked has come, whatever was answered is known.
            assert not [mark for mark, _ in side.asked.values() if mark in other.answers]
            assert {mark for mark, _ in side.asked.values()} <= set(other.to_answer.values())
            assert all(key in other.received for key in side.pushed)
            assert side.connection.tensors.credit_left >= LIMITS.credit_bytes - side.charged
            assert side.connection.queued_bytes == 0

    def look(self) -> None:
        for side, other in (self.sides, self.sides[::-1]):
            for event in side.connection.take_events():
                self.see(side, other, event)

    def see(self, side: Side, other: Side, event: e.Event) -> None:
        if isinstance(event, e.CallArrival):
            mark, size = event.arguments
            assert np.array_equal(event.tensors[0], tensor(size, mark))
            side.to_answer[event.call] = mark
        elif isinstance(event, e.CallCancellation):
            mark = side.to_answer.pop(event.call)
            side.connection.requests.fail(event.call, CancelledError("as wished"))
        elif isinstance(event, e.CallAnswer):
            assert event.call not in side.cancelled
            mark, _ = side.asked.pop(event.call)
            answer = other.answers.pop(mark)
            if event.error is not None:
                assert event.error.message == answer
            else:
                assert event.result == mark
                assert np.array_equal(event.tensors[0], tensor(int(answer), mark))
        elif isinstance(event, e.TensorArrival):
            assert event.key not in side.received
            size = side.received[event.key] = (other.pushed | other.announced)[event.key]
            mark = int(event.key.edge.removeprefix("edge"))
            assert np.array_equal(event.value, tensor(size, mark))
            if event.cost:
                side.costs.append(event.cost)
        elif isinstance(event, e.Announcement):
            assert other.announced[event.key] == event.size
            side.costs.append(event.cost)
            side.wanted.add(event.key)
            side.connection.tensors.pull(event.key)
            side.connection.tensors.pull(event.key)
        elif isinstance(event, e.TensorPull):
            size = side.announced[event.key]
            side.connection.tensors.answer_pull(
                event.key, Payload([tensor(size, event.key.path[0][1])]), False
            )
            try:
                side.connection.tensors.answer_pull(event.key, Payload(), True)
            except InvalidArgumentError:
                return
            raise AssertionError("a pull was answered twice")

    # Ends.

    @precondition(lambda self: not self.is_over)
    @rule(index=sides)
    def goodbye(self, index: int) -> None:
        side, other = self.sides[index], self.sides[1 - index]
        side.connection.goodbye("enough")
        self.link.move(side.connection)
        assert other.connection.take_events()[-1] == e.Goodbye("enough")
        assert other.connection.state is State.LEFT
        other.connection.goodbye()
        self.link.move(other.connection)
        self.is_over = True
        for each in (side, other):
            assert each.connection.state is State.CLOSED
            each.connection.receive_end()
            try:
                each.connection.calls.request("more", None, Payload())
            except LocalProtocolError:
                continue
            raise AssertionError("a closed connection took a call")

    @precondition(lambda self: not self.is_over)
    @rule(index=sides, count=st.integers(0, 100_000))
    def cut(self, index: int, count: int) -> None:
        """The link breaks after some more bytes: what came whole is still known, and nothing is held."""
        side, other = self.sides[index], self.sides[1 - index]
        self.link.move(side.connection, bytes_max=max(1, count))
        self.look()
        for each in (side, other):
            try:
                each.connection.receive_end()
            except ConnectionLostError:
                assert each.connection.state is State.CLOSED
            else:
                raise AssertionError("a connection lost its other end and said nothing")
            assert each.connection.receive_buffers() == []
            assert each.connection.data_to_send() == []
            assert each.connection.requests.waiting == each.connection.calls.waiting == 0
        self.is_over = True

    @invariant()
    def limits_are_kept(self) -> None:
        if not hasattr(self, "sides") or self.is_over:
            return
        for side in self.sides:
            connection = side.connection
            assert connection.state is State.OPEN
            assert connection.calls.waiting <= LIMITS.calls_max
            assert connection.requests.waiting <= LIMITS.calls_max
            assert 0 <= connection.tensors.credit_left <= LIMITS.credit_bytes
            assert 0 <= connection.tensors.credit_given <= LIMITS.credit_bytes


TestConnectionMachine = ConnectionMachine.TestCase
TestConnectionMachine.settings = settings(max_examples=examples(60), stateful_step_count=40)
