"""What a step gives: the fetched values, out of its root iteration."""

from __future__ import annotations

from typing import Any

from flowengine.core.arrays import DEAD
from flowengine.core.errors import InvalidArgumentError
from flowengine.runtime.frames import IterationState
from flowengine.runtime.planning.plan import Plan


def take_results(plan: Plan, root: IterationState) -> list[Any]:
    """The fetched values of a plan whose root iteration is done, moved out of it.

    InvalidArgumentError for one that is dead or never came.
    """
    values = []
    for local, entry, port in plan.fetches:
        value = root.entries[entry]
        root.entries[entry] = None
        if value is DEAD:
            reason = (
                "the branch that would produce it was not taken"
                if root.dead is not None and local in root.dead
                else "it was never produced"
            )
            raise InvalidArgumentError(f"Retval: tensor '{port}' has no value: {reason}")
        values.append(value)
    return values


__all__ = ["take_results"]
