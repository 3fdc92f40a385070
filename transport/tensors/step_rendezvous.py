"""One step's rendezvous over all tasks: the view of an exchange that its Sends and Recvs have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from flowengine.core.arrays import Value
from flowengine.core.rendezvous import Received, RendezvousKey
from flowengine.transport.tensors.routes import Route
from flowengine.transport.tensors.steps import Step


class StepExchange(Protocol):
    """The exchange that carries the tensors of steps: see `Exchange`, which has these methods."""

    def send(self, step: Step, key: RendezvousKey, value: Value, is_dead: bool) -> None:
        """Leave a value: see `StepRendezvous.send`."""

    def deliver(self, step: Step, route: Route, value: Value, is_dead: bool) -> bool:
        """Send a small tensor to a known target; return whether that was possible."""

    def send_any(self, step: Step, key: RendezvousKey, value: Value, is_dead: bool) -> None:
        """Send as `send` does, for any tensor and any state of its target."""

    def receive_all(
        self,
        step: Step,
        routes: Mapping[Route, Any],
        done: Callable[[Any, Value, bool, Exception | None], None],
    ) -> None:
        """Receive along edges: see `StepRendezvous.receive_all`."""

    def abort(self, step: Step, error: Exception) -> None:
        """Fail the step: see `StepRendezvous.abort`."""


class StepRendezvous:
    """One step's rendezvous over all tasks. Implements `flowengine.core.rendezvous.Rendezvous`.

    has_raised   whether the first error of the step was raised here, not merely reported here
    """

    __slots__ = ("_exchange", "_step", "has_raised")

    def __init__(self, exchange: StepExchange, step: Step) -> None:
        self.has_raised = False
        self._exchange = exchange
        self._step = step

    def send(self, key: RendezvousKey, value: Value, is_dead: bool) -> None:
        """Leave a value for its target; never waits.

        Raises AlreadyExistsError if the key holds one here, UnavailableError without a connection to the
        target's task, AbortedError if that task has restarted, InvalidArgumentError for a value that cannot
        be sent, ResourceExhaustedError for one larger than the target accepts.
        """
        self._exchange.send(self._step, key, value, is_dead)

    @property
    def has_failed(self) -> bool:
        """Return whether the step was aborted, here or on another task."""
        return self._step.table.error is not None

    def take(self, key: RendezvousKey) -> tuple[Value, bool] | None:
        """Return the value, if it is here already."""
        return self._step.table.take(key)

    async def wait_received(self, key: RendezvousKey) -> tuple[Value, bool]:
        """Wait for the value; take it and its dead bit. If cancelled, it leaves the value there.

        Raises the error of `abort`, here or on another task, and ConnectionLostError or AbortedError if the
        task of the sender is lost.
        """
        return await self._step.table.wait_received(key)

    def receive(self, key: RendezvousKey, done: Received) -> None:
        """Have `done` called once with the value, at once or when it is here, or with the error."""
        self._step.table.receive(key, done)

    def send_along(self, route: Route, value: Value) -> None:
        """Send a live value along an edge, outside any loop, as `send` does."""
        if not self._exchange.deliver(self._step, route, value, False):
            self._exchange.send_any(self._step, RendezvousKey(self._step.number, *route), value, False)

    def receive_all(
        self, routes: Mapping[Route, Any], done: Callable[[Any, Value, bool, Exception | None], None]
    ) -> None:
        """Have `done` called once for each of these edges, with its number and the result of `receive`.

        Nobody else may wait there.
        """
        self._exchange.receive_all(self._step, routes, done)

    def abort(self, error: Exception) -> None:
        """Fail every waiter of the step, present and future, on this task and on all that take part."""
        if not self.has_failed:
            self.has_raised = True
        self._exchange.abort(self._step, error)

    def forget(self) -> None:
        """Leave the error to the exchange, which forgets it when the step ends on this task."""


__all__ = ["StepExchange", "StepRendezvous"]
