"""The receives that the partitions of one step wait for, and their end when none can send any more.

A Recv that waits is an entry here, not a trio task. When all partitions of a step only wait for each other,
the awaited tensors will never be sent: for example by a loop with a variable that was dead from the start and
so is in no later iteration. On one device its consumers would simply never run; here the Recvs are given up,
innermost and oldest first, until something moves again or the step is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

from flowengine.core.arrays import Value
from flowengine.core.rendezvous import Received, Rendezvous
from flowengine.runtime.frames import IterationState
from flowengine.runtime.planning.items import Item
from flowengine.runtime.state import ExecutorState
from flowengine.transport.tensors.routes import Route

K = TypeVar("K")

#: The key of a Recv: its place in construction order, and the serial of its iteration.
Key: TypeAlias = tuple[int, int]
#: The place of a Recv, the innermost and oldest first: (minus its depth, numbers of the iterations).
Place: TypeAlias = tuple[int, tuple[int, ...]]


class StepGroup(Protocol):
    """A step's partitions in this process, as the initiator of the step sees them: see `Group`."""

    @property
    def is_asleep(self) -> bool: ...

    def first(self) -> Place | None: ...

    def give_up(self, first: Place) -> None: ...


class ReceiveTable(Protocol):
    """The Recvs of one partition, as its executor sees them.

    waiting   {key: (the Recv, its iteration)}
    """

    waiting: dict[Key, tuple[Item, IterationState]]

    def awaited(self, item: Item, iteration: IterationState) -> Received:
        """Return the function to call with the value that a Recv waits for."""

    def is_settled(self) -> bool:
        """Return True if the partition need not sleep. Called when it only waits for Recvs."""


class PartitionExecutor(Protocol):
    """The executor of a partition, as its Recvs see it: see `Executor`."""

    state: ExecutorState

    def received(self, item: Item, iteration: IterationState, value: Any, is_dead: bool) -> None: ...

    def end_with(self, error: Exception) -> None: ...

    def wake(self) -> None: ...


class Receives:
    """The Recvs that one partition waits with.

    waiting    {key: (the Recv, its iteration)}
    """

    __slots__ = ("_executor", "_group", "waiting")

    def __init__(self, group: Group | None) -> None:
        """`group` has the other partitions, if all of them are in this process."""
        self.waiting: dict[Key, tuple[Item, IterationState]] = {}
        self._group = group
        self._executor: PartitionExecutor | None = None

    def serve(self, executor: PartitionExecutor) -> None:
        """Set the executor of these Recvs."""
        self._executor = executor
        if self._group is not None:
            self._group.join(self)

    def awaited(self, item: Item, iteration: IterationState) -> Received:
        """Register a Recv that waits, and return the callback for its value."""
        key = (item.order, iteration.serial)
        self.waiting[key] = (item, iteration)
        return partial(self.come, key)

    def come(self, key: Key, value: Any, is_dead: bool, error: Exception | None) -> None:
        """Take the value that a Recv waits for."""
        executor = self._executor
        if executor is None:
            return  # the step is over
        found = self.waiting.pop(key, None)
        if found is None:
            return  # given up
        self.has_work()
        if error is not None:
            executor.end_with(error)
        else:
            executor.received(*found, value, is_dead)

    def has_work(self) -> None:
        """Wake the partition, which slept with nothing to do."""
        if self._group is not None:
            self._group.has_work(self)

    def is_settled(self) -> bool:
        """Return True if the partition need not sleep. Called when it only waits for Recvs.

        It need not if all partitions were about to, and some of its own Recvs were given up.
        """
        return self._group is not None and self._group.sleeps(self)

    def places(self) -> list[tuple[Place, Key]]:
        """Return the place of each Recv."""
        return places_of(self.waiting)

    def give_up_those(self, keys: Iterable[Key]) -> None:
        """Give up these Recvs: their values will not come."""
        executor = self._executor
        assert executor is not None
        for key in keys:
            _, iteration = self.waiting.pop(key)
            executor.state.give_up(iteration)
        executor.wake()

    def finish(self, *, failed: bool = False) -> None:
        """End the partition, which is done or has failed; later values for it are dropped."""
        self._executor = None
        self.waiting.clear()
        if self._group is not None:
            self._group.leave(self, failed=failed)


