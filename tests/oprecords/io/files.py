"""Whole files in and out, and the names that match a pattern."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "they touch files and streams: tests/kernels, tests/conformance": """
        MatchingFiles ReadFile WriteFile
    """,
}
