"""Numbers as strings, as C's printf writes them; strings joined."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flowengine.core import dtypes as dt
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.strings.elements import (
    string_to_hash_bucket,
    string_to_hash_bucket_fast,
    string_to_hash_bucket_strong,
)
from flowengine.kernels.strings.text import as_string, string_join


def _written(value: Any, **changes: Any) -> Any:
    attrs: dict[str, Any] = {
        "precision": -1,
        "scientific": False,
        "shortest": False,
        "width": -1,
        "fill": b"",
    }
    attrs.update(changes)
    return as_string(value, T=dt.as_dtype(value.dtype), **attrs)


@pytest.mark.parametrize(
    ("value", "changes", "expected"),
    [
        (np.int32(-7), {}, b"-7"),
        (np.int32(7), {"width": 4, "fill": b"0"}, b"0007"),
        (np.int64(7), {"width": 4}, b"   7"),
        (np.int8(7), {"width": 3, "fill": b"-"}, b"7  "),
        (np.float32(0.1), {}, b"0.100000"),
        (np.float64(1e10), {"shortest": True}, b"1e+10"),
        (np.float64(1234.5), {"scientific": True, "precision": 2}, b"1.23e+03"),
        (np.float32(np.nan), {}, b"nan"),
        (np.float64(-np.inf), {}, b"-inf"),
        (np.copysign(np.float64(np.nan), -1), {}, b"-nan"),
        (np.complex64(1 - 2j), {"precision": 1}, b"(1.0,-2.0)"),
        (np.bool_(True), {}, b"true"),
    ],
)
def test_as_string(value: Any, changes: dict[str, Any], expected: bytes) -> None:
    assert _written(value, **changes) == expected
    assert _written(np.array([[value]]), **changes).tolist() == [[expected]]


@pytest.mark.parametrize(
    ("value", "changes", "message"),
    [
        (np.int32(1), {"precision": 2}, "precision not supported"),
        (np.int32(1), {"shortest": True}, "not supported for datatype int32"),
        (np.float32(1), {"scientific": True, "shortest": True}, "both scientific and shortest"),
        (np.float32(1), {"fill": b"ab"}, "one or fewer"),
        (np.float32(1), {"fill": b"x"}, "not supported"),
    ],
)
def test_as_string_refuses(value: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        _written(value, **changes)


def _strings(*values: bytes) -> Any:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def test_string_join() -> None:
    joined = string_join((_strings(b"a", b"b"), b"-", _strings(b"c", b"d\0")), separator=b".")
    assert joined.tolist() == [b"a.-.c", b"b.-.d\0"]
    assert string_join((b"a", b"b"), separator=b"") == b"ab"
    with pytest.raises(InvalidArgumentError, match="do not match"):
        string_join((_strings(b"a"), _strings(b"a", b"b")), separator=b"")


def test_buckets_keep_shape() -> None:
    strings = _strings(b"a", b"b", b"c", b"d").reshape(2, 2)
    for buckets in (
        string_to_hash_bucket_fast(strings, num_buckets=5),
        string_to_hash_bucket_strong(strings, num_buckets=5, key=(1, 2)),
        string_to_hash_bucket(strings, num_buckets=5),
    ):
        assert (buckets.shape, buckets.dtype) == ((2, 2), np.int64)
        assert ((buckets >= 0) & (buckets < 5)).all()
    with pytest.raises(InvalidArgumentError, match="2 elements"):
        string_to_hash_bucket_strong(strings, num_buckets=5, key=(1,))
