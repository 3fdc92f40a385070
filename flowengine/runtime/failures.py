"""The failure of a step, as the one error that the caller sees.

It is the error that a kernel raised, or says that the step cannot continue.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import trio

from flowengine.core.arrays import DEAD, describe
from flowengine.core.errors import (
    InternalError,
    InvalidArgumentError,
    OpError,
    ResourceExhaustedError,
)
from flowengine.ir.frames import describe_frame
from flowengine.ir.graph import Node
from flowengine.runtime.frames import FrameState, IterationState
from flowengine.runtime.planning.items import NEVER, Item, Kind
from flowengine.runtime.planning.plan import Plan
from flowengine.runtime.state import ExecutorState

#: NumPy raises these when shapes, dtypes or indices do not fit: the caller's values are at fault.
_CALLERS_FAULT = (ValueError, TypeError, IndexError, OverflowError, ZeroDivisionError, ArithmeticError)


#: The number of waiting items that a message names.
_SHOWN: Final = 20

#: NumPy's message if shapes do not broadcast.
_BROADCAST = re.compile(r"could not be broadcast together with (?:remapped )?shapes ((?:\([\d,]*\) ?)+)")


def _worded(text: str) -> str:
    """Return NumPy's message in TensorFlow's words if possible: `Incompatible shapes: [2,3] vs. [4]`."""
    found = _BROADCAST.search(text)
    if found is None:
        return text
    shapes = (shape.strip("()").rstrip(",") for shape in found[1].split())
    return "Incompatible shapes: " + " vs. ".join(f"[{shape}]" for shape in shapes)


def as_op_error(error: Exception) -> OpError:
    """Convert an exception of NumPy, Python or a kernel to the canonical class that fits."""
    if isinstance(error, OpError):
        return error
    text = str(error) or type(error).__name__
    made: OpError
    if isinstance(error, MemoryError):
        made = ResourceExhaustedError(f"out of memory: {text}")
    elif isinstance(error, _CALLERS_FAULT):
        made = InvalidArgumentError(_worded(text))
    else:
        made = InternalError(f"{type(error).__name__}: {text}")
    made.__cause__ = error
    return made


def cause_of(error: BaseException) -> BaseException | None:
    """Return the exception from which to raise a kernel's error, once that says where it was.

    An OpError stays the same object: its own cause is returned. For any other error it is the error itself.

    An error that is its own cause lives, with the values of its frames, until the collector runs.
    """
    return error.__cause__ if isinstance(error, OpError) else error


def locate(
    error: OpError, item: Item, iteration: IterationState, inputs: Sequence[Any] | None, device: str
) -> OpError:
    """Say which node failed, with which inputs, in which frame and iteration."""
    return locate_at(error, item.node, iteration.tag(), inputs, device)


def frame_of(tag: tuple[tuple[str, int], ...]) -> str | None:
    """Return the iteration of each loop in words; None outside of loops."""
    return "frame " + "/".join(f"'{name}' iteration {number}" for name, number in tag) if tag else None


def locate_at(
    error: OpError,
    node: Node,
    tag: tuple[tuple[str, int], ...],
    inputs: Sequence[Any] | None,
    device: str,
) -> OpError:
    """Add the same to an error for a node that is part of an item."""
    return error.locate(
        node_name=node.name,
        op_type=node.op,
        device=device,
        input_shapes=None if inputs is None else _describe_all(inputs),
        frame=frame_of(tag),
        creation_site=node.creation_site or None,
    )


def _describe_all(inputs: Sequence[Any]) -> list[str]:
    result: list[str] = []
    for value in inputs:
        if isinstance(value, tuple):
            result.append(f"[{', '.join(describe(v) for v in value)}]")
        else:
            result.append(describe(value))
    return result


def leaves_of(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions of nested groups in the order in which they were raised."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from leaves_of(each)
    else:
        yield error


def first_of(group: BaseException) -> BaseException:
    """Return the most important error of a group.

    An interrupt comes before an error, an error before a cancellation.

    Among equals the first raised: the others tend to come from it.
    """
    return min(
        leaves_of(group), key=lambda each: (isinstance(each, trio.Cancelled), isinstance(each, Exception))
    )


# -- a step that cannot continue ----------------------------------------------------------------------


def cannot_go_on(plan: Plan, state: ExecutorState) -> OpError | None:
    """Return the error of a step in which nothing is ready and nothing runs, though it is not done.

    An Enter may wait for a value that its iteration never gets: its loop never ends the first iteration, and
    InvalidArgumentError says so for a fetch that depends on it. None if all fetches have come: the step is
    over. Any other case is a fault of ours, an InternalError that names the waiting items and their missing
    inputs.
    """
    entering = [text for frame in state.frames.values() for text in _enters_missing(frame)]
    if not entering:
        waiting = [text for iteration in _alive(state) for text in _waiting(iteration)]
        more = f"; and {len(waiting) - _SHOWN} more" if len(waiting) > _SHOWN else ""
        return InternalError(
            "the step cannot go on: nothing runs and nothing is ready; " + "; ".join(waiting[:_SHOWN]) + more
        )
    missing = [str(port) for _, entry, port in plan.fetches if state.root.entries[entry] is DEAD]
    calling = any(_is_in_call(frame) for frame in state.frames.values())
    if not missing and not calling:
        return None
    what = f"tensor '{missing[0]}'" if missing else "a function that was called"
    return InvalidArgumentError(f"Retval: {what} has no value: " + "; ".join(entering[:_SHOWN]))


def _enters_missing(frame: FrameState) -> Iterator[str]:
    parent = frame.parent
    if not frame.pending_enters or parent is None:
        return
    for item in parent.frame.static.items:
        if item.target_frame is frame.static and parent.pending[item.local] > 0:
            yield (
                f"{describe_frame(frame.static.path)} waits for {item.node.op} '{item.name}', and that for "
                f"{_awaited(item, parent)}, which nothing brings any more in {_where(parent)}"
            )


def _is_in_call(frame: FrameState) -> bool:
    """Whether a loop runs in the body of a function, whose call waits for it."""
    parent = frame.parent
    while parent is not None:
        if parent.frame.on_done is not None:
            return True
        parent = parent.frame.parent
    return False


def _alive(state: ExecutorState) -> Iterator[IterationState]:
    yield state.root
    for frame in state.frames.values():
        yield from frame.iterations.values()


def _waiting(iteration: IterationState) -> Iterator[str]:
    for item in iteration.frame.static.items:
        if 0 < iteration.pending[item.local] < NEVER:
            yield (f"{item.node.op} '{item.name}' in {_where(iteration)} awaits {_awaited(item, iteration)}")


def _awaited(item: Item, iteration: IterationState) -> str:
    """Describe the inputs that have not come."""
    names: list[str] = []
    if item.kind == Kind.MERGE:
        if iteration.entries[item.start + 1] is None:
            names.append("one of " + ", ".join(f"'{port}'" for port in item.node.inputs))
    else:
        came = iteration.entries[item.start : item.stop]
        names += [f"'{port}'" for port, value in zip(item.node.inputs, came, strict=False) if value is None]
    names += [f"'^{name}'" for name in item.node.control_inputs]
    return ", ".join(names) or f"{iteration.pending[item.local]} of its inputs"


def _where(iteration: IterationState) -> str:
    tag = iteration.tag()
    return " ".join(f"iteration {number} of frame '{name}'" for name, number in tag[-1:]) or "the root frame"
