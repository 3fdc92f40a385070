"""Stacks as nodes. They live in the step's container; the handle that flows is the `Stack`."""

from __future__ import annotations

from typing import Any

from flowengine.core.arrays import Value
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel
from flowengine.resources.stack import Stack


@kernel("StackV2", heavy=False)
def stack_v2(max_size: Any, *, ctx: KernelContext, node: Node, elem_type: DType, stack_name: bytes) -> Stack:
    """An empty stack of at most `max_size` values (int32, rank 0; not positive: no bound)."""
    if getattr(max_size, "ndim", 0):
        raise InvalidArgumentError(f"Stack size must be a scalar, but had shape: {list(max_size.shape)}")
    return _create(ctx, node, elem_type, stack_name, int(max_size) or -1)


@kernel("Stack", heavy=False)
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


@kernel("StackPush", "StackPushV2", heavy=False)
def stack_push(handle: Any, elem: Value, *, T: DType) -> Value:
    """Put `elem` on top and pass it on."""
    checked = _checked(handle)
    if T is not checked.dtype:
        raise InvalidArgumentError(f"Stack[{checked.name}] holds {checked.dtype}, not {T}")
    checked.push(elem)
    return elem


@kernel("StackPop", "StackPopV2", heavy=False)
def stack_pop(handle: Any, *, elem_type: DType) -> Value:
    """Take the value on top."""
    checked = _checked(handle)
    if elem_type is not checked.dtype:
        raise InvalidArgumentError(f"Stack[{checked.name}] holds {checked.dtype}, not {elem_type}")
    return checked.pop()


@kernel("StackClose", "StackCloseV2", heavy=False)
def stack_close(handle: Any) -> None:
    """Drop the values."""
    _checked(handle).close()
