"""The executor of a step that stops before nodes, so that a person can look at values.

All executors of the step share one `StepControl`. While it is paused none of them begins a node, and the
event loop goes on. Kernels that may wait go on, too: what they wait for comes from elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import trio

from flowengine.core.arrays import DEAD
from flowengine.runtime.frames import IterationState
from flowengine.runtime.guarding.value_checks import array_of
from flowengine.runtime.guarding.watched import Tag, WatchedExecutor, copying_out
from flowengine.runtime.planning.items import Item, Kind

#: The kinds of items that compute something. A step does not stop before others, which hand values on.
_COMPUTING: Final = frozenset({Kind.UNARY, Kind.BINARY, Kind.GENERAL, Kind.ASYNC, Kind.CALL, Kind.REGION})

#: Takes a node, its iteration and its inputs; returns whether the step stops before it.
Stops = Callable[[Item, Tag, Sequence[Any]], bool]


class StepControl:
    """The pause of a step: its executors set it, and `fe.debug.Stepper` ends it.

    stops     says whether to stop before a node
    is_paused whether the step has stopped; `paused` is the node, with its iteration and inputs
    reached   is set when it has
    next      the executor whose node is to run first when the step goes on; None if there is none
    ran       the node that ran last, with its iteration, inputs and outputs
    """

    def __init__(self, stops: Stops) -> None:
        self.stops = stops
        self.is_paused = False
        self.paused: tuple[Item, Tag, list[Any]] | None = None
        self.ran: tuple[Item, Tag, Sequence[Any], list[Any]] | None = None
        self.reached = trio.Event()
        self.next: Any = None
        self._resumed = trio.Event()

    def pause(self, executor: Any, item: Item, tag: Tag, inputs: list[Any]) -> None:
        """Stop before this node of an executor."""
        self.is_paused = True
        self.next = executor
        self.paused = (item, tag, inputs)
        self._resumed = trio.Event()
        self.reached.set()

    def resume(self) -> None:
        """Let the step go on."""
        self.is_paused = False
        self.paused = None
        self.reached = trio.Event()
        self._resumed.set()

    async def resumed(self) -> None:
        """Wait until the step goes on."""
        await self._resumed.wait()

    def before(self, item: Item, inputs: Sequence[Any]) -> Sequence[Any] | None:
        """Return the inputs of an item that writes variables as they are now; None for any other item."""
        return [array_of(value) for value in inputs] if item.mutates else None

    def look(
        self,
        item: Item,
        tag: Tag,
        inputs: Sequence[Any],
        outputs: Any,
        found_before: Sequence[Any] | None = None,
    ) -> None:
        """Keep what the node that ran last has made."""
        made = () if outputs is None else (outputs,) if item.single else outputs
        found = inputs if found_before is None else found_before
        self.ran = (item, tag, [*map(array_of, found)], [*map(array_of, made)])


class SteppedExecutor(WatchedExecutor):
    """One run of a plan that stops where its control says, on the event loop's thread alone."""

    def __init__(self, *arguments: Any, control: StepControl, **keywords: Any) -> None:
        super().__init__(*arguments, watcher=control, **(keywords | {"use_threads": False}))
        self.control = control
        #: The key of the item that the step has stopped before already.
        self._passed: tuple[int, int] | None = None

    def _run_batch(self, count: int) -> None:
        control = self.control
        if control.is_paused or control.next not in (None, self):
            self.spent = True
            return
        _, serial, item, iteration = self.state.ready[0]
        key = (item.order, serial)
        if key != self._passed and item.kind in _COMPUTING and not _is_dead(item, iteration):
            with copying_out(self.context.hardware):
                inputs = [*map(array_of, iteration.entries[item.start : item.stop])]
            tag = iteration.tag()
            if control.stops(item, tag, inputs):
                self._passed = key
                control.pause(self, item, tag, inputs)
                self.spent = True
                return
        self._passed = control.next = None
        super()._run_batch(1)

    async def _yield(self) -> None:
        if not self.control.is_paused:
            await super()._yield()
            return
        ticket = self._own_ticket()
        self._turns.stop(ticket)
        await self.control.resumed()
        await self._turns.arrive(ticket)
        self._check_going_on()

    def recall(self) -> None:
        super().recall()
        self.control.next = None
        self.control.resume()


def _is_dead(item: Item, iteration: IterationState) -> bool:
    """Return whether the item is skipped: it is in a branch that was not taken."""
    dead = iteration.dead
    return (dead is not None and item.local in dead) or any(
        value is DEAD for value in iteration.entries[item.start : item.stop]
    )


__all__ = ["StepControl", "SteppedExecutor", "Stops"]
