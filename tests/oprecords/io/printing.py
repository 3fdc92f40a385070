"""What a graph tells whoever watches it run."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "they touch files and streams: tests/kernels, tests/conformance": """
        Print PrintV2 Timestamp
    """,
}
