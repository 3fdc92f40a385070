"""Pooling over windows of two neighbouring sizes in random order, and its gradients."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "random with parts that are not: tests/kernels, tests/conformance": """
        FractionalAvgPool FractionalAvgPoolGrad FractionalMaxPool FractionalMaxPoolGrad
    """,
}
