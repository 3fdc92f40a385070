"""Stacks, mutexes, and values that stay with a session."""

from __future__ import annotations

from typing import Final

# Stacks of values that live as long as their step.

#: {why they have no record: ops}


# Mutexes and their locks.

#: {why they have no record: ops}


# Values that stay with the session under a handle.

#: {why they have no record: ops}

EXCUSED: Final = {
    "their value is an object, not a tensor: tests/resources, tests/kernels, tests/conformance": """
        Stack StackClose StackCloseV2 StackPop StackPopV2 StackPush StackPushV2 StackV2
    """,
    "they wait, or hold what others wait for: tests/resources, tests/conformance": """
        ConsumeMutexLock MutexAcquire MutexLock MutexRelease MutexV2
    """,
    "several steps show what the rest do: tests/kernels/test_resources_in_sessions.py": """
        DeleteSessionTensor GetSessionHandle GetSessionHandleV2 GetSessionTensor
    """,
}
