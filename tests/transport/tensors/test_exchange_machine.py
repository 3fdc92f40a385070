"""Two exchanges against a model: any order of sends and receives, any cut of bytes, ends and new lives.

In a step that runs at both tasks, a receive gets the values of its key in the order in which they were sent,
as soon as both have happened and all bytes have moved. In no step does a receive get a value twice, or one
that was sent in a former life of its task. The credit that one side has left is what the other still grants
whenever nothing is under way, and all of it is there again when all steps have ended.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from flowengine.core.errors import OutOfRangeError
from flowengine.core.rendezvous import RendezvousKey
from flowengine.transport import events as e
from flowengine.transport.connection import Connection
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.limits import INLINE_BYTES_MAX, Limits
from flowengine.transport.tensors.credit import push_cost
from flowengine.transport.tensors.exchange import Exchange
from flowengine.transport.tensors.step_rendezvous import StepRendezvous
from flowengine.transport.wire.identity import Identity
from flowengine.transport.wire.states import Side, State
from tests.effort import examples
from tests.tools.links import KEY, feed, identity, output

TASKS = ("/job:w/task:0", "/job:w/task:1")
#: Edges that are received one by one, inside and outside a loop, and those that are expected as a whole.
PATHS: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = (
    ("x", ()),
    ("y", ()),
    ("x", (("loop", 3),)),
)
EXPECTED = ("all0", "all1", "all2")
STEPS = 6
SIZES = [0, 8, 1000, INLINE_BYTES_MAX, INLINE_BYTES_MAX + 1, 150_000]

sides = st.sampled_from([0, 1])
steps = st.integers(1, STEPS)


class FakePeer:
    """A stand-in for the peer of an exchange: a connection and identity. Bytes move when a rule says so."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.is_handling = False

    @property
    def identity(self) -> Identity:
        assert self.connection.peer is not None
        return self.connection.peer

    @property
    def is_open(self) -> bool:
        return self.connection.state is State.OPEN

    def flush(self) -> None:
        pass


class Receipt:
    """A receive: what it got."""

    def __init__(self) -> None:
        self.is_called = False
        self.mark: int | None = None
        self.error: Exception | None = None

    def done(self, value: Any, is_dead: bool, error: Exception | None) -> None:
        assert not self.is_called, "a receive was called twice"
        self.is_called = True
        self.error = error
        if error is None:
            self.mark = -1 if is_dead else int(value[0]) if value.size else 0


