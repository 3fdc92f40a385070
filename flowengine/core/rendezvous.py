"""The meeting place of Send and Recv: its protocol and its keys. The table itself is in `transport`.

A producer never waits. A consumer may ask before or after the value is there. A value is taken once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

from flowengine.core.arrays import Value

#: What `receive` calls: value, dead bit, and the error instead of them or None.
Received: TypeAlias = Callable[[Value, bool, Exception | None], None]


class RendezvousKey(NamedTuple):
    """The key that both ends compute alike. `path` is ((frame name, iteration), ...) from the root in."""

    step: int
    source_device: str
    source_incarnation: int
    edge: str
    target_device: str
    path: tuple[tuple[str, int], ...] = ()


class Rendezvous(Protocol):
    """One step's values in flight between partitions."""

    def send(self, key: RendezvousKey, value: Value, is_dead: bool) -> None:
        """Leave a value; AlreadyExistsError if the key holds one."""

    async def wait_received(self, key: RendezvousKey) -> tuple[Value, bool]:
        """Take the value and its dead bit, waiting for it; cancelled, it leaves the value there."""

    def receive(self, key: RendezvousKey, done: Received) -> None:
        """Have `done` called once with the value, at once or when it is there, or with the error.

        What a step's partition waits with: a task for each awaited tensor would cost more than most
        tensors. `done` must neither wait nor raise.
        """

    def abort(self, error: Exception) -> None:
        """Fail every waiter, present and to come, with this error."""

    def forget(self) -> None:
        """Drop the error of `abort`, whose frames may know this table: all partitions have ended."""
