"""The state machine of a step: counts, frames, iterations and dead tokens.

It decides which item may run with which tag; `executor.py` runs it. No trio, no threads, no clock: an
executor takes a ready item, computes it, and calls the method for the item's kind:

    state = ExecutorState(plan.root); state.start(plan.sources)
    while (entry := state.take_ready()) is not None:
        item, iteration = entry
        ...
        state.finish_single(item, iteration, value)

The rules are those of the white paper's section 4.4 as TensorFlow's executor settles them:

* Merge takes its first live data input, waits for all control inputs and ignores their deadness; it is
  dead when all data inputs are, or when one that comes from an Enter is.
* Switch sends dead on the side not taken, on both if it is dead itself; its control edges are dead only
  if it is. Any other item with a dead input is dead and is not run; a ControlTrigger always is.
* Enter feeds iteration 0; a constant Enter feeds every iteration, however late it arrives. A live
  NextIteration feeds the next iteration, held back while `parallel_iterations` are alive; a dead one ends.
* A live Exit delivers at once, and only its first value. One that is dead in the last iteration, and was
  never live, delivers dead when the frame is done; earlier dead Exits vanish.

Each call costs O(consumers of the item); every table is indexed by position. Tokens along plain edges are
delivered by `delivery.py`, or inline where nearly every item passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Any, Final, TypeAlias

import numpy as np

from flowengine.core.arrays import DEAD
from flowengine.runtime.frames import FrameState, IterationState, root_frame
from flowengine.runtime.planning.items import Edge, Item, Kind, MergeEdge, StaticFrame
from flowengine.runtime.token_propagation import (
    ReadyEntry,
    count_down,
    deliver,
    deliver_control,
    deliver_dead,
    deliver_dead_to_merges,
)

#: The consumers of a fed value: its plain edges and its edges to Merges.
Port: TypeAlias = tuple[Sequence[Edge], Sequence[MergeEdge]]

_INDICES: Final = tuple(np.int32(i) for i in range(16))


class ExecutorState:
    """One step's progress. Not shared between threads.

    ready   a heap of the items that may run now; an executor's inner loop may pop it directly
    root    the iteration of the root frame
    frames  {(serial of the parent iteration, static frame): the frame alive there}
    first   the items that are ready at the start, if that was prepared; awaited, the Recvs that wait then
    serial  that of the newest iteration; 0 while the root's is the only one
    done    whether every item has run that ever will
    """

    __slots__ = ("awaited", "done", "first", "frames", "ready", "root", "serial")

    def __init__(self, root: StaticFrame) -> None:
        self.ready: list[ReadyEntry] = []
        self.first: Sequence[ReadyEntry] = ()
        self.awaited: dict[tuple[int, int], tuple[Item, IterationState]] = {}
        self.done = False
        self.serial = 0
        self.root = IterationState(root_frame(root), 0, 0)
        self.frames: dict[tuple[int, StaticFrame], FrameState] = {}

    # -- starting and taking ------------------------------------------------------------------------

    def start(
        self,
        sources: Iterable[Item],
        ports: Sequence[Port] = (),
        values: Sequence[Any] = (),
        constants: Iterable[tuple[Sequence[Edge], Sequence[MergeEdge], Any]] = (),
    ) -> None:
        """Make the items without inputs ready and deliver the feeds: one value for each port."""
        self._begin(self.root, sources, ports, values, constants)
        self.done = self.root.outstanding == 0

    def resume(self, iteration: IterationState, ready: Iterable[Item], awaited: int) -> None:
        """Continue another state: with the root's tables, the ready items, and the number outstanding."""
        self.root = iteration
        for item in ready:
            heappush(self.ready, (item.order, iteration.serial, item, iteration))
        iteration.outstanding = len(self.ready) + awaited

    def open_body(
        self,
        root: StaticFrame,
        sources: Iterable[Item],
        ports: Sequence[Port],
        values: Sequence[Any],
        constants: Iterable[tuple[Sequence[Edge], Sequence[MergeEdge], Any]],
        caller: IterationState,
        on_done: Callable[[IterationState], None],
    ) -> IterationState:
        """Begin a function's body as a child of the iteration that calls it.

        `on_done` gets the body's iteration when all of it has run; not if nothing of it is outstanding
        when this returns, for then it is done already. The calling item stays outstanding meanwhile.
        """
        frame = FrameState(root, caller)
        frame.on_done = on_done
        self.serial += 1
        body = IterationState(frame, 0, self.serial)
        self._begin(body, sources, ports, values, constants)
        if body.outstanding:
            caller.children += 1
        return body

    def _begin(
        self,
        target: IterationState,
        sources: Iterable[Item],
        ports: Sequence[Port],
        values: Sequence[Any],
        constants: Iterable[tuple[Sequence[Edge], Sequence[MergeEdge], Any]],
    ) -> None:
        count = 0
        for item in sources:
            heappush(self.ready, (item.order, target.serial, item, target))
            count += 1
        for (edges, merges), value in zip(ports, values, strict=True):
            count += deliver(self.ready, edges, target, value)
            if merges:
                count += self._deliver_to_merges(merges, target, value)
        for edges, merges, value in constants:
            count += deliver(self.ready, edges, target, value)
            if merges:
                count += self._deliver_to_merges(merges, target, value)
        target.outstanding = count

    def take_ready(self) -> tuple[Item, IterationState] | None:
        """Return the ready item that was constructed first, with its iteration; None if none is ready."""
        if not self.ready:
            return None
        _, _, item, iteration = heappop(self.ready)
        return item, iteration

    @staticmethod
    def is_dead(item: Item, iteration: IterationState) -> bool:
        """Return whether a ready item got a dead input: then call `finish_dead` instead of running it."""
        return iteration.dead is not None and item.local in iteration.dead

    # -- finishing ----------------------------------------------------------------------------------

    def finish_single(self, item: Item, iteration: IterationState, value: Any) -> None:
        """Finish an item with one output. The hot path: everything is inline."""
        pending = iteration.pending
        entries = iteration.entries
        count = -1
        for local, entry, consumer in item.edges[0]:
            entries[entry] = value
            left = pending[local] - 1
            pending[local] = left
            if not left:
                heappush(self.ready, (consumer.order, iteration.serial, consumer, iteration))
                count += 1
        if item.has_rare_edges:
            count += self.emit_rare(item, iteration, value)
        if count:
            iteration.outstanding += count
            if not iteration.outstanding:
                self.iteration_idle(iteration)

    def finish(self, item: Item, iteration: IterationState, outputs: Sequence[Any]) -> None:
        """Finish an item: one value for each output, DEAD for an output that is not to be taken."""
        count = -1
        for slot, value in enumerate(outputs):
            if value is DEAD:
                count += deliver_dead(self.ready, item.edges[slot], iteration)
            else:
                count += deliver(self.ready, item.edges[slot], iteration, value)
            if item.has_rare_edges:
                count += self._emit_rare_slot(item, slot, iteration, value)
        if item.has_rare_edges:
            count += deliver_control(self.ready, item, iteration)
        self._count(iteration, count)

    def finish_switch(self, item: Item, iteration: IterationState, value: Any, taken: int) -> None:
        """Finish a live Switch: `value` leaves at slot `taken`, a dead token at the other."""
        pending = iteration.pending
        entries = iteration.entries
        edges = item.edges
        count = -1
        for local, entry, consumer in edges[taken]:
            entries[entry] = value
            left = pending[local] - 1
            pending[local] = left
            if not left:
                heappush(self.ready, (consumer.order, iteration.serial, consumer, iteration))
                count += 1
        if edges[1 - taken]:
            count += deliver_dead(self.ready, edges[1 - taken], iteration)
        if item.has_rare_edges:
            count += self._emit_rare_slot(item, taken, iteration, value)
            count += self._emit_rare_slot(item, 1 - taken, iteration, DEAD)
            count += deliver_control(self.ready, item, iteration)
        if count:
            iteration.outstanding += count
            if not iteration.outstanding:
                self.iteration_idle(iteration)

    def finish_merge(self, item: Item, iteration: IterationState) -> None:
        """Finish a ready Merge: it forwards its first value and the index, or dead if none is live."""
        start = item.start
        entries = iteration.entries
        value = entries[start]
        if value is DEAD:
            self.finish_dead(item, iteration)
            return
        index = entries[start + 1]
        entries[start] = DEAD
        self._count(iteration, self._emit_merge(item, iteration, value, index) - 1)

    def finish_dead(self, item: Item, iteration: IterationState) -> None:
        """Skip an item with a dead input: every output is dead."""
        kind = item.kind
        if kind == Kind.ENTER:
            self.finish_enter(item, iteration, DEAD)
            return
        if kind == Kind.EXIT:
            self._leave_dead(item, iteration)
        elif kind != Kind.NEXT_ITERATION:
            self._count(iteration, self._emit_dead(item, iteration) - 1)
            return
        self._count(iteration, -1)

    def give_up(self, iteration: IterationState) -> None:
        """End an item of an iteration that will never have an output: not even a dead one."""
        self._count(iteration, -1)

    # -- frames -------------------------------------------------------------------------------------

    def finish_enter(self, item: Item, iteration: IterationState, value: Any) -> None:
        """Deliver an Enter's value (or DEAD) into iteration 0 of its frame, or, if constant, into all."""
        frame = self._frame_for(item, iteration)
        frame.pending_enters -= 1
        if item.is_constant_enter:
            frame.constants.append((item, value))
            for target in tuple(frame.iterations.values()):
                target.outstanding += self._emit_any(item, target, value)
        else:
            target = frame.iterations[0]
            target.outstanding += self._emit_any(item, target, value)
        if not frame.pending_enters:
            first = frame.iterations.get(frame.oldest)
            if first is not None and not first.outstanding:
                self.iteration_idle(first)
        self._count(iteration, -1)

    def finish_exit(self, item: Item, iteration: IterationState, value: Any) -> None:
        """Deliver a live Exit's value to the iteration in which the frame was opened."""
        self._leave(item, iteration, value)
        self._count(iteration, -1)

    def finish_next_iteration(self, item: Item, iteration: IterationState, value: Any) -> None:
        """Deliver a live NextIteration's value to the next iteration, made now or when there is room."""
        self._advance(item, iteration, value)
        self._count(iteration, -1)

    def _leave(self, item: Item, iteration: IterationState, value: Any) -> None:
        parent = iteration.frame.parent
        assert parent is not None
        if iteration.frame.lets_out(item):
            parent.outstanding += self._emit(item, parent, value)

    @staticmethod
    def _leave_dead(item: Item, iteration: IterationState) -> None:
        """Record a dead Exit, which counts only if no later iteration is begun."""
        frame = iteration.frame
        if iteration.number == frame.newest:
            frame.dead_exits.append(item)

    def _advance(self, item: Item, iteration: IterationState, value: Any) -> None:
        frame = iteration.frame
        number = iteration.number + 1
        target = frame.iterations.get(number)
        if target is None:
            if len(frame.iterations) >= frame.static.parallel_iterations:
                frame.held.append((item, value))
                return
            target = self._open_iteration(frame, number)
        target.outstanding += self._emit(item, target, value)

    def _frame_for(self, enter: Item, parent: IterationState) -> FrameState:
        static = enter.target_frame
        assert static is not None
        key = (parent.serial, static)
        frame = self.frames.get(key)
        if frame is None:
            frame = self.frames[key] = FrameState(static, parent)
            parent.children += 1
            self._open_iteration(frame, 0)
        return frame

    def _open_iteration(self, frame: FrameState, number: int) -> IterationState:
        self.serial += 1
        iteration = IterationState(frame, number, self.serial)
        frame.iterations[number] = iteration
        frame.newest = number
        if frame.dead_exits:
            frame.dead_exits.clear()
        for enter, value in frame.constants:
            iteration.outstanding += self._emit_any(enter, iteration, value)
        return iteration

    def iteration_idle(self, iteration: IterationState) -> None:
        """Free an iteration with nothing outstanding if it is done, and handle the consequences."""
        frame = iteration.frame
        if frame.parent is None:
            if not iteration.children:
                self.done = True
            return
        if frame.on_done is not None:
            if not iteration.children:
                frame.parent.children -= 1
                frame.on_done(iteration)
            return
        while (
            iteration.number == frame.oldest
            and not iteration.outstanding
            and not iteration.children
            and not (frame.pending_enters and iteration.number == 0)
        ):
            number = frame.oldest
            del frame.iterations[number]
            frame.oldest = number + 1
            if frame.held:
                self._release_held(frame)
            successor = frame.iterations.get(number + 1)
            if successor is None:
                if not frame.iterations:
                    self._frame_done(frame)
                return
            iteration = successor

    def _release_held(self, frame: FrameState) -> None:
        """Make room for one more iteration: deliver the NextIterations that wait for it."""
        held, frame.held = frame.held, []
        iteration = self._open_iteration(frame, frame.newest + 1)
        for item, value in held:
            iteration.outstanding += self._emit(item, iteration, value)

    def _frame_done(self, frame: FrameState) -> None:
        parent = frame.parent
        assert parent is not None
        for item in frame.dead_exits:
            if frame.lets_out(item):
                parent.outstanding += self._emit_dead(item, parent)
        del self.frames[(parent.serial, frame.static)]
        parent.children -= 1
        if not parent.outstanding and not parent.children:
            self.iteration_idle(parent)

    # -- delivering: each returns the number of items that became ready in the target ------------------

    def _emit(self, item: Item, target: IterationState, value: Any) -> int:
        """Deliver the one live output of an item to all its consumers in an iteration."""
        count = deliver(self.ready, item.edges[0], target, value)
        return count + self.emit_rare(item, target, value) if item.has_rare_edges else count

    def _emit_dead(self, item: Item, target: IterationState) -> int:
        """Deliver all outputs of an item, dead."""
        count = 0
        for slot, edges in enumerate(item.edges):
            count += deliver_dead(self.ready, edges, target)
            if item.has_rare_edges:
                count += self._emit_rare_slot(item, slot, target, DEAD)
        if item.control is not None:
            dead = target.dead
            if dead is None:
                dead = target.dead = set()
            for local, _ in item.control:
                dead.add(local)
        return count + deliver_control(self.ready, item, target)

    def _emit_any(self, item: Item, target: IterationState, value: Any) -> int:
        return self._emit_dead(item, target) if value is DEAD else self._emit(item, target, value)

    def _emit_merge(self, merge: Item, target: IterationState, value: Any, index: Any) -> int:
        """Deliver both live outputs of a Merge: the value and the index of the input it came from."""
        edges = merge.edges
        count = deliver(self.ready, edges[0], target, value)
        if edges[1]:
            count += deliver(self.ready, edges[1], target, index)
        if merge.has_rare_edges:
            count += self._emit_rare_slot(merge, 0, target, value)
            count += self._emit_rare_slot(merge, 1, target, index)
            count += deliver_control(self.ready, merge, target)
        return count

    def emit_rare(self, item: Item, target: IterationState, value: Any) -> int:
        """Deliver an item's one live output along its rare edges: all but plain data edges."""
        count = 0
        if item.merge_edges is not None or item.passing is not None:
            count = self._emit_rare_slot(item, 0, target, value)
        if item.control is not None or item.control_merges is not None:
            count += deliver_control(self.ready, item, target)
        return count

    def _emit_rare_slot(self, item: Item, slot: int, target: IterationState, value: Any) -> int:
        """Deliver one output, live or dead, to Merges and to items that forward it at once."""
        count = 0
        if item.merge_edges is not None:
            merges = item.merge_edges[slot]
            if value is DEAD:
                count = deliver_dead_to_merges(self.ready, merges, target)
            else:
                count = self._deliver_to_merges(merges, target, value)
        if item.passing is not None:
            for passing in item.passing[slot]:
                if passing.kind == Kind.EXIT:
                    if value is DEAD:
                        self._leave_dead(passing, target)
                    else:
                        self._leave(passing, target, value)
                elif value is not DEAD:
                    self._advance(passing, target, value)
        return count

    def _deliver_to_merges(self, merges: Sequence[MergeEdge], target: IterationState, value: Any) -> int:
        count = 0
        entries = target.entries
        for merge, number, _ in merges:
            place = merge.start + 1
            if entries[place] is not None:
                continue  # a live input was first
            index = entries[place] = _INDICES[number] if number < len(_INDICES) else np.int32(number)
            if merge.is_immediate:
                count += self._emit_merge(merge, target, value, index)
            else:
                entries[merge.start] = value
                count += count_down(self.ready, merge, target)
        return count

    def _count(self, iteration: IterationState, change: int) -> None:
        if change:
            iteration.outstanding += change
        if not iteration.outstanding:
            self.iteration_idle(iteration)
