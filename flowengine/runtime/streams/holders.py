"""Who holds most of a device's memory, found out only when that is short.

Nothing is counted while a step runs. The values that wait for their consumers, and those of variables, are
looked through when an allocation has failed: each array that owns memory once, in the name of the node that
made it, or of the variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from flowengine.core.errors import ResourceExhaustedError
from flowengine.kernels.context import KernelContext
from flowengine.resources.variable import Variable
from flowengine.runtime.frames import IterationState
from flowengine.runtime.planning.items import Item

#: How many of the largest holders an error names.
_NAMED: Final = 5
#: What says it in an error, where a ledger counted.
_HOLDS: Final = " holds "


def name_holders(
    error: ResourceExhaustedError,
    context: KernelContext,
    item: Item,
    iteration: IterationState,
    inputs: Iterable[Any],
) -> None:
    """Have an error of a device that has no memory left name the largest holders, if it does not yet.

    item, iteration, inputs   what asked for memory, in which iteration, and its own inputs
    """
    device = context.hardware
    if device is None or _HOLDS in error.message:
        return
    by_owner: dict[int, tuple[str, int]] = {}
    for holder, value in _held(context, item, iteration, inputs):
        owned = device.owner_of(value)
        if owned is not None:
            by_owner.setdefault(id(owned[0]), (holder, owned[1]))
    by_holder: dict[str, int] = {}
    for holder, size in by_owner.values():
        by_holder[holder] = by_holder.get(holder, 0) + size
    largest = sorted(by_holder.items(), key=lambda entry: -entry[1])[:_NAMED]
    told = "; ".join(f"'{name}'{_HOLDS}{size:,}" for name, size in largest) or "nothing of this step"
    error.message += f"; the largest holders: {told}"


def _held(
    context: KernelContext, item: Item, iteration: IterationState, inputs: Iterable[Any]
) -> Iterator[tuple[str, Any]]:
    """(holder, value) of variables, of the inputs, and of what waits in this iteration or those around."""
    for variable in context.resources.held(Variable):
        yield variable.name, variable.held()
    yield from _named(item, inputs)
    around: IterationState | None = iteration
    while around is not None:
        frame = around.frame
        for each in frame.iterations.values() if frame.parent is not None else (around,):
            for waiting in frame.static.items:
                yield from _named(waiting, each.entries[waiting.start : waiting.stop])
        around = frame.parent


def _named(item: Item, values: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for port, value in zip(item.node.inputs, values, strict=False):
        for part in value if isinstance(value, tuple) else (value,):
            yield port.node, part


__all__ = ["name_holders"]