def places_of(waiting: Mapping[Key, tuple[Item, IterationState]]) -> list[tuple[Place, Key]]:
    """Return the place of each Recv that waits."""
    return [
        ((-len(tag), tuple(number for _, number in tag)), key)
        for key, (_, iteration) in waiting.items()
        for tag in (iteration.tag(),)
    ]


class Group:
    """The partitions of a step that runs in this process as a whole."""

    __slots__ = ("_asleep", "_has_begun", "_members", "_over")

    def __init__(self) -> None:
        self._members: set[Receives] = set()
        self._has_begun = False
        self._asleep: set[Receives] = set()
        self._over = False

    def join(self, exchange: Receives) -> None:
        self._members.add(exchange)
        self._has_begun = True

    def leave(self, exchange: Receives, *, failed: bool) -> None:
        """End one partition; if the others all sleep they are checked again.

        If it has failed the others end, too: their awaited values do not matter any more.
        """
        self._members.discard(exchange)
        self._asleep.discard(exchange)
        if failed:
            self._asleep.clear()
            self._over = True
        if not self._over and self._members and self._asleep >= self._members:
            self._give_up()

    def has_work(self, exchange: Receives) -> None:
        self._asleep.discard(exchange)

    def sleeps(self, exchange: Receives) -> bool:
        """Let one partition sleep; return True if it was given something to do instead."""
        self._asleep.add(exchange)
        if self._over or not self._asleep >= self._members:
            return False
        self._give_up()
        return exchange not in self._asleep

    def _give_up(self) -> None:
        """Give up the Recvs of the deepest frames, the oldest there, because nobody can send any more."""
        first = self.first()
        if first is not None:
            self.give_up(first)

    @property
    def is_asleep(self) -> bool:
        """Return whether all partitions have begun, and none has anything to do but to wait."""
        return self._has_begun and self._asleep >= self._members

    def first(self) -> Place | None:
        """Return the place of the Recvs to give up first; None if there is none."""
        return min((place for place, _, _ in self._places()), default=None)

    def give_up(self, first: Place) -> None:
        """Give up the Recvs at this place: their values will not come."""
        chosen: dict[Receives, list[Key]] = {}
        for place, member, key in self._places():
            if place == first:
                chosen.setdefault(member, []).append(key)
        for member, keys in chosen.items():
            self._asleep.discard(member)
            member.give_up_those(keys)

    def _places(self) -> list[tuple[Place, Receives, Key]]:
        return [(place, member, key) for member in self._members for place, key in member.places()]


class JointGroup(Group):
    """The local partitions of a step that others take part in: nobody here knows when all sleep.

    The initiator of the step asks, and decides when to give up Recvs.
    """

    __slots__ = ()

    def leave(self, exchange: Receives, *, failed: bool) -> None:
        self._members.discard(exchange)
        self._asleep.discard(exchange)

    def sleeps(self, exchange: Receives) -> bool:
        self._asleep.add(exchange)
        return False


class EdgeRendezvous(Rendezvous, Protocol):
    """A rendezvous that takes all tensors of a step that are not in a loop in one call."""

    def send_along(self, route: Route, value: Value) -> None:
        """Send a live value along an edge, as `send` does."""

    def receive_all(
        self, routes: Mapping[Route, K], done: Callable[[K, Value, bool, Exception | None], None]
    ) -> None:
        """Have `done` called with the value of each of these edges, and its key.

        At once for present values; at most once for each; with the error for values that will not come.
        """


__all__ = [
    "EdgeRendezvous",
    "Group",
    "JointGroup",
    "Key",
    "Place",
    "ReceiveTable",
    "Receives",
    "StepGroup",
    "places_of",
]
