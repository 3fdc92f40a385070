"""Poisson-distributed numbers."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "random with parts that are not: tests/kernels, tests/conformance": """
        RandomPoisson RandomPoissonV2 StatelessRandomPoisson
    """,
}
