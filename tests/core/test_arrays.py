"""Arrays that nobody can write to."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from flowengine.core.arrays import unchangeable


@pytest.mark.parametrize("dtype", [np.float32, np.bool_, np.complex64, np.float16, ml_dtypes.bfloat16])
def test_numbers_are_copied_to_where_flags_cannot_be_set(dtype: type) -> None:
    array: Any = np.arange(6).reshape(2, 3).T.astype(dtype)
    kept = unchangeable(array)
    assert kept.dtype == array.dtype
    assert kept.flags.c_contiguous
    np.testing.assert_array_equal(kept, array)
    with pytest.raises(ValueError, match="WRITEABLE"):
        kept.flags.writeable = True
    array[0, 0] = 7
    assert kept[0, 0] != array[0, 0]


@pytest.mark.parametrize("array", [np.array([b"a"], object), np.empty((0, 3), np.float32)])
def test_objects_and_nothing_are_marked(array: Any) -> None:
    assert unchangeable(array) is array
    assert not array.flags.writeable
