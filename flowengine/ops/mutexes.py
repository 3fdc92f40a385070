"""Acquiring and releasing a mutex in one step, as the white paper's table of operations has it.

TensorFlow itself has the lock as a value (`MutexLock`, `ConsumeMutexLock`) and does not know these two.
"""

from __future__ import annotations

from flowengine.ops.registry import define

define("MutexAcquire", inputs=["mutex: resource"], is_stateful=True)
define("MutexRelease", inputs=["mutex: resource"], is_stateful=True)
