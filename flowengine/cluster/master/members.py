"""The tasks of a cluster as one master knows them: their incarnations and devices."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from flowengine.cluster import messages as m
from flowengine.cluster.concurrent_calls import together
from flowengine.cluster.devices import offer_of
from flowengine.cluster.health import lost_task
from flowengine.cluster.links import Links
from flowengine.cluster.worker.registered_partitions import Registrar
from flowengine.cluster.worker.worker import Worker
from flowengine.core.errors import OpError
from flowengine.kernels.common.generators import add_places
from flowengine.passes.place.device_profiles import Offer
from flowengine.transport.calls.service import Reply
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.peer import Peer
from flowengine.transport.wire.identity import Identity


class Members:
    """The tasks of a cluster.

    identity   of the master's own task; its `worker` is called without a message
    registrar  the name under which the master registers graphs at that worker
    known      {task: (incarnation, devices)} of the tasks that have answered
    lost       those of them whose connection was lost since; they may have restarted
    messages   {method: number of messages sent to tasks}
    """

    def __init__(self, identity: Identity, worker: Worker, links: Links) -> None:
        self.identity = identity
        self.registrar = Registrar(identity.task, identity.incarnation)
        self.worker = worker
        self.links = links
        self.known: dict[str, tuple[int, list[Offer]]] = {}
        self.lost: set[str] = set()
        self.messages: dict[str, int] = {}

    def count(self, method: str, messages: int = 1) -> None:
        """Count messages to tasks."""
        self.messages[method] = self.messages.get(method, 0) + messages

    async def call(
        self,
        peer: Peer,
        method: str,
        arguments: Any = None,
        tensors: Sequence[Any] = (),
        devices: Sequence[str] = (),
    ) -> Reply:
        """Call a task; if it is lost meanwhile, the error names the link."""
        try:
            return await peer.call(method, arguments, tensors)
        except ConnectionLostError as error:
            raise lost_task(peer.identity.task, devices, self.identity.task, error) from None

    async def devices(self) -> dict[str, tuple[int, list[Offer]]]:
        """Return {task: (incarnation, devices)} of the whole cluster.

        A lost task counts with the devices that it had, so that requests which do not need it go on. Raises
        UnavailableError that names the first task that has never answered.
        """
        await self.know_all()

        async def ask_again(task: str) -> None:
            with suppress(OpError):
                await self.ask(task)

        await together(partial(ask_again, task) for task in sorted(self.lost))
        return self.known

    async def know_all(self) -> None:
        """Ask the tasks that have never answered.

        Raises UnavailableError that names one that still does not.
        """
        unknown = [task for task in self.links.addresses if task not in self.known]
        await together(partial(self.ask, task) for task in unknown)

    async def ask(self, task: str) -> None:
        """Ask a task for its identity and devices. Raises UnavailableError if it does not answer."""
        if task == self.identity.task:
            self.known[task] = (self.identity.incarnation, _offers(self.worker.describe_devices()))
            return
        peer = await self.links.peer(task)
        self.count(m.LIST_DEVICES)
        reply = await self.call(peer, m.LIST_DEVICES)
        self.known[task] = (peer.identity.incarnation, _offers(reply.result))
        if peer.is_open:
            # Else it was lost as soon as it had answered, and may have restarted.
            self.lost.discard(task)

    async def reset(self, containers: list[str]) -> None:
        """Clear containers on every task; all of them if none is named."""
        message = m.Reset(containers, everywhere=False)
        for task in self.links.addresses:
            if task == self.identity.task:
                await self.worker.reset(containers)
            else:
                peer = await self.links.peer(task)
                await self.call(peer, m.RESET, message.to_wire())

    async def random_places(self, sequences: list[str]) -> dict[str, str]:
        """Return the positions of these random sequences from all tasks that run their nodes."""
        places = self.worker.random_places(sequences)
        message = m.RandomPlaces(sequences).to_wire()
        for task in self.links.addresses:
            if task != self.identity.task:
                peer = await self.links.peer(task)
                add_places(places, (await self.call(peer, m.RANDOM_PLACES, message)).result)
        return places

    async def set_random_places(self, sequences: list[str], places: dict[str, str]) -> None:
        """Set the positions of these sequences on every task."""
        self.worker.set_random_places(sequences, places)
        message = m.SetRandomPlaces(sequences, places).to_wire()
        for task in self.links.addresses:
            if task != self.identity.task:
                peer = await self.links.peer(task)
                await self.call(peer, m.SET_RANDOM_PLACES, message)


def _offers(devices: Any) -> list[Offer]:
    return [offer_of(device) for device in devices]


__all__ = ["Members"]
