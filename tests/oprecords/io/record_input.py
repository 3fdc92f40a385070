"""Random records of many files, without a queue."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "they touch files and streams: tests/kernels, tests/conformance": """
        RecordInput
    """,
}
