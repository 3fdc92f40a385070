"""Maps of sparse tensors."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "what one node keeps another takes: tests/kernels/test_sparse_maps.py": """
        AddManySparseToTensorsMap AddSparseToTensorsMap TakeManySparseFromTensorsMap
    """,
}
