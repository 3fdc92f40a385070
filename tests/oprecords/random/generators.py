"""Random numbers from a generator whose state is a variable."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "random with parts that are not: tests/kernels, tests/conformance": """
        NonDeterministicInts RngReadAndSkip RngSkip
        StatefulStandardNormal StatefulStandardNormalV2 StatefulTruncatedNormal
        StatefulUniform StatefulUniformFullInt StatefulUniformInt
    """,
}
