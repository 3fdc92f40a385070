"""Lookup tables filled from the lines of text files."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "their value is an object, not a tensor: tests/resources, tests/kernels, tests/conformance": """
        InitializeTableFromTextFile InitializeTableFromTextFileV2
    """,
}
