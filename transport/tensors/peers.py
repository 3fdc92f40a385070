"""The peers of one task: the connections, their facts, and the senders of tensors.

Names of devices contain their task; a peer is one incarnation of that task. Facts about edges and devices are
remembered while the same peers are connected: tensors take the same edges again and again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from flowengine.core.errors import AbortedError, UnavailableError
from flowengine.core.names import DeviceName
from flowengine.core.rendezvous import RendezvousKey
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.peer import Peer
from flowengine.transport.tensors.routes import Route
from flowengine.transport.tensors.steps import Step

#: The number of edges and devices whose facts are remembered.
_KNOWN_MAX: Final = 16_384

K = TypeVar("K")
V = TypeVar("V")


def task_of_device(device: str) -> str:
    """Return the task part of a device's name: "/job:worker/task:1"."""
    name = DeviceName.parse(device)
    return str(replace(name, replica=None, type=None, index=None))


class PeerTable:
    """The tasks that one task exchanges tensors with.

    task                 the task itself
    peers                {task: the peer that is this task}
    overflowing_here     peers that were told that the credit does not suffice for announcements
    overflowing_there    peers that have told us so: they are asked for every awaited tensor
    sources              {the constant part of a key: its sender here, of the incarnation that it names}
    targets              {target device: (its peer, that task, its incarnation)}
    """

    def __init__(self, task: str, task_of: Callable[[str], str]) -> None:
        self.task = task
        self.peers: dict[str, Peer] = {}
        self.overflowing_here: set[Peer] = set()
        self.overflowing_there: set[Peer] = set()
        self.sources: dict[Route, Peer] = {}
        self.targets: dict[str, tuple[Peer, str, int]] = {}
        self._task_of = task_of
        self._tasks: dict[str, str] = {}

    def opened(self, peer: Peer) -> None:
        """Record a new peer, perhaps instead of an older one."""
        self._forget_known()
        self.peers[peer.identity.task] = peer

    def lost(self, peer: Peer) -> None:
        """Record that a peer is lost."""
        task = peer.identity.task
        if self.peers.get(task) is peer:
            del self.peers[task]
        self.overflowing_here.discard(peer)
        self.overflowing_there.discard(peer)
        self._forget_known()

    def _forget_known(self) -> None:
        self.sources.clear()
        self.targets.clear()

    def task_on(self, device: str) -> str:
        """Return the task that a device is on."""
        task = self._tasks.get(device)
        if task is None:
            task = self._task_of(device)
            _keep(self._tasks, device, task)
        return task

    def target(self, step: Step, device: str, task: str) -> Peer:
        """Return the peer of a device's task, in the incarnation that the step has begun with.

        Raises ConnectionLostError, UnavailableError or AbortedError if nothing can be sent there.
        """
        error = step.lost.get(task)
        if error is not None:
            raise ConnectionLostError(f"nothing can be sent to {task} in step {step.number}: {error.message}")
        peer = self.peers.get(task)
        if peer is None or not peer.is_open:
            raise UnavailableError(f"there is no connection to {task}")
        expected = step.incarnations.get(task, 0) if step.incarnations is not None else 0
        found = peer.identity.incarnation
        if expected not in (0, found):
            raise AbortedError(
                f"{task} has restarted: step {step.number} began with incarnation {expected}, "
                f"it is {found} now"
            )
        _keep(self.targets, device, (peer, task, found))
        return peer

    def is_for_us(self, peer: Peer, key: RendezvousKey) -> bool:
        """Return whether a key is from this peer in this incarnation, to this task."""
        who = peer.identity
        if not (
            self.task_on(key.target_device) == self.task
            and self.task_on(key.source_device) == who.task
            and key.source_incarnation in (0, who.incarnation)
        ):
            return False
        if self.peers.get(who.task) is peer:
            _keep(self.sources, key[1:5], peer)
        return True


def _keep(known: dict[K, V], key: K, value: V) -> None:
    """Remember a fact. Peers can make up names, so their number is bounded."""
    if len(known) >= _KNOWN_MAX:
        known.clear()
    known[key] = value


__all__ = ["PeerTable", "task_of_device"]
