"""Which ops TensorFlow has a kernel for GPUs for: those are to run on devices here."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def with_gpu_kernels() -> frozenset[str]:
    """The ops of `gpu_kernels.txt`."""
    lines = Path(__file__).with_suffix(".txt").read_text().splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())
