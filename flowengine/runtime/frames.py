"""The living frames and iterations of one step, and the conditions under which each is done.

A `FrameState` is one execution of a while loop, made by its first Enter. An `IterationState` is one
iteration of it, with the counts and inputs of its items. The root frame has one iteration, the step itself.

An iteration is done when none of its items is outstanding (ready or running), no child frame opened in it
lives, and its predecessor is done; iteration 0 when, besides, all Enters of the frame have arrived. It is
freed then. A frame is done when its last iteration is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowengine.runtime.planning.items import Item, StaticFrame


class IterationState:
    """The tables of one iteration, indexed by `Item.local` and by entry.

    serial       unique in the step and growing: breaks ties among ready items, older first
    pending      the number of inputs that each item still waits for
    entries      the inputs that have arrived
    dead         locals of the items that a dead input has reached, or None while there are none
    dead_inputs  {local of a Merge: dead data inputs seen}
    outstanding  items that are ready or running
    children     frames opened in this iteration that are alive
    """

    __slots__ = (
        "children",
        "dead",
        "dead_inputs",
        "entries",
        "frame",
        "number",
        "outstanding",
        "pending",
        "serial",
    )

    def __init__(self, frame: FrameState, number: int, serial: int) -> None:
        static = frame.static
        self.frame = frame
        self.number = number
        self.serial = serial
        self.pending = static.pending[:]
        self.entries = static.entries[:]
        self.dead: set[int] | None = None
        self.dead_inputs: dict[int, int] | None = None
        self.outstanding = 0
        self.children = 0

    def tag(self) -> tuple[tuple[str, int], ...]:
        """Return ((frame name, iteration), ...) from the outermost loop in; () for the root."""
        if self.frame.parent is None:
            return ()
        result: list[tuple[str, int]] = []
        iteration: IterationState | None = self
        while iteration is not None and iteration.frame.parent is not None:
            path = iteration.frame.static.path
            if path:  # the root of a function's body has no name of its own
                result.append((path[-1], iteration.number))
            iteration = iteration.frame.parent
        return tuple(reversed(result))


class FrameState:
    """One execution of a loop: identified by (parent iteration, static frame).

    iterations       those alive, by number; contiguous from `oldest` to `newest`
    pending_enters   Enters that have not arrived
    constants        (Enter, value or DEAD) that every iteration receives
    held             (NextIteration, value) waiting until fewer iterations are alive
    dead_exits       Exits that were dead in the newest iteration
    left             Exits that have delivered, None while there are none
    on_done          of a function's body: called with its one iteration when that is done
    """

    __slots__ = (
        "constants",
        "dead_exits",
        "held",
        "iterations",
        "left",
        "newest",
        "oldest",
        "on_done",
        "parent",
        "pending_enters",
        "static",
    )

    def __init__(self, static: StaticFrame, parent: IterationState | None) -> None:
        self.static = static
        self.parent = parent
        self.iterations: dict[int, IterationState] = {}
        self.oldest = 0
        self.newest = 0
        self.pending_enters = static.enters
        self.constants: list[tuple[Item, Any]] = []
        self.held: list[tuple[Item, Any]] = []
        self.dead_exits: list[Item] = []
        self.left: set[Item] | None = None
        self.on_done: Callable[[IterationState], None] | None = None

    def lets_out(self, leaving: Item) -> bool:
        """Return whether an Exit delivers to the parent: once, as its consumers there wait for one token."""
        left = self.left
        if left is None:
            self.left = {leaving}
            return True
        if leaving in left:
            return False
        left.add(leaving)
        return True


def root_frame(static: StaticFrame) -> FrameState:
    """Return the frame that all steps share: it has no Enters, no Exits, and one iteration a step."""
    frame: FrameState | None = static.root_state
    if frame is None:
        frame = static.root_state = FrameState(static, None)
    return frame
