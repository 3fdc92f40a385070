"""Values that stay with the session under a handle."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "several steps show what the rest do: tests/kernels/test_state*.py": """
        DeleteSessionTensor GetSessionHandle GetSessionHandleV2 GetSessionTensor
    """,
}
