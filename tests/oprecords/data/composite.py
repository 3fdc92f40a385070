"""Several tensors that make one value, as one variant."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "a variant is what another op makes or reads: tests/kernels/test_composite.py": """
        CompositeTensorVariantFromComponents CompositeTensorVariantToComponents
    """,
}
