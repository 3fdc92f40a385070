"""What a straight step asks of those around it: a rendezvous, and who is told of its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import Context
from typing import TYPE_CHECKING, Any, Protocol

from flowengine.core.arrays import Value
from flowengine.core.rendezvous import Rendezvous
from flowengine.kernels.context import KernelContext
from flowengine.resources.container import StepContainer
from flowengine.runtime.exchange import Group
from flowengine.runtime.state import ExecutorState
from flowengine.runtime.turns import Turns
from flowengine.transport.tensors.routes import Route

if TYPE_CHECKING:
    from flowengine.runtime.straight_step import StraightStep


class StraightRendezvous(Rendezvous, Protocol):
    """A rendezvous that takes what such a step has to say in one go."""

    def send_along(self, route: Route, value: Value) -> None:
        """Send a live value along an edge, outside any loop; as `send`."""

    def receive_all(
        self, routes: Mapping[Route, int], done: Callable[[int, Value, bool, Exception | None], None]
    ) -> None:
        """Have `done` called with what comes along each of these edges, outside any loop, and its number.

        At once for what is here; at most once for each; with the error for what will not come.
        """

    def put_back(self, route: Route, value: Value, is_dead: bool) -> None:
        """Leave a value that was received for whoever asks next."""

    def withdraw(self) -> None:
        """Call nobody of `receive_all` any more; what comes waits to be asked for."""


class Continued(Protocol):
    """What a step goes on as, where it cannot go on as it is."""

    def begin(self) -> None: ...

    def cancel(self) -> None: ...


class StraightHost(Protocol):
    """What the steps of one partition have in common, and who is told of each."""

    #: The device's name, and whether kernels may be worth a thread.
    device: str
    use_threads: bool
    #: Where NumPy warns of nothing: cheaper to enter than to say so each time.
    quiet: Context
    #: Those of the trio run.
    turns: Turns

    def make_context(self, step: StraightStep, container: StepContainer) -> KernelContext:
        """What the step's kernels see."""

    def ended(self, step: StraightStep, values: list[Any], error: BaseException | None) -> None:
        """A step is over, with its fetched values or the error. Called once, perhaps by `begin`."""

    def go_on(
        self, step: StraightStep, state: ExecutorState, container: StepContainer | None
    ) -> tuple[Continued, Group]:
        """What a step goes on as, from how far it has come and what it holds.

        `ended` is not called for it any more: whoever asked for the step is told by that then.
        """


__all__ = ["Continued", "StraightHost", "StraightRendezvous"]
