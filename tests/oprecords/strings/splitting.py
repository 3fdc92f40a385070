"""Strings into parts, and parts into strings."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "values of strings, told by recorded ones: tests/kernels, tests/conformance": """
        ReduceJoin StringSplit StringSplitV2
    """,
}
