"""The receiver of tensors, announcements and pulls for the steps of one task.

A step keeps tensors that nobody waits for yet; an announced one is pulled when somebody waits for it. Tensors
from or for another incarnation of a task, or for a step that has ended, are dropped, and their credit is
returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from flowengine.core.arrays import Value
from flowengine.core.errors import AbortedError, OpError
from flowengine.core.rendezvous import RendezvousKey
from flowengine.transport import events as e
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.peer import Peer
from flowengine.transport.tensors.peers import PeerTable
from flowengine.transport.tensors.rendezvous import sent_twice
from flowengine.transport.tensors.routes import Route
from flowengine.transport.tensors.steps import Step, StepTable

#: Ends a step with an error on all tasks.
Abort: TypeAlias = Callable[[Step, Exception], None]


class Receiver:
    """The receiving half of an exchange.

    values_dropped   the number of tensors that arrived for nobody
    """

    def __init__(self, peers: PeerTable, abort: Abort) -> None:
        self.values_dropped = 0
        self.steps = StepTable(self._about_to_wait)
        self._living = self.steps.living
        self._peers = peers
        #: The same as in the table, which is too slow to look up for every tensor.
        self._known_sources = peers.sources
        self._overflowing_there = peers.overflowing_there
        self._abort = abort

    # Actions of a step.

    def receive_all(
        self,
        step: Step,
        routes: Mapping[Route, Any],
        done: Callable[[Any, Value, bool, Exception | None], None],
    ) -> None:
        """Receive along edges: see `StepRendezvous.receive_all`."""
        step.table.expect(step.number, routes, done)
        if (
            not (step.lost or step.announced or self._overflowing_there)
            and routes.keys() <= self._known_sources.keys()
        ):
            return
        for route, number in routes.items():
            key = RendezvousKey(step.number, *route)
            if step.table.is_awaited(key):
                error = self._about_to_wait(step, key)
                if error is not None:
                    done(number, None, False, error)

    def _about_to_wait(self, step: Step, key: RendezvousKey) -> Exception | None:
        """Pull a tensor if it has to be asked for; return the reason, if known, why it will never arrive."""
        if not (step.lost or step.announced or self._overflowing_there) and key[1:5] in self._known_sources:
            return None
        task = self._peers.task_on(key.source_device)
        if task == self._peers.task:
            return None
        lost = step.lost.get(task)
        if lost is not None:
            return ConnectionLostError(f"{key.edge} will not come from {task}: {lost.message}")
        announced = step.announced.pop(key, None)
        peer = self._peers.peers.get(task)
        if announced is not None:
            peer, cost = announced
            peer.connection.tensors.give_back(cost)
        elif peer is not None:
            if key.source_incarnation not in (0, peer.identity.incarnation):
                return AbortedError(
                    f"{key.edge} will not come: {task} has restarted, incarnation {key.source_incarnation} "
                    f"was expected and it is {peer.identity.incarnation} now"
                )
            if peer not in self._overflowing_there:
                return None
        if peer is not None and peer.is_open:
            try:
                step.sent += peer.connection.tensors.pull(key)
            except OpError as error:
                return error
            peer.flush()
        return None

    # Actions of peers.

    def pushed(self, peer: Peer, event: e.TensorArrival) -> None:
        """Take a tensor."""
        connection, key, cost = peer.connection, event.key, event.cost
        living = self._living.get(key.step)
        if living is not None and not living.announced and living.table.error is None:
            route = key[1:5]
            if self._known_sources.get(route) is peer:
                living.received += 1
                table = living.table
                if (not key.path and table.give_along(route, event.value, event.is_dead)) or table.give(
                    key, event.value, event.is_dead
                ):
                    if cost:
                        connection.tensors.give_back(cost)
                    return
                living.received -= 1

        def release() -> None:
            if cost:
                connection.tensors.give_back(cost)

        if not self._is_meant_for_us(peer, key):
            release()
            return
        step = self.steps.find(key.step)
        step.received += 1
        announced = step.announced.pop(key, None)
        if announced is not None:
            connection.tensors.give_back(announced[1])
        try:
            step.table.deliver(key, event.value, event.is_dead, release)
        except OpError as error:
            self._abort(step, error)

    def announced(self, peer: Peer, event: e.Announcement) -> None:
        """Record a tensor that waits at its sender."""
        key = event.key
        if not self._is_meant_for_us(peer, key):
            peer.connection.tensors.give_back(event.cost)
            return
        step = self.steps.find(key.step)
        step.received += 1
        if step.table.error is not None:
            peer.connection.tensors.give_back(event.cost)
        elif step.table.holds(key):
            peer.connection.tensors.give_back(event.cost)
            self._abort(step, sent_twice(key))
        elif step.table.is_awaited(key):
            peer.connection.tensors.give_back(event.cost)
            step.sent += peer.connection.tensors.pull(key)
        else:
            step.announced[key] = (peer, event.cost)

    def overflowed(self, peer: Peer) -> None:
        """Ask the peer for every awaited tensor, because its credit does not suffice for announcements."""
        self._overflowing_there.add(peer)
        task = peer.identity.task
        for step in self._living.values():
            for key in step.table.waiting_keys():
                if self._peers.task_on(key.source_device) == task and peer.is_open:
                    step.sent += peer.connection.tensors.pull(key)

    def _is_meant_for_us(self, peer: Peer, key: RendezvousKey) -> bool:
        """Return whether the key is of a living step, from this peer in this incarnation, to this task."""
        if key.step not in self.steps.ended and self._peers.is_for_us(peer, key):
            return True
        self.values_dropped += 1
        return False


__all__ = ["Receiver"]
