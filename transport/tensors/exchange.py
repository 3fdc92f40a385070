"""The rendezvous that reaches other tasks: it pushes under a credit, and announces and pulls beyond it.

    exchange = Exchange("/job:worker/task:0")
    peer = await connect(..., tensors=exchange)           and serve(..., tensors=exchange)
    rendezvous = exchange.begin_step(7)
    rendezvous.send(key, value, False)                    to the task of the key's target
    value, is_dead = await rendezvous.wait_received(key)
    exchange.end_step(7)                                  when the step is over everywhere

Send never waits. If the credit suffices, a tensor is pushed as soon as it exists. If not, its key is
announced and it is sent when somebody waits for it, so that tensors nobody waits for yet never delay awaited
ones. If the credit does not even suffice for announcements, the other side is told once, and asks for every
awaited tensor from then on.

Tensors for a step that has not begun here are kept, those for an ended step dropped, and those from or for
another incarnation of a task than the step knows never delivered. A lost peer fails the steps that it takes
part in, at the keys of tensors from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from flowengine.core.arrays import Value
from flowengine.core.errors import CancelledError, OpError
from flowengine.core.rendezvous import RendezvousKey
from flowengine.transport import events as e
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.peer import Peer
from flowengine.transport.tensors.peers import PeerTable, task_of_device
from flowengine.transport.tensors.receiving import Receiver
from flowengine.transport.tensors.rendezvous import sent_twice
from flowengine.transport.tensors.routes import Route
from flowengine.transport.tensors.step_rendezvous import StepRendezvous
from flowengine.transport.tensors.steps import Step
from flowengine.transport.wire.payload import Payload


class ExchangeStatistics(NamedTuple):
    """The number of objects that an exchange holds at one moment."""

    steps: int
    steps_not_begun: int
    values_waiting: int
    values_held_for_pull: int
    values_dropped: int
    ranges_ended: int


class Exchange:
    """The tensors of one task: its steps, and the peers that it shares them with.

    This class sends; `Receiver` receives.
    """

    def __init__(self, task: str, *, task_of: Callable[[str], str] = task_of_device) -> None:
        """`task` is the result of `task_of` for devices of this process."""
        self.task = task
        self._table = table = PeerTable(task, task_of)
        self._peers = table.peers
        self._overflowing_here = table.overflowing_here
        #: The same as in the table, which is too slow to look up for every tensor.
        self._known_targets = table.targets
        self._receiver = receiver = Receiver(table, self.abort)
        self._steps = receiver.steps
        self._living = receiver.steps.living
        self.receive_all = receiver.receive_all
        self.pushed = receiver.pushed

    def begin_step(self, number: int, incarnations: Mapping[str, int] | None = None) -> StepRendezvous:
        """Return the rendezvous of a step, with the tensors that have arrived for it.

        incarnations    {task: incarnation} of the tasks that take part; without it, every peer may

        Raises FailedPreconditionError if the step has ended or has begun.
        """
        return StepRendezvous(self, self._steps.begin(number, incarnations))

    def end_step(self, number: int, error: Exception | None = None) -> None:
        """Drop everything of a step, and tensors that arrive for it later. May be repeated.

        For the end of the step as a whole: tensors on their way to another task are dropped, too.
        """
        step = self._steps.end(number)
        if step is not None:
            if error is not None or not step.table.end():
                step.table.abort(error if error is not None else _has_ended(number))
            step.table.forget()
            if step.announced:
                for peer, cost in step.announced.values():
                    peer.connection.tensors.give_back(cost)
                step.announced.clear()
            if step.held:
                step.held.clear()
        for peer in self._peers.values():
            ledger = peer.connection.tensors.ledger
            if ledger.pulls_in or ledger.streams:
                peer.connection.tensors.end_step(number, error if error is not None else _has_ended(number))
                peer.flush()

    def traffic(self, number: int) -> tuple[int, int] | None:
        """Return (messages sent, received) of a begun step; None while some can be sent without its action.

        See `Step.sent`.
        """
        step = self._living.get(number)
        if step is None or not step.is_begun:
            return None
        # More credit sends those that found none for an announcement, and so does a pull by a peer.
        if any(peer in self._overflowing_here for peer, _, _ in step.held.values()):
            return None
        return step.sent, step.received

    def peer(self, task: str) -> Peer | None:
        """Return the peer that is this task, if it is connected."""
        return self._peers.get(task)

    def statistics(self) -> ExchangeStatistics:
        steps = self._living.values()
        return ExchangeStatistics(
            steps=sum(step.is_begun for step in steps),
            steps_not_begun=sum(not step.is_begun for step in steps),
            values_waiting=sum(len(step.table) for step in steps),
            values_held_for_pull=sum(len(step.held) for step in steps),
            values_dropped=self._receiver.values_dropped,
            ranges_ended=self._steps.ended.ranges,
        )

    # Actions of a step.

    def send(self, step: Step, key: RendezvousKey, value: Value, is_dead: bool) -> None:
        """Leave a value: see `StepRendezvous.send`."""
        if key.path or not self.deliver(step, key[1:5], value, is_dead):
            self.send_any(step, key, value, is_dead)

    def deliver(self, step: Step, route: Route, value: Value, is_dead: bool) -> bool:
        """Send a small tensor to a known target; return whether that was possible."""
        known = self._known_targets.get(route[3])
        # While something is held, `send_any` checks whether it is this key.
        if known is None or step.table.error is not None or step.lost or step.held:
            return False
        peer, task, incarnation = known
        lives = step.incarnations
        if lives is not None and lives.get(task, 0) not in (0, incarnation):
            return False
        if not peer.connection.deliveries.deliver(route, step.number, value, is_dead):
            return False
        step.sent += 1
        if not peer.is_handling:
            peer.flush()
        return True

    def send_any(self, step: Step, key: RendezvousKey, value: Value, is_dead: bool) -> None:
        """Send as `send` does, for any tensor and any state of its target."""
        task = self._table.task_on(key.target_device)
        if task == self.task:
            step.table.send(key, value, is_dead)
            return
        if step.table.error is not None:
            return
        peer = self._table.target(step, key.target_device, task)
        connection = peer.connection
        payload = Payload(() if is_dead else (value,))
        if key in step.held:
            raise sent_twice(key)
        if connection.tensors.is_pulled(key):
            connection.tensors.answer_pull(key, payload, is_dead)
            step.sent += 1
        elif connection.tensors.may_push(payload):
            connection.tensors.push(key, payload, is_dead)
            step.sent += 1
        else:
            step.held[key] = (peer, payload, is_dead)
            if connection.tensors.may_announce():
                connection.tensors.announce(key, payload.size)
                step.sent += 1
            elif peer not in self._overflowing_here:
                self._overflowing_here.add(peer)
                connection.tensors.overflow()
        peer.flush()

    def abort(self, step: Step, error: Exception) -> None:
        """Fail the step: see `StepRendezvous.abort`."""
        if step.table.error is not None:
            return
        step.table.abort(error)
        step.held.clear()
        for task, peer in list(self._peers.items()):
            if step.has_part(task):
                peer.connection.tensors.end_step(step.number, error, notify=True)
                peer.flush()

    # Actions of peers. Implements `flowengine.transport.calls.service.TensorSink`.

    def peer_opened(self, peer: Peer) -> None:
        self._table.opened(peer)

    def peer_lost(self, peer: Peer, error: OpError) -> None:
        task = peer.identity.task
        self._table.lost(peer)

        def is_from_there(key: RendezvousKey) -> bool:
            return self._table.task_on(key.source_device) == task

        for step in list(self._living.values()):
            step.announced = {key: where for key, where in step.announced.items() if where[0] is not peer}
            step.held = {key: held for key, held in step.held.items() if held[0] is not peer}
            if not step.is_begun:
                # Tensors that a step finds when it begins later are meant for the next incarnation.
                step.table.drop(is_from_there)
            elif step.has_part(task):
                step.lost[task] = error
                step.table.fail_waiters(
                    is_from_there,
                    ConnectionLostError(
                        f"step {step.number} lost {task}; on the link from {self.task}: {error.message}"
                    ),
                )

    def peer_event(self, peer: Peer, event: e.Event) -> None:
        if isinstance(event, e.Announcement):
            self._receiver.announced(peer, event)
        elif isinstance(event, e.TensorPull):
            self._pulled(peer, event.key)
        elif isinstance(event, e.StepFailure):
            self._steps.fail(event.step, event.error)
        elif isinstance(event, e.CreditGain):
            self._credit_grew(peer)
        elif isinstance(event, e.CreditOverflow):
            self._receiver.overflowed(peer)

    def _pulled(self, peer: Peer, key: RendezvousKey) -> None:
        if key.step in self._steps.ended:
            ended = CancelledError(f"step {key.step} has ended at {self.task}")
            peer.connection.tensors.end_step(key.step, ended, notify=True)
            return
        step = self._steps.find(key.step)
        step.received += 1
        held = step.held.pop(key, None)
        # If it is not here yet, the connection remembers the pull until it is, or until the step ends.
        if held is not None:
            peer.connection.tensors.answer_pull(key, held[1], held[2])
            step.sent += 1

    def _credit_grew(self, peer: Peer) -> None:
        if peer not in self._overflowing_here:
            return
        for step in self._living.values():
            for key, (target, payload, is_dead) in list(step.held.items()):
                if target is not peer:
                    continue
                if not peer.connection.tensors.may_push(payload):
                    return
                del step.held[key]
                peer.connection.tensors.push(key, payload, is_dead)
                step.sent += 1


def _has_ended(number: int) -> CancelledError:
    return CancelledError(f"step {number} has ended")


__all__ = ["Exchange", "ExchangeStatistics", "task_of_device"]
