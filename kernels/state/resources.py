"""Stacks, mutexes, and values that stay with a session."""

from __future__ import annotations

import itertools
from typing import Any, Final

from flowengine.core.arrays import WOULD_WAIT, Value, to_array
from flowengine.core.dtypes import DType, bool_, int32, int64
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from flowengine.ir.graph import Node
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel
from flowengine.resources.elements import own
from flowengine.resources.mutex import Mutex, MutexLock
from flowengine.resources.names import resource_name
from flowengine.resources.stack import Stack

# Stacks as nodes. They live in the step's container; the handle that flows is the `Stack`.
#
# Whole numbers and truths stay in host memory wherever the stack is: loops and conditionals go by them.

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


def _checked_stack(handle: Any) -> Stack:
    if isinstance(handle, Stack):
        return handle
    raise InvalidArgumentError(f"the handle of a stack is wanted, not a {type(handle).__name__}")


@kernel("StackPush", "StackPushV2", device=None, heavy=False)
@kernel("StackPush", "StackPushV2", device=None, types={"T": _STEERING}, heavy=False, host=("elem", "output"))
def stack_push(handle: Any, elem: Value, *, T: DType) -> Value:
    """Put `elem` on top and pass it on."""
    checked = _checked_stack(handle)
    if T is not checked.dtype:
        raise InvalidArgumentError(f"Stack[{checked.name}] holds {checked.dtype}, not {T}")
    checked.push(elem)
    return elem


@kernel("StackPop", "StackPopV2", device=None, heavy=False)
@kernel("StackPop", "StackPopV2", device=None, types={"elem_type": _STEERING}, heavy=False, host=("elem",))
def stack_pop(handle: Any, *, elem_type: DType) -> Value:
    """Take the value on top."""
    checked = _checked_stack(handle)
    if elem_type is not checked.dtype:
        raise InvalidArgumentError(f"Stack[{checked.name}] holds {checked.dtype}, not {elem_type}")
    return checked.pop()


@kernel("StackClose", "StackCloseV2", device=None, heavy=False)
def stack_close(handle: Any) -> None:
    """Drop the values."""
    _checked_stack(handle).close()


# Mutexes as nodes. A lock lives until it is consumed or released, at the latest until the step ends.


@kernel("MutexV2", heavy=False)
def mutex_v2(*, ctx: KernelContext, node: Node, container: bytes, shared_name: bytes) -> Mutex:
    """The mutex of this container and name."""
    where, name = resource_name(container, shared_name, node.name)
    return ctx.resources.lookup_or_create(where, name, Mutex, lambda: Mutex(name, container=where))


def _checked_mutex(mutex: Any) -> Mutex:
    if isinstance(mutex, Mutex):
        return mutex
    raise InvalidArgumentError(f"the handle of a mutex is wanted, not a {type(mutex).__name__}")


def _lock_nowait(mutex: Any, *, ctx: KernelContext) -> Any:
    lock = _checked_mutex(mutex).lock_nowait()
    return lock if lock is WOULD_WAIT else ctx.step_container.create("mutex lock", lock)


@kernel("MutexLock", heavy=False, nowait=_lock_nowait)
async def mutex_lock(mutex: Any, *, ctx: KernelContext) -> MutexLock:
    """A lock of the mutex, waiting for it."""
    return ctx.step_container.create("mutex lock", await _checked_mutex(mutex).lock())


@kernel("ConsumeMutexLock", heavy=False)
def consume_mutex_lock(mutex_lock: Any, *, ctx: KernelContext) -> None:
    """Release a lock."""
    if not isinstance(mutex_lock, MutexLock):
        raise InvalidArgumentError(f"a lock of a mutex is wanted, not a {type(mutex_lock).__name__}")
    mutex_lock.release()
    ctx.step_container.delete(mutex_lock.name)


def _held_key(mutex: Mutex) -> str:
    return f"mutex {mutex.container}/{mutex.name}"


