"""Maps from tensors to tensors."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "a variant is what another op makes or reads: tests/kernels/test_tensor_map.py": """
        EmptyTensorMap TensorMapErase TensorMapHasKey TensorMapInsert TensorMapLookup TensorMapSize
        TensorMapStackKeys
    """,
}
