"""Rows and columns of another model's checkpoint, in the order of a new vocabulary."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "they touch files and streams: tests/kernels, tests/conformance": """
        GenerateVocabRemapping LoadAndRemapMatrix
    """,
}
