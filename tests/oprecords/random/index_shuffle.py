"""The place of one index in a random order of all."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "random with parts that are not: tests/kernels, tests/conformance": """
        RandomIndexShuffle
    """,
}
