"""Ragged tensors as variants."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "a variant is what another op makes or reads: tests/kernels/test_ragged_variants.py": """
        RaggedTensorFromVariant RaggedTensorToVariant RaggedTensorToVariantGradient
    """,
}
