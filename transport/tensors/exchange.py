"""The rendezvous that reaches other tasks: pushes under a credit, announcements and pulls above it.

    exchange = Exchange("/job:worker/task:0")
    peer = await connect(..., tensors=exchange)           and serve(..., tensors=exchange)
    rendezvous = exchange.begin_step(7)
    rendezvous.send(key, value, False)                    to whichever task the key's target is on
    value, is_dead = await rendezvous.wait_received(key)
    exchange.end_step(7)                                  when the step is over everywhere

Send never waits. A tensor is pushed as soon as it exists if the credit reaches; if not, its key is announced
and it is sent when somebody waits for it, so that nothing unawaited stands before what is awaited. Where even
announcements find no credit the other side is told once, and asks for whatever it waits for from then on.

What arrives for a step that has not begun here is kept, for one that has ended dropped, and from or for
another incarnation of a task than the step knows never delivered. A peer that is lost fails the steps that it
takes part in, at the keys that come from it.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

from flowengine.core.arrays import Value
from flowengine.core.errors import (
    AbortedError,
    CancelledError,
    FailedPreconditionError,
    OpError,
    UnavailableError,
)
from flowengine.core.names import DeviceName
from flowengine.core.rendezvous import RendezvousKey
from flowengine.transport import events as e
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.peer import Peer
from flowengine.transport.tensors.rendezvous import sent_twice
from flowengine.transport.tensors.routes import Route
from flowengine.transport.tensors.step_rendezvous import StepRendezvous
from flowengine.transport.tensors.steps import EndedSteps, Step
from flowengine.transport.wire.payload import Payload

logger = logging.getLogger("flowengine.transport")

#: Steps that failed elsewhere before they began here; more are forgotten, oldest first.
_FAILED_EARLY_MAX: Final = 4096
#: Edges and devices that something is remembered of.
_KNOWN_MAX: Final = 16_384

K = TypeVar("K")
V = TypeVar("V")


def task_of_device(device: str) -> str:
    """The task part of a device's name: "/job:worker/task:1"."""
    name = DeviceName.parse(device)
    return str(replace(name, replica=None, type=None, index=None))


class ExchangeStatistics(NamedTuple):
    """What an exchange holds at one moment."""

    steps: int
    steps_not_begun: int
    values_waiting: int
    values_held_for_pull: int
    values_dropped: int
    ranges_ended: int


