"""Mutexes and their locks."""

from __future__ import annotations

from flowengine.ir.traits import Uses
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars

define("MutexAcquire(mutex: resource)", "stateful", Uses("mutex"))
define("MutexRelease(mutex: resource)", "stateful", Uses("mutex"))
define("MutexV2() -> resource: resource", "stateful; container, shared_name: string = ''", shape=scalars)
define("MutexLock(mutex: resource) -> mutex_lock: variant", "stateful", Uses("mutex"), shape=scalars)
define("ConsumeMutexLock(mutex_lock: variant)", "stateful")
