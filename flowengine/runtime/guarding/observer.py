"""The observer of a step: it calls `RunOptions.observe` for each node that has run.

Nodes that only hand a value on, such as an Identity or a Switch, often do not run: their consumers take the
value from its origin. So an observer sees each value where it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flowengine.runtime.guarding.value_checks import array_of
from flowengine.runtime.guarding.watched import Tag
from flowengine.runtime.planning.items import Item


class Observer:
    """The watcher that calls a function of the user."""

    def __init__(self, observe: Callable[[str, Tag, Sequence[Any]], None]) -> None:
        self._observe = observe

    def before(self, item: Item, inputs: Sequence[Any]) -> None:
        """Do nothing: outputs are all that is shown."""

    def look(
        self, item: Item, tag: Tag, inputs: Sequence[Any], outputs: Any, found_before: None = None
    ) -> None:
        """Show the outputs of an item."""
        made = () if outputs is None else (outputs,) if item.single else outputs
        self._observe(item.name, tag, [array_of(value) for value in made])


__all__ = ["Observer"]
