"""A step of one small partition, run segment by segment: see `straight`.

It needs no task, no counts of single items and nothing that waits for each Recv. Where the slice is spent it
stands in line and goes on when it is its turn. As soon as it turns out to need more than that, because a
tensor is dead, a kernel heavy or a variable being written on a thread, it goes on as a `TasklessStep` from
where it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any, Final

import numpy as np
import trio

from flowengine.core.arrays import Value
from flowengine.core.errors import CancelledError, OpError
from flowengine.ir.graph import Node
from flowengine.kernels.context import KernelContext
from flowengine.resources.container import StepContainer
from flowengine.resources.variable import Variable
from flowengine.runtime.exchange import Group, Place
from flowengine.runtime.failures import as_op_error, locate_at
from flowengine.runtime.heavy import bytes_of, estimated, is_worth_sharing
from flowengine.runtime.items import Item, grouped
from flowengine.runtime.lanes import HEAVY_MICROSECONDS
from flowengine.runtime.straight import CONSTANT, FORWARD, KERNEL, REGION, SEND, Operation, Segment, Straight
from flowengine.runtime.straight_host import Continued, StraightHost, StraightRendezvous
from flowengine.runtime.turn_line import Ticket
from flowengine.transport.tensors.routes import Route

#: The clock is read once for so many kernels.
_KERNELS_PER_CLOCK: Final = 16
#: Operations that compute nothing: a value goes on as it is.
_PASSED_ON: Final = (FORWARD, SEND)


class _NotHere(Exception):
    """An item has to be run by an executor."""


class _SliceSpent(Exception):
    """The rest has to wait for a turn."""


class StraightStep(Group):
    """One run of a straight plan; the group of its one partition, for who asks how it stands.

    number, done    the step's, and what its host calls at its end; of no concern here
    """

    __slots__ = (
        "_come",
        "_container",
        "_context",
        "_continued",
        "_ending",
        "_entries",
        "_host",
        "_inside",
        "_is_over",
        "_left",
        "_position",
        "_ready",
        "_run",
        "_straight",
        "_ticket",
        "_under_way",
        "_waits",
        "done",
        "feeds",
        "number",
        "plan",
        "rendezvous",
    )

    def __init__(
        self,
        straight: Straight,
        feeds: Sequence[Any],
        number: int,
        rendezvous: StraightRendezvous,
        host: StraightHost,
        done: Any,
    ) -> None:
        self._straight = straight
        self._host = host
        self.plan = straight.plan
        self.feeds = feeds
        self.number = number
        self.rendezvous = rendezvous
        self.done = done
        self._entries = entries = straight.entries[:]
        if feeds:
            for places, value in zip(straight.feeds, feeds, strict=True):
                for place in places:
                    entries[place] = value
        self._waits = straight.waits[:]
        self._ready = straight.ready[:]
        #: Segments and Recvs that are not over.
        self._left = straight.size
        self._inside = True
        self._is_over = False
        self._ending: Exception | None = None
        self._container: StepContainer | None = None
        self._context: KernelContext | None = None
        self._continued: tuple[Continued, Group] | None = None
        #: Its place in line, while it stands there.
        self._ticket: Ticket | None = None
        #: The segment that runs, and how many of its operations have run.
        self._position = 0
        self._under_way: Segment | None = None
        self._come: list[int] = []
        self._run: list[Segment] = []

    def begin(self) -> None:
        """Run as far as that goes now."""
        if self._straight.receives:
            self.rendezvous.receive_all(self._straight.routes, self._received)
        self._go()

    def cancel(self) -> None:
        """End the step with CancelledError."""
        if self._continued is not None:
            self._continued[0].cancel()
        elif not self._is_over:
            self._fail(CancelledError("the session was closed while this step was running"))
            if self._ticket is not None:
                self._host.turns.withdraw(self._ticket)
                self._advance()

    def request_cancel(self) -> None:
        """As `cancel`, for the session that is being closed."""
        self.cancel()

    # How it stands, for `JointGroup`'s callers.

    @property
    def is_asleep(self) -> bool:
        """Whether it has nothing to do but to wait."""
        return self._continued[1].is_asleep if self._continued is not None else not self._inside

    def first(self) -> Place | None:
        """Where the Recvs stand that are to be given up first; None if there is none."""
        if self._continued is not None:
            return self._continued[1].first()
        return None if self._is_over or len(self._come) == len(self._straight.receives) else (0, ())

    def give_up(self, first: Place) -> None:
        """What is waited for at this place will not come."""
        if self._continued is None:
            self._continue()
        if self._continued is not None:
            self._continued[1].give_up(first)

    # -- what comes ---------------------------------------------------------------------------------

    def _received(self, number: int, value: Value, is_dead: bool, error: Exception | None) -> None:
        if self._is_over or self._continued is not None:
            return
        if error is not None:
            self._fail(error)
            return
        _, writes, followers = self._straight.receives[number]
        if is_dead:
            self.rendezvous.put_back(self._route(number), value, is_dead)
            if not self._inside:
                self._continue()
            elif self._ending is None:
                self._ending = _NotHere()
            return
        entries = self._entries
        for place in writes:
            entries[place] = value
        del value
        self._come.append(number)
        self._left -= 1
        waits = self._waits
        for place in followers:
            left = waits[place] = waits[place] - 1
            if not left:
                self._ready.append(place)
        if not self._inside:
            self._inside = True
            self._go()

    def _go(self) -> None:
        """Run what is ready, now or when it is this step's turn."""
        turns = self._host.turns
        if perf_counter() < turns.line.serves_until or turns.serves():
            self._advance()
        else:
            self._defer()

    def _defer(self) -> None:
        self._ticket = Ticket()
        self._host.turns.defer(self._ticket, self._advance)

    def _route(self, number: int) -> Route:
        return next(route for route, place in self._straight.routes.items() if place == number)

    def _fail(self, error: Exception) -> None:
        if not self._inside:
            self._end(error)
        elif self._ending is None or isinstance(self._ending, _NotHere):
            self._ending = error

    # -- what runs ----------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    def _advance(self) -> None:
        """Run the segments that are ready."""
        self._ticket = None
        ready, waits, segments = self._ready, self._waits, self._straight.segments
        try:
            while True:
                if self._ending is not None:
                    raise self._ending
                segment = self._under_way
                if segment is not None:
                    operations = segment.operations[self._position :]
                elif ready:
                    self._under_way = segment = segments[ready.pop()]
                    self._position = 0
                    operations = segment.operations
                else:
                    break
                if segment.is_plain:
                    self._host.quiet.run(self._run_segment, operations)
                elif segment.computes:
                    with np.errstate(all="ignore"):
                        self._run_segment(operations)
                elif operations:
                    self._run_segment(operations)
                self._under_way = None
                self._run.append(segment)
                self._left -= 1
                for place in segment.followers:
                    left = waits[place] = waits[place] - 1
                    if not left:
                        ready.append(place)
        except _SliceSpent:
            self._defer()
            return
        except _NotHere:
            self._continue()
            return
        except Exception as error:
            self._end(error)
            return
        finally:
            # What comes while the step stands in line is found when it goes on.
            self._inside = self._ticket is not None
        if not self._left:
            self._end(None)

    def _run_segment(self, operations: Sequence[Operation]) -> None:
        entries = self._entries
        countdown = 0
        deadline = self._host.turns.line.ends
        is_first = True
        for code, item, start, stop, writes, route, keeps_size in operations:
            if code in _PASSED_ON:
                value = entries[start]
                if item.dereference:
                    value = self._read(item, value)
                entries[start] = None
                if route is None:
                    for place in writes:
                        entries[place] = value
                else:
                    try:
                        self.rendezvous.send_along(route, value)
                    except Exception as error:
                        raise self._located(error, item.node, (), (value,)) from error
                del value
            elif code == CONSTANT:
                for place in writes:
                    entries[place] = item.value
            else:
                if not countdown:
                    countdown = _KERNELS_PER_CLOCK
                    # Whoever has a turn runs something: a step goes on, however late its turn comes.
                    if is_first:
                        is_first = False
                    elif perf_counter() > deadline:
                        raise _SliceSpent
                countdown -= 1
                args = entries[start:stop]
                if item.mutates or item.dereference:
                    self._resolve(item, args)
                if not keeps_size and self._is_heavy(code, item, args):
                    raise _NotHere
                entries[start:stop] = [None] * (stop - start)
                if code == KERNEL:
                    outputs = self._call(item, args)
                else:
                    outputs = self._call_region(item, args)
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
            self._position += 1

    def _read(self, item: Item, variable: Variable) -> Value:
        if variable.writer is not None:
            raise _NotHere
        try:
            return variable.read()
        except Exception as error:
            raise self._located(error, item.node, (), None) from error

    def _resolve(self, item: Item, args: list[Any]) -> None:
        for value in args:
            if isinstance(value, Variable) and value.writer is not None:
                raise _NotHere
        for slot in item.dereference:
            args[slot] = self._read(item, args[slot])

    def _is_heavy(self, code: int, item: Item, args: list[Any]) -> bool:
        """Whether a kernel or a region may be worth a thread."""
        if not self._host.use_threads:
            return False
        if code == REGION:
            return is_worth_sharing(item)
        for value in args:
            # Of scalars, which most are, nothing need be summed up.
            if type(value) is np.ndarray and value.ndim:
                return bytes_of(args) > item.times.inline_bytes and estimated(item, args) > HEAVY_MICROSECONDS
        return item.times.inline_bytes < 0 and estimated(item, args) > HEAVY_MICROSECONDS

    def _call(self, item: Item, args: list[Any]) -> Any:
        try:
            if item.takes_context:
                return item.function(*grouped(item, args), ctx=self._own_context())
            return item.function(*grouped(item, args))
        except Exception as error:
            raise self._located(error, item.node, (), args) from error

    def _call_region(self, item: Item, args: list[Any]) -> Any:
        region = item.region
        started = perf_counter()
        try:
            outputs = region.call(args, self._own_context())
        except Exception as error:
            blame = region.blame(error.__traceback__)
            if blame is None:
                raise self._located(error, item.node, (), None) from error
            raise self._located(error, blame.node, blame.tag, blame.inputs) from error
        self.plan.times.region_took(item.times, perf_counter() - started)
        return outputs

    def _located(
        self,
        error: Exception,
        node: Node,
        tag: tuple[tuple[str, int], ...],
        inputs: Sequence[Any] | None,
    ) -> OpError:
        return locate_at(as_op_error(error), node, tag, inputs, self._host.device)

    def _own_context(self) -> KernelContext:
        if self._context is None:
            self._container = StepContainer()
            self._context = self._host.make_context(self, self._container)
        return self._context

    # -- how it ends --------------------------------------------------------------------------------

    def _continue(self) -> None:
        """Go on in an executor."""
        if self._ending is not None and not isinstance(self._ending, _NotHere):
            self._end(self._ending)
            return
        finished = {item for segment in self._run for item in segment.items}
        finished.update(self._straight.receives[number].item for number in self._come)
        if self._under_way is not None:
            last = self._under_way.operations[self._position].item
            items = self._under_way.items
            finished.update(items[: items.index(last)])
        self._inside = False
        self.rendezvous.withdraw()
        state = self._straight.standing(self._entries, finished)
        self._continued = self._host.go_on(self, state, self._container)
        # Whoever keeps the step, to give it up, keeps nothing else alive.
        self.done = None
        self.feeds = ()
        self._entries = []
        self._continued[0].begin()

    def _end(self, error: Exception | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        values: list[Any] = []
        if error is not None:
            self.rendezvous.withdraw()
        elif self.plan.fetches:
            entries = self._entries
            values = [entries[place] for _, place, _ in self.plan.fetches]
        if self._container is not None:
            self._container.clear()
        self._entries = []
        self._host.ended(self, values, error)
        self.done = None
        self.feeds = ()


__all__ = ["StraightStep"]
