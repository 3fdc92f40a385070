"""Mutexes and their locks."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "they wait, or hold what others wait for: tests/resources, tests/conformance": """
        ConsumeMutexLock MutexAcquire MutexLock MutexRelease MutexV2
    """,
}