class Exchange:
    """The tensors of one task: its steps, and the peers that it shares them with."""

    def __init__(self, task: str, *, task_of: Callable[[str], str] = task_of_device) -> None:
        """`task` as `task_of` gives it for devices of this process."""
        self.task = task
        self._task_of = task_of
        self._peers: dict[str, Peer] = {}
        self._steps: dict[int, Step] = {}
        self._ended = EndedSteps()
        self._failed_early: OrderedDict[int, OpError] = OrderedDict()
        self._overflowing_here: set[Peer] = set()
        self._overflowing_there: set[Peer] = set()
        self._tasks: dict[str, str] = {}
        self._values_dropped = 0
        #: What was found out of edges and devices that tensors take again and again, while the same peers are
        #: there: {the part of a key that stays: who sends it here, in the life that it names} and {target
        #: device: (who has it, that task, its incarnation)}.
        self._known_sources: dict[Route, Peer] = {}
        self._known_targets: dict[str, tuple[Peer, str, int]] = {}

    def begin_step(self, number: int, incarnations: Mapping[str, int] | None = None) -> StepRendezvous:
        """The rendezvous of a step, with what has arrived for it.

        incarnations    {task: incarnation} of those who take part; without it every peer may
        FailedPreconditionError if the step has ended or has begun.
        """
        if number in self._ended:
            raise FailedPreconditionError(f"step {number} has ended: step ids never return")
        step = self._steps.get(number)
        if step is None:
            step = self._steps[number] = Step(number, self._about_to_wait)
        elif step.is_begun:
            raise FailedPreconditionError(f"step {number} has begun already")
        step.is_begun = True
        step.incarnations = incarnations
        if self._failed_early:
            error = self._failed_early.pop(number, None)
            if error is not None:
                step.table.abort(error)
        return StepRendezvous(self, step)

    def end_step(self, number: int, error: Exception | None = None) -> None:
        """Drop all that is left of a step, and whatever comes for it later. May be repeated.

        For the end of the step as a whole: what is still on its way to another task is dropped too.
        """
        self._ended.add(number)
        self._failed_early.pop(number, None)
        step = self._steps.pop(number, None)
        if step is not None:
            if error is not None or not step.table.end():
                step.table.abort(error if error is not None else _has_ended(number))
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
        """(messages sent, received) of a step that has begun; None while some can be sent without its doing.

        See `Step.sent`.
        """
        step = self._steps.get(number)
        if step is None or not step.is_begun:
            return None
        # Where announcements found no credit, more of it, or a pull by somebody who knew of none, sends.
        if any(peer in self._overflowing_here for peer, _, _ in step.held.values()):
            return None
        return step.sent, step.received

    def peer(self, task: str) -> Peer | None:
        """The peer that is this task, if it is connected."""
        return self._peers.get(task)

    def statistics(self) -> ExchangeStatistics:
        steps = self._steps.values()
        return ExchangeStatistics(
            steps=sum(step.is_begun for step in steps),
            steps_not_begun=sum(not step.is_begun for step in steps),
            values_waiting=sum(len(step.table) for step in steps),
            values_held_for_pull=sum(len(step.held) for step in steps),
            values_dropped=self._values_dropped,
            ranges_ended=self._ended.ranges,
        )

    # What a step does.

    def send(self, step: Step, key: RendezvousKey, value: Value, is_dead: bool) -> None:
        """See `StepRendezvous.send`."""
        if key.path or not self.deliver(step, key[1:5], value, is_dead):
            self.send_any(step, key, value, is_dead)

    def deliver(self, step: Step, route: Route, value: Value, is_dead: bool) -> bool:
        """Send a small tensor to a known target; whether that is what it was."""
        known = self._known_targets.get(route[3])
        # While something is held, `send_any` looks whether it is this key.
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

    def receive_all(
        self,
        step: Step,
        routes: Mapping[Route, int],
        done: Callable[[int, Value, bool, Exception | None], None],
    ) -> None:
        """See `StepRendezvous.receive_all`."""
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

    def send_any(self, step: Step, key: RendezvousKey, value: Value, is_dead: bool) -> None:
        """As `send`, for any tensor and whatever has become of its target."""
        task = self._task(key.target_device)
        if task == self.task:
            step.table.send(key, value, is_dead)
            return
        if step.table.error is not None:
            return
        peer = self._peer_for(step, task)
        _keep(self._known_targets, key.target_device, (peer, task, peer.identity.incarnation))
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
        """See `StepRendezvous.abort`."""
        if step.table.error is not None:
            return
        step.table.abort(error)
        step.held.clear()
        for task, peer in list(self._peers.items()):
            if step.has_part(task):
                peer.connection.tensors.end_step(step.number, error, tell=True)
                peer.flush()

    def _peer_for(self, step: Step, task: str) -> Peer:
        error = step.lost.get(task)
        if error is not None:
            raise ConnectionLostError(f"nothing can be sent to {task} in step {step.number}: {error.message}")
        peer = self._peers.get(task)
        if peer is None or not peer.is_open:
            raise UnavailableError(f"there is no connection to {task}")
        error = self._restarted(step, task, peer)
        if error is not None:
            raise error
        return peer

    def _restarted(self, step: Step, task: str, peer: Peer) -> AbortedError | None:
        expected = step.incarnations.get(task, 0) if step.incarnations is not None else 0
        found = peer.identity.incarnation
        if expected in (0, found):
            return None
        return AbortedError(
            f"{task} has restarted: step {step.number} began with incarnation {expected}, it is {found} now"
        )

    def _about_to_wait(self, step: Step, key: RendezvousKey) -> Exception | None:
        if not (step.lost or step.announced or self._overflowing_there) and key[1:5] in self._known_sources:
            return None
        task = self._task(key.source_device)
        if task == self.task:
            return None
        lost = step.lost.get(task)
        if lost is not None:
            return ConnectionLostError(f"{key.edge} will not come from {task}: {lost.message}")
        announced = step.announced.pop(key, None)
        peer = self._peers.get(task)
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

    # What peers do. Keeps `flowengine.transport.calls.service.TensorSink`.

    def peer_opened(self, peer: Peer) -> None:
        self._forget_known()
        self._peers[peer.identity.task] = peer

    def _forget_known(self) -> None:
        self._known_sources.clear()
        self._known_targets.clear()

    def peer_lost(self, peer: Peer, error: OpError) -> None:
        task = peer.identity.task
        if self._peers.get(task) is peer:
            del self._peers[task]
        self._overflowing_here.discard(peer)
        self._overflowing_there.discard(peer)
        self._forget_known()

        def is_from_there(key: RendezvousKey) -> bool:
            return self._task(key.source_device) == task

        for step in list(self._steps.values()):
            step.announced = {key: where for key, where in step.announced.items() if where[0] is not peer}
            step.held = {key: held for key, held in step.held.items() if held[0] is not peer}
            if not step.is_begun:
                # What a step finds when it begins later is meant for the next life.
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
        if isinstance(event, e.Announced):
            self._announced(peer, event)
        elif isinstance(event, e.Pulled):
            self._pulled(peer, event.key)
        elif isinstance(event, e.StepFailed):
            self._step_failed(event.step, event.error)
        elif isinstance(event, e.CreditGrew):
            self._credit_grew(peer)
        elif isinstance(event, e.Overflowed):
            self._overflowed(peer)

    def pushed(self, peer: Peer, event: e.Pushed) -> None:
        connection, key, cost = peer.connection, event.key, event.cost
        living = self._steps.get(key.step)
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
        step = self._step(key.step)
        step.received += 1
        announced = step.announced.pop(key, None)
        if announced is not None:
            connection.tensors.give_back(announced[1])
        try:
            step.table.deliver(key, event.value, event.is_dead, release)
        except OpError as error:
            self.abort(step, error)

    def _announced(self, peer: Peer, event: e.Announced) -> None:
        key = event.key
        if not self._is_meant_for_us(peer, key):
            peer.connection.tensors.give_back(event.cost)
            return
        step = self._step(key.step)
        step.received += 1
        if step.table.error is not None:
            peer.connection.tensors.give_back(event.cost)
        elif step.table.holds(key):
            peer.connection.tensors.give_back(event.cost)
            self.abort(step, sent_twice(key))
        elif step.table.is_awaited(key):
            peer.connection.tensors.give_back(event.cost)
            step.sent += peer.connection.tensors.pull(key)
        else:
            step.announced[key] = (peer, event.cost)

    def _pulled(self, peer: Peer, key: RendezvousKey) -> None:
        if key.step in self._ended:
            ended = CancelledError(f"step {key.step} has ended at {self.task}")
            peer.connection.tensors.end_step(key.step, ended, tell=True)
            return
        step = self._step(key.step)
        step.received += 1
        held = step.held.pop(key, None)
        # If it is not here yet, the connection remembers the pull until it is, or until the step ends.
        if held is not None:
            peer.connection.tensors.answer_pull(key, held[1], held[2])
            step.sent += 1

    def _step_failed(self, number: int, error: OpError) -> None:
        if number in self._ended:
            return
        step = self._steps.get(number)
        if step is not None and step.is_begun:
            step.table.abort(error)
            step.held.clear()
            return
        self._failed_early[number] = error
        if len(self._failed_early) > _FAILED_EARLY_MAX:
            self._failed_early.popitem(last=False)

    def _credit_grew(self, peer: Peer) -> None:
        if peer not in self._overflowing_here:
            return
        for step in self._steps.values():
            for key, (target, payload, is_dead) in list(step.held.items()):
                if target is not peer:
                    continue
                if not peer.connection.tensors.may_push(payload):
                    return
                del step.held[key]
                peer.connection.tensors.push(key, payload, is_dead)
                step.sent += 1

    def _overflowed(self, peer: Peer) -> None:
        self._overflowing_there.add(peer)
        task = peer.identity.task
        for step in self._steps.values():
            for key in step.table.waiting_keys():
                if self._task(key.source_device) == task and peer.is_open:
                    step.sent += peer.connection.tensors.pull(key)

    def _is_meant_for_us(self, peer: Peer, key: RendezvousKey) -> bool:
        """Whether the key is of a living step, from this peer in this life, to this task."""
        who = peer.identity
        if (
            key.step not in self._ended
            and self._task(key.target_device) == self.task
            and self._task(key.source_device) == who.task
            and key.source_incarnation in (0, who.incarnation)
        ):
            if self._peers.get(who.task) is peer:
                _keep(self._known_sources, key[1:5], peer)
            return True
        self._values_dropped += 1
        return False

    def _step(self, number: int) -> Step:
        step = self._steps.get(number)
        if step is None:
            step = self._steps[number] = Step(number, self._about_to_wait)
        return step

    def _task(self, device: str) -> str:
        task = self._tasks.get(device)
        if task is None:
            task = self._task_of(device)
            _keep(self._tasks, device, task)
        return task


def _has_ended(number: int) -> CancelledError:
    return CancelledError(f"step {number} has ended")


def _keep(known: dict[K, V], key: K, value: V) -> None:
    """Remember what was found out. Names come from peers too: what they make up must not pile up."""
    if len(known) >= _KNOWN_MAX:
        known.clear()
    known[key] = value


__all__ = ["Exchange", "ExchangeStatistics", "task_of_device"]
