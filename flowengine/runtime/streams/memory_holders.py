"""The largest holders of a device's memory, found only when memory is short.

Nothing is counted while a step runs. The values that wait for their consumers, and those of variables, are
looked through when an allocation has failed: each array that owns memory once, in the name of the node that
made it, or of the variable.
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
#: What says it in an error, where a ledger counted.
_HOLDS: Final = " holds "


def name_holders(
    error: ResourceExhaustedError,
    context: KernelContext,
    node: Node,
    iteration: IterationState,
    inputs: Iterable[Any],
) -> None:
    """Have an error of a device that has no memory left name the largest holders, if it does not yet.

    node, iteration, inputs   what asked for memory, in which iteration, and its own inputs
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
    """Have the frames that an error came through, and that are over, hold nothing any more."""
    clear_frames(trace)
    while trace is not None:
        # Python keeps what was asked of a frame's names, until somebody asks again.
        _ = trace.tb_frame.f_locals
        trace = trace.tb_next


def _held(
    context: KernelContext, node: Node, iteration: IterationState, inputs: Iterable[Any]
) -> Iterator[tuple[str, Any]]:
    """(holder, value) of variables, of the inputs, and of what waits in this iteration or those around."""
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
