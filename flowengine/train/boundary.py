"""Step boundaries: moments at which no step that changes variables is under way.

When a saver reads the variables, a running step may have made some of its updates and not the others. Between
two steps of a training loop every update is complete. Steps that only fill queues or evaluate do not count:
they may wait for ever, and change no variable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

import trio

from flowengine.ir.graph import Node, NodeGraph
from flowengine.ir.traits import Writes
from flowengine.session import Session

T = TypeVar("T")

#: Attributes that name functions. This module does not search their bodies.
_FUNCTIONS: Final = ("body", "branches", "f", "then_branch")

_changes: WeakKeyDictionary[NodeGraph, bool] = WeakKeyDictionary()


async def at_boundary(session: Session, take: Callable[[], T]) -> T:
    """Call a function at the next step boundary of a session, at once if it is at one; its result.

    It waits for ever if steps that change variables overlap all the time.
    """
    if session.at_step_boundary(changes_variables):
        await trio.lowlevel.checkpoint_if_cancelled()
        return take()
    reached = trio.Event()
    results: list[T] = []
    failures: list[BaseException] = []

    def step_ended() -> None:
        if reached.is_set() or not session.at_step_boundary(changes_variables):
            return
        # Call it here, because the next step may have begun when this task runs again.
        try:
            results.append(take())
        except BaseException as error:  # the waiting task raises it
            failures.append(error)
        reached.set()

    with session.when_steps_end(step_ended):
        await reached.wait()
    if failures:
        raise failures[0]
    return results[0]


def changes_variables(graph: NodeGraph) -> bool:
    """Whether a step of this graph may change a variable; True if that is unknown."""
    known = _changes.get(graph)
    if known is None:
        known = _changes[graph] = any(_changes_variable(node) for node in graph)
    return known


def _changes_variable(node: Node) -> bool:
    if node.op_def is None:
        return True
    if any(name in node.attrs for name in _FUNCTIONS):
        return node.is_stateful
    return node.has(Writes)
