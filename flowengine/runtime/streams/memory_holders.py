"""The largest holders of a device's memory, found only when memory is short.

Nothing is counted while a step runs. After an allocation has failed, the values that wait for their
consumers, and those of variables, are searched: each array that owns memory counts once, for the node that
made it, or for the variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from traceback import clear_frames
from types import TracebackType
from typing import Any, Final

from flowengine.core.errors import ResourceExhaustedError
from flowengine.ir.graph import Node
from flowengine.kernels.context import KernelContext
from flowengine.resources.variable import Variable
from flowengine.runtime.frames import IterationState

#: How many of the largest holders an error names.
_NAMED: Final = 5
#: The text that marks an error of a ledger that counted.
_HOLDS: Final = " holds "


def name_holders(
    error: ResourceExhaustedError,
    context: KernelContext,
    node: Node,
    iteration: IterationState,
    inputs: Iterable[Any],
) -> None:
    """Add the largest holders to the error of a device without memory, if it does not name them yet.

    node, iteration, inputs   the node that asked for memory, its iteration, and its own inputs
    """
    device = context.hardware
    if device is None or _HOLDS in error.message:
        return
    by_owner: dict[int, tuple[str, int]] = {}
    for holder, value in _held(context, node, iteration, inputs):
        owned = device.owner_of(value)
        if owned is not None:
            by_owner.setdefault(id(owned[0]), (holder, owned[1]))
    by_holder: dict[str, int] = {}
    for holder, size in by_owner.values():
        by_holder[holder] = by_holder.get(holder, 0) + size
    largest = sorted(by_holder.items(), key=lambda entry: -entry[1])[:_NAMED]
    told = "; ".join(f"'{name}'{_HOLDS}{size:,}" for name, size in largest) or "nothing of this step"
    error.message += f"; the largest holders: {told}"


def forget_locals(trace: TracebackType | None) -> None:
    """Clear the ended frames that an error came through."""
    clear_frames(trace)
    while trace is not None:
        # Python keeps the answer to a question about a frame's names, until the next question.
        _ = trace.tb_frame.f_locals
        trace = trace.tb_next


def _held(
    context: KernelContext, node: Node, iteration: IterationState, inputs: Iterable[Any]
) -> Iterator[tuple[str, Any]]:
    """Yield (holder, value) of variables, of inputs, and of waiting values in this or outer iterations."""
    for variable in context.resources.held(Variable):
        yield variable.name, variable.held()
    yield from _named(node, inputs)
    around: IterationState | None = iteration
    while around is not None:
        frame = around.frame
        for each in frame.iterations.values() if frame.parent is not None else (around,):
            for waiting in frame.static.items:
                yield from _named(waiting.node, each.entries[waiting.start : waiting.stop])
        around = frame.parent


def _named(node: Node, values: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for port, value in zip(node.inputs, values, strict=False):
        for part in value if isinstance(value, tuple) else (value,):
            yield port.node, part


__all__ = ["forget_locals", "name_holders"]
