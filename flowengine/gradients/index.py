"""Which module has the gradients of which ops. Written by `make generate`, from the tree."""

from __future__ import annotations

from typing import Final

#: {module: names of the ops}
GRADIENTS: Final[dict[str, str]] = {
    "array.identity": """
        Identity RefIdentity
    """,
    "linalg.products": """
        MatMul
    """,
    "math.binary": """
        AccumulateNV2 AddN Mul
    """,
}
