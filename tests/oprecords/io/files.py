"""Whole files, regions of memory, rows picked by files of names, and printing."""

from __future__ import annotations

from typing import Final

# Whole files in and out, and the names that match a pattern.

#: {why they have no record: ops}


# Tensors that lie in files as they lie in memory.

#: {why they have no record: ops}


# Rows and columns of another model's checkpoint, in the order of a new vocabulary.

#: {why they have no record: ops}


# What a graph tells whoever watches it run.

#: {why they have no record: ops}

EXCUSED: Final = {
    "they touch files and streams: tests/kernels, tests/conformance": """
        MatchingFiles ReadFile WriteFile GenerateVocabRemapping LoadAndRemapMatrix Print PrintV2
        Timestamp
    """,
    "it reads a file: tests/kernels/test_memory_regions.py": "ImmutableConst",
}
