"""Trees of random forests."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "their input is an object, not a tensor: tests/resources": """
        TensorForestCreateTreeVariable TensorForestTreeDeserialize TensorForestTreeIsInitializedOp
        TensorForestTreePredict TensorForestTreeResourceHandleOp TensorForestTreeSerialize
        TensorForestTreeSize
    """,
}
