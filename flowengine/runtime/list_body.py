"""The body of a cold block: its members' kernels, one after another.

It keeps the protocol of bodies (`bodies.py`): it stops before a member whose variable somebody writes, before
one that is worth a thread, and where its turn is over. What is to be done for a member it has the ready loop
do, as that would for an item. The values lie in the entries of the iteration, as if each member were one.
"""

from __future__ import annotations

from heapq import heappush
from time import perf_counter
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from flowengine.core.arrays import Value
from flowengine.kernels.common.pieces import Turn
from flowengine.runtime.frames import IterationState
from flowengine.runtime.member_calls import MemberCalls
from flowengine.runtime.planning.cold_blocks import (
    CONSTANT,
    FORWARD,
    KERNEL,
    SEND,
    BlockMembers,
    consumers_of,
)
from flowengine.runtime.planning.items import Item
from flowengine.runtime.resumable_blocks import DONE, PARKED, THREAD, TURN, Outcome
from flowengine.runtime.state import ExecutorState
from flowengine.transport.tensors.routes import Route

#: The clock is read once for so many kernels.
_KERNELS_PER_CLOCK: Final = 16
#: Members that compute nothing: a value goes on as it is.
_PASSED_ON: Final = (FORWARD, SEND)

_DONE: Final = Outcome(DONE, ())
_TURN: Final = Outcome(TURN)


class MemberOutside(Protocol):
    """The operations that members need and that their runner leaves to others."""

    def is_worth_thread(self, item: Item, args: list[Any]) -> bool:
        """Whether a kernel or a region may be worth a thread, by the inputs that it has."""

    def send_along(self, item: Item, iteration: IterationState, route: Route, value: Value) -> None:
        """Hand the live value of a Send over, outside any loop."""


class MemberOutcome(NamedTuple):
    """The position at which a block had to stop, and the reason."""

    outcome: Outcome
    position: int


class ListBody:
    """One execution of a block that is a list of members."""

    __slots__ = ("_block", "_iteration", "_outside", "_position", "_runner", "seconds")

    def __init__(
        self,
        block: BlockMembers,
        iteration: IterationState,
        runner: MemberCalls,
        outside: MemberOutside,
        position: int = 0,
    ) -> None:
        """`position`: how many of its operations have run."""
        self.seconds = 0.0
        self._block = block
        self._iteration = iteration
        self._runner = runner
        self._outside = outside
        self._position = position

    def begin(self, inputs: list[Any], turn: Turn) -> Outcome:
        """Run members. The values are in their places: there are no other inputs."""
        return self.resume(turn)

    def resume(self, turn: Turn) -> Outcome:
        stop = run_members(self._block, self._position, self._iteration, self._runner, self._outside, turn)
        if stop is None:
            return _DONE
        self._position = stop.position
        return stop.outcome

    def close(self) -> None:
        """Its values are the iteration's."""


def run_members(
    block: BlockMembers,
    position: int,
    iteration: IterationState,
    runner: MemberCalls,
    outside: MemberOutside,
    turn: Turn,
) -> MemberOutcome | None:
    """Run a block's members from one of its operations on, until one has to wait; None if none had to."""
    if block.quiet is not None:
        return block.quiet.run(_run, block, position, iteration, runner, outside, turn)
    if block.computes:
        with np.errstate(all="ignore"):
            return _run(block, position, iteration, runner, outside, turn)
    return _run(block, position, iteration, runner, outside, turn)


def _run(
    block: BlockMembers,
    first: int,
    iteration: IterationState,
    runner: MemberCalls,
    outside: MemberOutside,
    turn: Turn,
) -> MemberOutcome | None:
    entries = iteration.entries
    operations = block.operations[first:] if first else block.operations
    # The first runs, however late the turn came.
    countdown = _KERNELS_PER_CLOCK
    for position, (code, item, start, stop, writes, route, keeps_size) in enumerate(operations, first):
        if code == CONSTANT:
            for place in writes:
                entries[place] = item.value
            continue
        args = entries[start:stop]
        if item.dereference or item.mutates:
            variable = runner.follow(item, iteration, args)
            if variable is not None:
                return MemberOutcome(Outcome(PARKED, variable), position)
        if code in _PASSED_ON:
            (value,) = args
            entries[start] = None
            if route is None:
                for place in writes:
                    entries[place] = value
            else:
                outside.send_along(item, iteration, route, value)
            del value, args
            continue
        if not countdown:
            countdown = _KERNELS_PER_CLOCK
            if perf_counter() > turn.ends and turn.is_over():
                return MemberOutcome(_TURN, position)
        countdown -= 1
        if not keeps_size and outside.is_worth_thread(item, args):
            return MemberOutcome(Outcome(THREAD, position), position)
        entries[start:stop] = [None] * (stop - start)
        if code == KERNEL:
            outputs = runner.call(item, iteration, args)
        else:
            outputs = runner.call_region(item, iteration, args, runner.plan.times)
            countdown = 0
        args.clear()
        if item.single:
            for place in writes:
                entries[place] = outputs
        elif outputs is not None:
            for places, each in zip(writes, outputs, strict=True):
                for place in places:
                    entries[place] = each
            del each
        del outputs
    return None


def open_block(
    block: BlockMembers,
    position: int,
    iteration: IterationState,
    state: ExecutorState,
    *,
    is_dead: bool = False,
) -> None:
    """Let what is left of a block, from an operation on, go on item by item.

    With that its own item has run. Where the block is dead, all of it is.
    """
    members = block.members
    run = members.index(block.operations[position].item) if position else 0
    pending = iteration.pending
    own = {member.local for member in members}
    for local in own:
        pending[local] = 0
    for member in members[run:]:
        for local, _ in consumers_of(member):
            pending[local] += local in own
    count = -1
    for member in members[:run]:
        for local, consumer in consumers_of(member):
            if local not in own:
                pending[local] -= 1
                if not pending[local]:
                    heappush(state.ready, (consumer.order, iteration.serial, consumer, iteration))
                    count += 1
    for member in members[run:]:
        if not pending[member.local]:
            heappush(state.ready, (member.order, iteration.serial, member, iteration))
            count += 1
    iteration.outstanding += count
    if is_dead:
        assert iteration.dead is not None
        iteration.dead |= own


__all__ = ["ListBody", "MemberOutside", "open_block", "run_members"]