class KeyValues:
    """The values of one key in the model: marks in the order in which they were sent, and receives."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.receipts: list[Receipt] = []

    @property
    def is_free(self) -> bool:
        """Whether all that was sent has been received."""
        return len(self.sent) == sum(receipt.mark is not None for receipt in self.receipts)


class Task:
    """One task: its exchange and what the model knows of its steps."""

    def __init__(self, name: str, life: int) -> None:
        self.name = name
        self.life = life
        self.exchange = Exchange(name)
        self.peer: Any = None
        self.begun: dict[int, StepRendezvous] = {}
        self.ended: set[int] = set()
        self.expecting: set[int] = set()


class ExchangeLink:
    """Two tasks whose exchanges are joined by bytes; nothing moves but by these methods."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.tasks = [Task(name, 10 + index) for index, name in enumerate(TASKS)]
        self.join()

    def join(self) -> None:
        """Have a new connection."""
        for side, task in zip((Side.DIALLER, Side.LISTENER), self.tasks, strict=True):
            who = identity(task.name, incarnation=task.life)
            task.peer = FakePeer(
                Connection(side, who, address="link://", now=0.0, key=KEY, limits=self.limits)
            )
        self.settle()

    def move(self, index: int, count: int = 1 << 30) -> int:
        """Carry bytes from one task to the other and handle them there."""
        sender, receiver = self.tasks[index], self.tasks[1 - index]
        data = output(sender.peer.connection, bytes_max=count)
        feed(receiver.peer.connection, data)
        receiver.peer.is_handling = True
        for event in receiver.peer.connection.take_events():
            if isinstance(event, e.ConnectionOpened):
                receiver.exchange.peer_opened(receiver.peer)
            elif isinstance(event, e.TensorArrival):
                receiver.exchange.pushed(receiver.peer, event)
            else:
                receiver.exchange.peer_event(receiver.peer, event)
        receiver.peer.is_handling = False
        return len(data)

    def settle(self) -> None:
        """Carry everything; then both sides think the same of the credit."""
        while self.move(0) + self.move(1):
            pass
        for ours, theirs in (self.tasks, self.tasks[::-1]):
            assert ours.peer.connection.tensors.credit_left == theirs.peer.connection.tensors.credit_given

    def begin(self, index: int, step: int) -> None:
        """Begin a step at one task."""
        task = self.tasks[index]
        lives = {each.name: each.life for each in self.tasks}
        task.begun[step] = task.exchange.begin_step(step, lives)

    def end(self, index: int, step: int) -> None:
        """End a step at one task."""
        task = self.tasks[index]
        task.exchange.end_step(step)
        task.begun.pop(step, None)
        task.ended.add(step)

    def restart(self, index: int) -> None:
        """A task's process ends, the steps that it took part in with it, and another takes its place."""
        old, survivor = self.tasks[index], self.tasks[1 - index]
        for task in self.tasks:
            task.peer.connection.close()
        survivor.exchange.peer_lost(survivor.peer, ConnectionLostError("gone"))
        for step in list(survivor.begun):
            self.end(1 - index, step)
        self.tasks[index] = Task(old.name, old.life + 10)
        self.join()

    def key(
        self, source: int, step: int, edge: str, path: Any = (), *, names_life: bool = True
    ) -> RendezvousKey:
        """A key of the life that the source lives."""
        here, there = self.tasks[source], self.tasks[1 - source]
        life = here.life if names_life else 0
        device = "/device:CPU:0"
        return RendezvousKey(step, here.name + device, life, edge, there.name + device, path)

    def send(self, step: int, edge: str, size: int) -> None:
        """Send ones from the first task to the second."""
        self.tasks[0].begun[step].send(self.key(0, step, edge), np.ones(size, np.uint8), False)

    def check_all_is_given_back(self) -> None:
        """With every step over nothing is held, and all of the credit is there again."""
        self.settle()
        for task in self.tasks:
            connection = task.peer.connection
            credit = connection.tensors.ledger.credit_in
            assert credit.left + credit.owed == self.limits.credit_bytes
            assert not connection.tensors.ledger.is_busy
            statistics = task.exchange.statistics()
            assert statistics.steps == statistics.steps_not_begun == statistics.values_waiting == 0


class ExchangeMachine(RuleBasedStateMachine):
    @initialize(credit=st.sampled_from([2000, 8000, 100_000, 600_000]), names_life=st.booleans())
    def start(self, credit: int, names_life: bool) -> None:
        self.names_life = names_life
        self.link = ExchangeLink(Limits(credit_bytes=credit, streams_max=2, message_bytes_max=200_000))
        #: {(step, edge, path, index of the source): its values}
        self.values: dict[tuple[Any, ...], KeyValues] = {}
        #: Steps of which a task was aborted, ended, or lost the other.
        self.spoiled: set[int] = set()
        self.marks = 0

    # Bytes and what they mean.

    @rule(index=sides, count=st.integers(1, 200_000))
    def carry(self, index: int, count: int) -> None:
        self.link.move(index, count)

    @rule()
    def carry_everything(self) -> None:
        self.link.settle()
        for (step, *_), values in self.values.items():
            got = [receipt.mark for receipt in values.receipts if receipt.mark is not None]
            assert got == values.sent[: len(got)]
            if step not in self.spoiled:
                assert not [receipt for receipt in values.receipts if receipt.error is not None]
                assert len(got) == min(len(values.sent), len(values.receipts))

    # Steps.

    @rule(index=sides, step=steps)
    def begin(self, index: int, step: int) -> None:
        task = self.link.tasks[index]
        if step not in task.begun and step not in task.ended:
            self.link.begin(index, step)

    @rule(index=sides, step=steps)
    def end(self, index: int, step: int) -> None:
        self.link.end(index, step)
        self.spoiled.add(step)

    @rule(index=sides, step=steps)
    def abort(self, index: int, step: int) -> None:
        task = self.link.tasks[index]
        if step in task.begun:
            task.begun[step].abort(OutOfRangeError("enough"))
            self.spoiled.add(step)

    def values_of(self, source: int, step: int, edge: str, path: Any) -> KeyValues:
        return self.values.setdefault((step, edge, path, source), KeyValues())

    def key(self, source: int, step: int, edge: str, path: Any) -> RendezvousKey:
        return self.link.key(source, step, edge, path, names_life=self.names_life)

    @rule(
        index=sides,
        step=steps,
        where=st.sampled_from([*PATHS, *((edge, ()) for edge in EXPECTED)]),
        size=st.sampled_from([*SIZES, None]),
    )
    def send(self, index: int, step: int, where: tuple[str, Any], size: int | None) -> None:
        task, values = self.link.tasks[index], self.values_of(index, step, *where)
        if step not in task.begun or not values.is_free or step in self.spoiled:
            return
        self.marks = self.marks % 250 + 1
        mark = -1 if size is None else self.marks if size else 0
        value = None if size is None else np.full(size, self.marks, np.uint8)
        values.sent.append(mark)
        task.begun[step].send(self.key(index, step, *where), value, size is None)

    @rule(index=sides, step=steps, where=st.sampled_from(PATHS))
    def receive(self, index: int, step: int, where: tuple[str, Any]) -> None:
        task = self.link.tasks[index]
        if step in task.begun:
            receipt = Receipt()
            self.values_of(1 - index, step, *where).receipts.append(receipt)
            key = self.key(1 - index, step, *where)
            task.begun[step].receive(key, receipt.done)

    @rule(index=sides, step=steps)
    def expect(self, index: int, step: int) -> None:
        task = self.link.tasks[index]
        if step not in task.begun or step in task.expecting:
            return
        task.expecting.add(step)
        receipts = [Receipt() for _ in EXPECTED]
        routes = {}
        for number, edge in enumerate(EXPECTED):
            self.values_of(1 - index, step, edge, ()).receipts.append(receipts[number])
            routes[self.key(1 - index, step, edge, ())[1:5]] = number
        task.begun[step].receive_all(
            routes, lambda number, value, is_dead, error: receipts[number].done(value, is_dead, error)
        )

    # Lives.

    @rule(index=sides)
    def restart(self, index: int) -> None:
        self.link.restart(index)
        # Nothing that was said in the last life is found by a step that begins later.
        self.values = {}
        self.spoiled = set(self.link.tasks[1 - index].ended)

    def teardown(self) -> None:
        if not hasattr(self, "link"):
            return
        self.carry_everything()
        for step in range(1, STEPS + 1):
            for index in (0, 1):
                self.link.end(index, step)
        self.link.check_all_is_given_back()
        for values in self.values.values():
            assert all(receipt.is_called for receipt in values.receipts), "a receive outlives its step"


