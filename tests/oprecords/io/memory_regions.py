"""Tensors that lie in files as they lie in memory."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {"it reads a file: tests/kernels/test_memory_regions.py": "ImmutableConst"}
