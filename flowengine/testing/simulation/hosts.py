"""Simulated machines: what runs on one may crash and be started again, and only the disk outlives it.

A crash takes the connections first and then cancels everything that the host runs, so that nothing that
unwinds is heard of elsewhere. Each start is a new life, with memory and incarnation of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from pathlib import Path

import trio

from flowengine.testing.simulation.chance import generator
from flowengine.testing.simulation.log import EventLog
from flowengine.testing.simulation.network import Network
from flowengine.testing.simulation.streams import HostView, SimulatedListener, SimulatedStream, current_place


class Death(Enum):
    """How a host crashes.

    PROCESS    the process is killed: its machine closes the connections, and refuses new ones
    MACHINE    the machine is gone: nobody learns anything
    """

    PROCESS = "process"
    MACHINE = "machine"


class Host:
    """One machine.

    name    what addresses call it
    disk    the folder that outlives its crashes
    """

    def __init__(
        self, name: str, network: Network, log: EventLog, hosts: dict[str, Host], disk: Path
    ) -> None:
        self.name = name
        self.network = network
        self.disk = disk
        self.is_up = False
        self.lives = 0
        self.listeners: dict[str, SimulatedListener] = {}
        #: In the order in which they were opened.
        self.streams: dict[SimulatedStream, None] = {}
        self._log = log
        self._hosts = hosts
        self._chance = generator(network.seed, "crashes of", name)
        self._scope: trio.CancelScope | None = None
        self._ended = trio.Event()
        self._ended.set()

    def __repr__(self) -> str:
        return f"<Host {self.name}, life {self.lives}>"

    def other(self, name: str) -> HostView | None:
        return self._hosts.get(name)

    @property
    def is_running(self) -> bool:
        """Whether something runs here."""
        return self._scope is not None

    async def run(self, body: Callable[[], Awaitable[object]]) -> None:
        """Live: run `body` on this host until it ends or the host crashes."""
        if self._scope is not None:
            raise RuntimeError(f"{self.name} runs already")
        self.lives += 1
        self.is_up = True
        self._ended = trio.Event()
        self._log.add(self.name, f"starts, life {self.lives}")
        token = current_place.set(self)
        try:
            with trio.CancelScope() as self._scope:
                await body()
        finally:
            current_place.reset(token)
            self._scope = None
            self._ended.set()

    async def crash(self, death: Death = Death.PROCESS) -> bool:
        """End what runs here, now; nothing that it still does is heard of.

        Returns whether this did it: not where nothing runs, or a crash is under way, for whose end it waits.
        """
        scope = self._scope
        if scope is None:
            return False
        if scope.cancel_called:
            await self._ended.wait()
            return False
        self._log.add(self.name, f"crashes ({death.value})")
        silently = death is Death.MACHINE
        self.is_up = not silently
        for stream in tuple(self.streams):
            stream.crash(silently=silently, resets=self._chance.random() < 0.5)
        self.streams.clear()
        for listener in tuple(self.listeners.values()):
            listener.close()
        scope.cancel()
        await self._ended.wait()
        return True


__all__ = ["Death", "Host"]
