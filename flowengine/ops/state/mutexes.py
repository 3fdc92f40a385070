"""Mutexes and their locks."""

from __future__ import annotations

from flowengine.ir.traits import NotDifferentiable, Uses
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars

define("MutexAcquire(mutex: resource)", "stateful", Uses("mutex"), NotDifferentiable())
define("MutexRelease(mutex: resource)", "stateful", Uses("mutex"), NotDifferentiable())
define(
    "MutexV2() -> resource: resource",
    "stateful; container, shared_name: string = ''",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "MutexLock(mutex: resource) -> mutex_lock: variant",
    "stateful",
    Uses("mutex"),
    NotDifferentiable(),
    shape=scalars,
)
define("ConsumeMutexLock(mutex_lock: variant)", "stateful", NotDifferentiable())