TestExchangeMachine = ExchangeMachine.TestCase
TestExchangeMachine.settings = settings(max_examples=examples(150), stateful_step_count=40)


@pytest.mark.parametrize("first", [0, 1])
def test_credit_of_tensors_that_nobody_takes_comes_back_with_the_end_of_the_step(first: int) -> None:
    """Pushed, announced, or held without; the step ends first at the sender, or at the receiver."""
    link = ExchangeLink(Limits(credit_bytes=8000))
    for step in range(1, 9):
        link.begin(0, step)
        link.begin(1, step)
        for number in range(20):
            link.send(step, f"edge{number}", 1000)
        link.settle()
        assert link.tasks[1].exchange.statistics().values_waiting > 0
        link.end(first, step)
        link.settle()
        link.end(1 - first, step)
        link.check_all_is_given_back()


@pytest.mark.parametrize("moved", [0, 100_000, 250_000])
def test_credit_of_streams_that_are_cut_off_comes_back(moved: int) -> None:
    """Some of which the receiver has heard nothing, some that it has begun to receive."""
    link = ExchangeLink(Limits(credit_bytes=4_000_000, streams_max=2, incoming_bytes_max=300_000))
    for step in range(1, 9):
        link.begin(0, step)
        link.begin(1, step)
        for number in range(5):
            link.send(step, f"edge{number}", 150_000)
        if moved:
            link.move(0, moved)
        link.end(0, step)
        link.settle()
        link.end(1, step)
        link.check_all_is_given_back()


def test_credit_of_a_stream_that_never_began_comes_back() -> None:
    """The streams of another step take all the room: the receiver never hears of those that wait."""
    link = ExchangeLink(Limits(credit_bytes=4_000_000, streams_max=2))
    for step in (1, 2):
        link.begin(0, step)
        link.begin(1, step)
        for number in range(3):
            link.send(step, f"edge{number}", 150_000)
    before = link.tasks[0].peer.connection.tensors.credit_left
    link.end(0, 2)
    assert link.tasks[0].peer.connection.tensors.credit_left == before + 3 * push_cost(150_000)
    link.settle()
    assert link.tasks[1].exchange.statistics().values_waiting == 3
    for index, step in ((0, 1), (1, 1), (1, 2)):
        link.end(index, step)
    link.check_all_is_given_back()


