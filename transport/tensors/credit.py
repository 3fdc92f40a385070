"""Credit for pushed tensors: the bytes that one side may leave at the other before they are taken.

A receiver lends its peer `credit_bytes`. Pushed and announced tensors are charged; taken and dropped ones are
granted back, in instalments of an eighth so that a small tensor does not cost a message of its own.

    sender      may_push -> charge ...... grown
    receiver            charged -> ...... give_back -> instalment
"""

from __future__ import annotations

from flowengine.transport.errors import LocalProtocolError, RemoteProtocolError
from flowengine.transport.limits import ENTRY_BYTES


def push_cost(size: int) -> int:
    """Return the credit that pushing a tensor of this size costs."""
    return size + ENTRY_BYTES


class SenderCredit:
    """The credit that the other side lends: the bytes that may still be left there."""

    __slots__ = ("left", "reserve", "total")

    def __init__(self, total: int) -> None:
        self.total = total
        self.left = total
        #: Kept free of pushes, so that a tensor that cannot be pushed can still be announced.
        self.reserve = total // 4

    def may_push(self, size: int) -> bool:
        return self.left - push_cost(size) >= self.reserve

    def may_announce(self) -> bool:
        return self.left >= ENTRY_BYTES

    def check(self, cost: int) -> None:
        """Raise LocalProtocolError if the credit does not cover this."""
        if cost > self.left:
            raise LocalProtocolError(f"{cost} bytes of credit are needed and {self.left} are left")

    def charge(self, cost: int) -> None:
        self.left -= cost

    def grown(self, count: int) -> None:
        """Record credit that the other side gave back."""
        self.left += count
        if self.left > self.total:
            raise RemoteProtocolError(
                f"CREDIT gives back {self.left - self.total} bytes that were never lent"
            )


class ReceiverCredit:
    """The credit that this side lends: the bytes that the other side may still leave here."""

    __slots__ = ("instalment", "left", "owed", "total")

    def __init__(self, total: int) -> None:
        self.total = total
        self.left = total
        #: Credit given back here but not reported to the other side, and the amount at which it is reported.
        self.owed = 0
        #: The amount that is granted at once.
        self.instalment = max(total // 8, 1)

    def charge(self, cost: int) -> None:
        if cost > self.left:
            raise RemoteProtocolError(
                f"a tensor was left here for {cost} bytes of credit; {self.left} of {self.total} were left"
            )
        self.left -= cost

    def give_back(self, cost: int) -> int:
        """Count a taken tensor; return the amount to grant now, 0 for none yet."""
        self.owed += cost
        if self.owed < self.instalment:
            return 0
        instalment, self.owed = self.owed, 0
        self.left += instalment
        return instalment


__all__ = ["ReceiverCredit", "SenderCredit", "push_cost"]
