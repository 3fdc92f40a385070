"""Mutexes as nodes. A lock lives until it is consumed or released, at the latest until the step ends."""

from __future__ import annotations

from typing import Any

from flowengine.core.arrays import WOULD_WAIT
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel
from flowengine.resources.mutex import Mutex, MutexLock
from flowengine.resources.names import resource_name


@kernel("MutexV2", heavy=False)
def mutex_v2(*, ctx: KernelContext, node: Node, container: bytes, shared_name: bytes) -> Mutex:
    """The mutex of this container and name."""
    where, name = resource_name(container, shared_name, node.name)
    return ctx.resources.lookup_or_create(where, name, Mutex, lambda: Mutex(name, container=where))


def _checked(mutex: Any) -> Mutex:
    if isinstance(mutex, Mutex):
        return mutex
    raise InvalidArgumentError(f"the handle of a mutex is wanted, not a {type(mutex).__name__}")


def _lock_nowait(mutex: Any, *, ctx: KernelContext) -> Any:
    lock = _checked(mutex).lock_nowait()
    return lock if lock is WOULD_WAIT else ctx.step_container.create("mutex lock", lock)


@kernel("MutexLock", heavy=False, nowait=_lock_nowait)
async def mutex_lock(mutex: Any, *, ctx: KernelContext) -> MutexLock:
    """A lock of the mutex, waiting for it."""
    return ctx.step_container.create("mutex lock", await _checked(mutex).lock())


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
    lock = _checked(mutex).lock_nowait()
    if lock is not WOULD_WAIT:
        ctx.step_container.put(_held_key(mutex), lock)
        return None
    return lock


@kernel("MutexAcquire", heavy=False, nowait=_acquire_nowait)
async def mutex_acquire(mutex: Any, *, ctx: KernelContext) -> None:
    """Have the step hold the mutex, waiting for it; a step that holds it already waits for itself."""
    lock = await _checked(mutex).lock()
    ctx.step_container.put(_held_key(mutex), lock)


@kernel("MutexRelease", heavy=False)
def mutex_release(mutex: Any, *, ctx: KernelContext) -> None:
    """End the step's hold; FailedPreconditionError where this step has none."""
    key = _held_key(_checked(mutex))
    lock = ctx.step_container.find(key)
    if lock is None:
        raise FailedPreconditionError(f"this step does not hold mutex '{mutex.name}'")
    ctx.step_container.delete(key)
