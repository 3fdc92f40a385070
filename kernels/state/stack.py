"""Stacks as nodes. They live in the step's container; the handle that flows is the `Stack`.

Whole numbers and truths stay in host memory wherever the stack is: loops and conditionals go by them.
"""

from __future__ import annotations

from typing import Any, Final

from flowengine.core.arrays import Value
from flowengine.core.dtypes import DType, bool_, int32, int64
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel
from flowengine.resources.stack import Stack

#: The kernels for these are registered first: decorators go from below.
_STEERING: Final = (bool_, int32, int64)


@kernel("StackV2", device=None, heavy=False, host=("max_size",))
def stack_v2(max_size: Any, *, ctx: KernelContext, node: Node, elem_type: DType, stack_name: bytes) -> Stack:
    """An empty stack of at most `max_size` values (int32, rank 0; not positive: no bound)."""
    if getattr(max_size, "ndim", 0):
        raise InvalidArgumentError(f"Stack size must be a scalar, but had shape: {list(max_size.shape)}")
    return _create(ctx, node, elem_type, stack_name, int(max_size) or -1)


@kernel("Stack", device=None, heavy=False)
def stack(*, ctx: KernelContext, node: Node, elem_type: DType, stack_name: bytes) -> Stack:
    """An empty stack without a bound."""
    return _create(ctx, node, elem_type, stack_name, -1)


def _create(ctx: KernelContext, node: Node, elem_type: DType, stack_name: bytes, limit: int) -> Stack:
    hint = stack_name.decode("utf-8", "replace") or node.name
    return ctx.step_container.create(hint, Stack(elem_type, limit=limit))


def _checked(handle: Any) -> Stack:
    if isinstance(handle, Stack):
        return handle
    raise InvalidArgumentError(f"the handle of a stack is wanted, not a {type(handle).__name__}")


@kernel("StackPush", "StackPushV2", device=None, heavy=False)
@kernel("StackPush", "StackPushV2", device=None, types={"T": _STEERING}, heavy=False, host=("elem", "output"))
def stack_push(handle: Any, elem: Value, *, T: DType) -> Value:
    """Put `elem` on top and pass it on."""
    checked = _checked(handle)
    if T is not checked.dtype:
        raise InvalidArgumentError(f"Stack[{checked.name}] holds {checked.dtype}, not {T}")
    checked.push(elem)
    return elem


@kernel("StackPop", "StackPopV2", device=None, heavy=False)
@kernel("StackPop", "StackPopV2", device=None, types={"elem_type": _STEERING}, heavy=False, host=("elem",))
def stack_pop(handle: Any, *, elem_type: DType) -> Value:
    """Take the value on top."""
    checked = _checked(handle)
    if elem_type is not checked.dtype:
        raise InvalidArgumentError(f"Stack[{checked.name}] holds {checked.dtype}, not {elem_type}")
    return checked.pop()


@kernel("StackClose", "StackCloseV2", device=None, heavy=False)
def stack_close(handle: Any) -> None:
    """Drop the values."""
    _checked(handle).close()
