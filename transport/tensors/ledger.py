"""The accounts of tensors between two sides: credit, owed pulls and pushes under way. Sans-I/O.

A tensor reaches the other side in one of two ways. *Pushed*: it is sent as soon as it exists, and charged to
the credit until it is taken. *Pulled*: if the credit does not suffice, only its key is announced, and it is
sent when the other side asks for it because somebody waits. Each pull is answered by its tensor or by the end
of its step.
"""

from __future__ import annotations

from collections.abc import Callable

from flowengine.core.errors import InvalidArgumentError, ResourceExhaustedError
from flowengine.core.rendezvous import RendezvousKey
from flowengine.transport.errors import RemoteProtocolError
from flowengine.transport.limits import Limits
from flowengine.transport.tensors.credit import ReceiverCredit, SenderCredit, push_cost
from flowengine.transport.wire.outbox import LargeMessage


class TensorLedger:
    """The tensors that each side owes the other."""

    def __init__(self, limits: Limits) -> None:
        self._pulls_in_max = limits.pulls_max
        self._pulls_out_max = 0
        #: Keys pulled here and there whose tensor has neither arrived nor been sent yet.
        self._pulls_out: set[RendezvousKey] = set()
        self.pulls_in: set[RendezvousKey] = set()
        #: {step: tensors of it that are sent as streams, with the credit of each}
        self.streams: dict[int, dict[LargeMessage, int]] = {}
        self.credit_out = SenderCredit(0)
        self.credit_in = ReceiverCredit(limits.credit_bytes)

    def opened(self, credit_bytes: int, pulls_max: int) -> None:
        """Record the credit that the other side lends."""
        self.credit_out = SenderCredit(credit_bytes)
        self._pulls_out_max = pulls_max

    @property
    def is_busy(self) -> bool:
        """Return whether tensors are under way that the other side has pulled, or that are streams."""
        return bool(self.pulls_in or self.streams)

    # Tensors that arrive.

    def push_started(self, key: RendezvousKey, is_pulled: bool, payload_bytes: int) -> int:
        """Check a tensor before memory for it is allocated; return the credit that it uses."""
        if is_pulled:
            if key not in self._pulls_out:
                raise RemoteProtocolError(f"a tensor came for a pull that was not made: {key.edge}")
            self._pulls_out.discard(key)
            return 0
        cost = push_cost(payload_bytes)
        self.credit_in.charge(cost)
        return cost

    def may_pull(self, key: RendezvousKey, address: str) -> bool:
        """Return whether to ask for this key; False if it was asked for already."""
        if key in self._pulls_out:
            return False
        if len(self._pulls_out) >= self._pulls_out_max:
            raise ResourceExhaustedError(
                f"{address} answers {self._pulls_out_max} pulls at a time and as many wait"
            )
        return True

    def pull_sent(self, key: RendezvousKey) -> None:
        self._pulls_out.add(key)

    def step_failed_there(self, step: int) -> None:
        self._pulls_out = _without(self._pulls_out, step)

    # Tensors to send.

    def pulled(self, key: RendezvousKey) -> None:
        """Record that the other side asks for this key."""
        if key in self.pulls_in:
            raise RemoteProtocolError(f"{key.edge} was pulled twice")
        if len(self.pulls_in) >= self._pulls_in_max:
            raise RemoteProtocolError(f"more than {self._pulls_in_max} pulls wait for their tensor")
        self.pulls_in.add(key)

    def is_pulled(self, key: RendezvousKey) -> bool:
        return key in self.pulls_in

    def check_pulled(self, key: RendezvousKey) -> None:
        if key not in self.pulls_in:
            raise InvalidArgumentError(f"{key.edge} was not pulled, or was sent already")

    def pull_answered(self, key: RendezvousKey) -> None:
        self.pulls_in.discard(key)

    def stream_began(self, step: int, large: LargeMessage, cost: int) -> None:
        self.streams.setdefault(step, {})[large] = cost

    def stream_sent(self, step: int, large: LargeMessage) -> None:
        streams = self.streams[step]
        del streams[large]
        if not streams:
            del self.streams[step]

    def end_step(self, step: int, abandon: Callable[[LargeMessage], bool]) -> bool:
        """Drop tensors under way for a step; return whether the other side may wait in vain."""
        if not self.is_busy:
            return False
        owes = any(key.step == step for key in self.pulls_in)
        self.pulls_in = _without(self.pulls_in, step)
        for large, cost in self.streams.pop(step, {}).items():
            was_begun = large.stream != 0
            if not abandon(large):
                continue
            if not cost:
                owes = True
            elif not was_begun:
                # The other side never hears of it, so nobody there returns the credit.
                self.credit_out.left += cost
        return owes

    def clear(self) -> None:
        self.pulls_in.clear()
        self._pulls_out.clear()
        self.streams.clear()


def _without(keys: set[RendezvousKey], step: int) -> set[RendezvousKey]:
    return {key for key in keys if key.step != step} if keys else keys


__all__ = ["TensorLedger"]
