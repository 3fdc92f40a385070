"""Values that may not be there."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "their value is an object, not a tensor: tests/resources, tests/kernels, tests/conformance": """
        OptionalFromValue OptionalGetValue OptionalHasValue OptionalNone
    """,
}
