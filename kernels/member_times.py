"""Times of the members of claims, for traces of steps: a claim is one call, in which several nodes run.

A traced step gives each of its threads a list. A program that finds one adds a row for each member that it
runs by a call of its own, or for each group of members that a library computes by one call. Rows follow each
other and lie within the call of the claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Final, Protocol, TypeAlias

from flowengine.ir.graph import Node

#: (the nodes that one call has computed, when it began, when it ended)
MemberTime: TypeAlias = tuple[tuple[Node, ...], float, float]


class MemberTimes(Protocol):
    """The list of a thread's rows."""

    def append(self, row: MemberTime, /) -> None:
        """Add a row."""

    def __len__(self) -> int: ...


#: The list of the traced step that runs on this thread; None if none does.
MEMBER_TIMES: Final[ContextVar[MemberTimes | None]] = ContextVar("flowengine_member_times", default=None)


def add_shares(
    times: MemberTimes, nodes: Sequence[Node], shares: Sequence[float], began: float, ended: float
) -> None:
    """Add a row for each of several nodes that ran together, by their shares of the time."""
    total = sum(shares)
    done, now = 0.0, began
    for node, share in zip(nodes, shares, strict=True):
        done += share
        until = began + (ended - began) * done / total if total else ended
        until = min(max(now, until), ended)
        times.append(((node,), now, until))
        now = until


__all__ = ["MEMBER_TIMES", "MemberTime", "MemberTimes", "add_shares"]
