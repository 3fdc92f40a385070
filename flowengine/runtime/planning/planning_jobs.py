"""Jobs on the event loop: planning and compiling share it with steps, a slice at a time.

Reading a request, passes, constants that are folded, a plan and its compiled form are work in pieces
(`core/work_pieces.py`). A task that needs the result does as much of the work as its turn allows, then lets
others have their turn; between two pieces it checks its deadline and its cancellation.
"""

from __future__ import annotations

from time import perf_counter
from typing import TypeVar

import trio

from flowengine.core.deferred_parts import DeferredParts
from flowengine.core.work_pieces import Piecework
from flowengine.runtime.turn_queue import Ticket
from flowengine.runtime.turns import Turns, current_turns

T = TypeVar("T")


async def _begin_turn(turns: Turns) -> Ticket:
    """Return a ticket that has its turn, for work at the beginning of a step; `end` it. As `Turns.begin`."""
    if perf_counter() < turns.line.begins_until:
        await trio.lowlevel.checkpoint_if_cancelled()
    else:
        ticket = await turns.begin()
        if ticket is not None:
            return ticket
    ticket = turns.new_ticket()
    turns.line.run(ticket, perf_counter())
    return ticket


async def in_turns(job: Piecework[T], turns: Turns) -> None:
    """Do a job, or help the tasks that do it, a slice at a time.

    Raises the error of the work in the task that does the failing piece: others find that it `has_failed`. If
    cancelled, it leaves the rest to others.
    """
    ticket = await _begin_turn(turns)
    try:
        while not job.advance(turns.line.ends):
            await turns.pause(ticket)
    finally:
        turns.end(ticket)


async def finish_in_turns(job: Piecework[T], turns: Turns) -> None:
    """Work as `in_turns` does, for a step that has its results: if cancelled, it stops and raises nothing."""
    ticket = turns.new_ticket()
    try:
        turns.line.run(ticket, perf_counter())
        while not job.advance(turns.line.ends) and not _is_cancelled():
            with trio.CancelScope(shield=True):
                await turns.pause(ticket)
    finally:
        turns.end(ticket)


async def free_in_turns(deferred: DeferredParts) -> None:
    """Free deferred parts, a slice at a time. Cannot be cancelled: nobody else would free the rest."""
    if not deferred:
        return
    with trio.CancelScope(shield=True):
        await in_turns(Piecework(deferred.freeing()), current_turns())


def _is_cancelled() -> bool:
    return trio.current_effective_deadline() <= trio.current_time()


__all__ = ["finish_in_turns", "free_in_turns", "in_turns"]