def test_what_was_announced_and_is_pushed_after_all_gives_its_credit_back_once() -> None:
    link = ExchangeLink(Limits(credit_bytes=4000))
    link.begin(0, 1)
    link.begin(1, 1)
    link.send(1, "first", 1500)
    link.settle()
    for number in range(12):
        link.send(1, f"edge{number}", 800)
    link.settle()
    announced = link.tasks[0].peer.connection.counters.tensors_announced
    pushed = link.tasks[0].peer.connection.counters.tensors_pushed
    assert announced > 0
    assert pushed == 1
    # What was taken makes room for the first of those that were announced.
    assert link.tasks[1].begun[1].take(link.key(0, 1, "first")) is not None
    link.settle()
    assert link.tasks[0].peer.connection.counters.tensors_pushed > pushed
    assert link.tasks[1].begun[1].take(link.key(0, 1, "edge0")) is not None
    link.settle()
    for index in (0, 1):
        link.end(index, 1)
    link.check_all_is_given_back()


def test_a_step_that_begins_later_finds_nothing_of_a_former_life() -> None:
    """Not even under a key that names no life."""
    link = ExchangeLink(Limits())
    link.begin(0, 5)
    key = link.key(0, 5, "x", names_life=False)
    link.tasks[0].begun[5].send(key, np.ones(3), False)
    link.settle()
    assert link.tasks[1].exchange.statistics().steps_not_begun == 1
    link.restart(0)
    link.begin(1, 5)
    assert link.tasks[1].begun[5].take(key) is None
    receipt = Receipt()
    link.tasks[1].begun[5].receive(key, receipt.done)
    link.begin(0, 5)
    link.tasks[0].begun[5].send(key, np.full(3, 7.0), False)
    link.settle()
    assert receipt.mark == 7
    for index in (0, 1):
        link.end(index, 5)
    link.check_all_is_given_back()


def test_what_a_former_life_announced_is_no_credit_of_the_next() -> None:
    link = ExchangeLink(Limits(credit_bytes=4000))
    link.begin(0, 5)
    keys = [link.key(0, 5, f"edge{number}", names_life=False) for number in range(12)]
    for key in keys:
        link.tasks[0].begun[5].send(key, np.ones(800, np.uint8), False)
    link.settle()
    counters = link.tasks[0].peer.connection.counters
    assert counters.tensors_announced > 0
    pushed = counters.tensors_pushed
    link.restart(0)
    link.begin(0, 5)
    # What was announced is pushed now, and what was pushed is announced.
    for key in keys[pushed:] + keys[:pushed]:
        link.tasks[0].begun[5].send(key, np.full(800, 7, np.uint8), False)
    link.settle()
    link.begin(1, 5)
    receipts = [Receipt() for _ in keys]
    for key, receipt in zip(keys, receipts, strict=True):
        link.tasks[1].begun[5].receive(key, receipt.done)
        link.settle()
    assert [receipt.mark for receipt in receipts] == [7] * len(keys)
    for index in (0, 1):
        link.end(index, 5)
    link.check_all_is_given_back()


@pytest.mark.parametrize("is_taken_first", [True, False])
def test_what_is_held_stays_dead_or_live(is_taken_first: bool) -> None:
    """A dead value that found no credit is dead where it is pulled, and where it is pushed after all."""
    link = ExchangeLink(Limits(credit_bytes=4000))
    for index in (0, 1):
        link.begin(index, 1)
    for number in range(2):
        link.send(1, f"full{number}", 900)
    keys = [link.key(0, 1, f"edge{number}") for number in range(20)]
    for number, key in enumerate(keys):
        is_dead = not number % 2
        link.tasks[0].begun[1].send(key, None if is_dead else np.ones(800, np.uint8), is_dead)
    link.settle()
    assert link.tasks[0].exchange.statistics().values_held_for_pull > 2
    if is_taken_first:
        for number in range(2):
            link.tasks[1].begun[1].take(link.key(0, 1, f"full{number}"))
        link.settle()
    receipts = [Receipt() for _ in keys]
    for key, receipt in zip(keys, receipts, strict=True):
        link.tasks[1].begun[1].receive(key, receipt.done)
    link.settle()
    assert [receipt.mark for receipt in receipts] == [-1, 1] * 10
    for index in (0, 1):
        link.end(index, 1)
    link.check_all_is_given_back()
