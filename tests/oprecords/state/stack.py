"""Stacks of values that live as long as their step."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "their value is an object, not a tensor: tests/resources, tests/kernels, tests/conformance": """
        Stack StackClose StackCloseV2 StackPop StackPopV2 StackPush StackPushV2 StackV2
    """,
}
