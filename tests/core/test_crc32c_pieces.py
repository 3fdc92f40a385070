"""A checksum of pieces is that of the whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core.checksums.crc32c import crc32c
from flowengine.core.checksums.crc32c_pieces import Crc32c


@given(
    st.lists(
        st.sampled_from([0, 1, 3, 5, 4096, 300_001, 830_016, 4_194_303, 4_194_304, 5_000_001]), max_size=5
    ),
    st.integers(0, 2**32 - 1),
)
def test_pieces_of_any_size(sizes: list[int], before: int) -> None:
    data = np.random.default_rng(sum(sizes)).bytes(sum(sizes))
    total, position = Crc32c(before), 0
    assert total.value() == before
    for size in sizes:
        total.update(memoryview(data)[position : position + size])
        position += size
        assert total.value() == crc32c(data[:position], before)


@pytest.mark.parametrize("size", [1_000_000, 4 << 20, (4 << 20) + 7, 9_999_999])
def test_arrays(size: int) -> None:
    array = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    total = Crc32c()
    total.update(array)
    assert total.value() == crc32c(array)
