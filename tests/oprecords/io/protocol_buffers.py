"""Protocol buffers of any type: fields as tensors, and tensors as fields."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "a descriptor says what messages are: tests/kernels/test_protocol_buffers.py": """
        DecodeProtoV2 EncodeProto
    """,
}
