"""A rendezvous that counts a step's sends and copies, for steps whose metadata is requested."""

from __future__ import annotations

from flowengine.core.arrays import Value
from flowengine.core.rendezvous import Received, Rendezvous, RendezvousKey


class CountedRendezvous:
    """A rendezvous that counts its sends and copies: {(edge, target): (times, bytes)}."""

    def __init__(self, inner: Rendezvous) -> None:
        self._inner = inner
        self.counts: dict[tuple[str, str], tuple[int, int]] = {}

    def count(self, edge: str, target: str, value: Value) -> None:
        times, size = self.counts.get((edge, target), (0, 0))
        self.counts[edge, target] = (times + 1, size + int(getattr(value, "nbytes", 0)))

    def send(self, key: RendezvousKey, value: Value, is_dead: bool) -> None:
        self.count(key.edge, key.target_device, None if is_dead else value)
        self._inner.send(key, value, is_dead)

    async def wait_received(self, key: RendezvousKey) -> tuple[Value, bool]:
        return await self._inner.wait_received(key)

    def receive(self, key: RendezvousKey, done: Received) -> None:
        self._inner.receive(key, done)

    def abort(self, error: Exception) -> None:
        self._inner.abort(error)

    def forget(self) -> None:
        self._inner.forget()


__all__ = ["CountedRendezvous"]
