"""Step boundaries: moments at which no step that changes variables is under way.

A step may be anywhere when somebody wants to see the variables: some of its updates are made, some are not.
Between two steps of a training loop nothing is half done. Steps that only fill queues or evaluate do not
count: they may wait for ever, and change no variable.
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

#: Attributes that name functions, whose bodies are not looked into.
_FUNCTIONS: Final = ("body", "branches", "f", "then_branch")

_changes: WeakKeyDictionary[NodeGraph, bool] = WeakKeyDictionary()


async def at_boundary(session: Session, take: Callable[[], T]) -> T:
    """Call a function at the next step boundary of a session, at once if it is at one; its result.

    Where steps that change variables overlap all the time there is no boundary, and this waits for ever.
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
        # Here and now: when this task gets its turn the next step may have begun.
        try:
            results.append(take())
        except BaseException as error:  # raised where it is waited for
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