def _acquire_nowait(mutex: Any, *, ctx: KernelContext) -> Any:
    lock = _checked_mutex(mutex).lock_nowait()
    if lock is not WOULD_WAIT:
        ctx.step_container.put(_held_key(mutex), lock)
        return None
    return lock


@kernel("MutexAcquire", heavy=False, nowait=_acquire_nowait)
async def mutex_acquire(mutex: Any, *, ctx: KernelContext) -> None:
    """Have the step hold the mutex, waiting for it; a step that holds it already waits for itself."""
    lock = await _checked_mutex(mutex).lock()
    ctx.step_container.put(_held_key(mutex), lock)


@kernel("MutexRelease", heavy=False)
def mutex_release(mutex: Any, *, ctx: KernelContext) -> None:
    """End the step's hold; FailedPreconditionError where this step has none."""
    key = _held_key(_checked_mutex(mutex))
    lock = ctx.step_container.find(key)
    if lock is None:
        raise FailedPreconditionError(f"this step does not hold mutex '{mutex.name}'")
    ctx.step_container.delete(key)


# Session tensors: a value that stays with the session under a handle, to be used by later steps.
#
# A handle is text (`name;number;device`) that a step hands out and a later one takes as a feed: large
# intermediate results need not leave the session between steps. The value lives in the default container
# of the
# resource manager until it is deleted, the container is cleared, or the session that owns it is closed.

_NUMBERS: Final = itertools.count()


class SessionTensor:
    """A value under a handle; what is in it is never changed.

    name    the handle
    """

    __slots__ = ("dtype", "name", "value")

    def __init__(self, name: str, value: Value, dtype: DType) -> None:
        self.name = name
        self.value = value
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"<SessionTensor '{self.name}' {self.dtype}>"


def _keep(value: Value, dtype: DType, ctx: KernelContext, node: Node) -> SessionTensor:
    name = f"{node.name};{next(_NUMBERS)};{ctx.device}"
    (kept,) = own((value,))
    held = SessionTensor(name, to_array(kept), dtype)
    return ctx.resources.lookup_or_create("", name, SessionTensor, lambda: held)


def _name(handle: Any) -> str:
    text = to_array(handle)
    if text.ndim:
        raise InvalidArgumentError(f"the handle of a session tensor is a scalar, not {text.ndim}-dimensional")
    value: bytes = text.item()
    return value.decode(errors="replace")


def _missing(name: str) -> NotFoundError:
    return NotFoundError(
        f"The tensor with handle '{name}' is not in the session store: "
        "it was deleted, or the handle is of another session"
    )


@kernel("GetSessionHandle", heavy=False)
def get_session_handle(value: Value, *, ctx: KernelContext, node: Node, T: DType) -> Value:
    """Keep a value of any shape; its handle (string scalar)."""
    return _keep(value, T, ctx, node).name.encode()


@kernel("GetSessionHandleV2", heavy=False)
def get_session_handle_v2(value: Value, *, ctx: KernelContext, node: Node, T: DType) -> SessionTensor:
    """Keep a value of any shape; a resource whose `name` is its handle."""
    return _keep(value, T, ctx, node)


@kernel("GetSessionTensor", heavy=False)
def get_session_tensor(handle: Any, *, ctx: KernelContext, dtype: DType) -> Value:
    """The value under a handle; NotFoundError if there is none, InvalidArgumentError if of another type."""
    name = _name(handle)
    held = ctx.resources.find("", name, SessionTensor)
    if held is None:
        raise _missing(name)
    if held.dtype.base is not dtype.base:
        raise InvalidArgumentError(f"the tensor with handle '{name}' is {held.dtype}, not {dtype}")
    return held.value


@kernel("DeleteSessionTensor", heavy=False)
def delete_session_tensor(handle: Any, *, ctx: KernelContext) -> None:
    """Forget the value under a handle; NotFoundError if there is none."""
    name = _name(handle)
    if ctx.resources.find("", name, SessionTensor) is None:
        raise _missing(name)
    ctx.resources.delete("", name, SessionTensor)
