"""What a kernel raised, as the one error that the caller sees."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import trio

from flowengine.core.arrays import describe
from flowengine.core.errors import (
    InternalError,
    InvalidArgumentError,
    OpError,
    ResourceExhaustedError,
)
from flowengine.ir.graph import Node
from flowengine.runtime.frames import IterationState
from flowengine.runtime.planning.items import Item

#: NumPy says so when shapes, dtypes or indices do not fit: the caller's values are at fault.
_CALLERS_FAULT = (ValueError, TypeError, IndexError, OverflowError, ZeroDivisionError, ArithmeticError)


#: How NumPy tells that shapes do not broadcast.
_BROADCAST = re.compile(r"could not be broadcast together with (?:remapped )?shapes ((?:\([\d,]*\) ?)+)")


def _worded(text: str) -> str:
    """NumPy's message in TensorFlow's words where there are such: `Incompatible shapes: [2,3] vs. [4]`."""
    found = _BROADCAST.search(text)
    if found is None:
        return text
    shapes = (shape.strip("()").rstrip(",") for shape in found[1].split())
    return "Incompatible shapes: " + " vs. ".join(f"[{shape}]" for shape in shapes)


def as_op_error(error: Exception) -> OpError:
    """An exception of NumPy, Python or a kernel under the canonical class that fits."""
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


def locate(
    error: OpError, item: Item, iteration: IterationState, inputs: Sequence[Any] | None, device: str
) -> OpError:
    """Say which node failed, with which inputs, in which frame and iteration."""
    return locate_at(error, item.node, iteration.tag(), inputs, device)


def locate_at(
    error: OpError,
    node: Node,
    tag: tuple[tuple[str, int], ...],
    inputs: Sequence[Any] | None,
    device: str,
) -> OpError:
    """The same for a node that is part of an item."""
    frame = "frame " + "/".join(f"'{name}' iteration {number}" for name, number in tag) if tag else None
    return error.locate(
        node_name=node.name,
        op_type=node.op,
        device=device,
        input_shapes=None if inputs is None else _describe_all(inputs),
        frame=frame,
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


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The exception that matters most in a group: an interrupt before anything else."""
    leaves: list[BaseException] = []
    stack: list[BaseException] = [group]
    while stack:
        error = stack.pop()
        if isinstance(error, BaseExceptionGroup):
            stack.extend(error.exceptions)
        else:
            leaves.append(error)
    leaves.sort(key=lambda e: (isinstance(e, trio.Cancelled), isinstance(e, Exception)))
    return leaves[0]
