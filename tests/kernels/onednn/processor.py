"""The features that oneDNN is expected to have on this processor, found without asking oneDNN."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_INFO = Path("/proc/cpuinfo")
_LIMIT = os.environ.get("ONEDNN_MAX_CPU_ISA", "DEFAULT").upper()
HAS_PRODUCTS = (
    _INFO.exists()
    and {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= set(_INFO.read_text().split())
    and (_LIMIT.startswith("AVX512") or _LIMIT in ("ALL", "DEFAULT"))
)

#: For tests of products of matrices: where they are expected, one that is missing fails.
needs_products = pytest.mark.skipif(
    not HAS_PRODUCTS, reason="oneDNN has products of matrices by AVX-512 only"
)
