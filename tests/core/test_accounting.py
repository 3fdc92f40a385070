"""The memory that values take, as Python itself counts it."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from flowengine.core.accounting import bytes_at_most, bytes_of


def _texts(*values: bytes) -> Any:
    array = np.empty(len(values), object)
    array[:] = values
    return array


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.zeros(100_000, np.float32),
        lambda: np.zeros((300, 70), np.complex128),
        lambda: bytes(bytearray(123_456)),
        lambda: _texts(*[b"%d" % n * (n % 50) for n in range(20_000)]),
        lambda: _texts(*[bytes(bytearray(1000))] * 10_000),
        lambda: np.array([[_texts(b"a" * n)[0] for n in range(100)]] * 50, object),
    ],
)
def test_it_is_what_python_allocates(make: Any) -> None:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        value = make()
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    is_text = isinstance(value, np.ndarray) and value.dtype.hasobject
    objects = 1 + (len({id(each) for each in value.ravel()}) if is_text else 0)
    assert abs(bytes_of(value) - taken) <= 0.05 * taken + 64 * objects


def test_what_is_no_tensor_takes_nothing() -> None:
    assert bytes_of(object()) == 0
    assert bytes_of(np.float32(1)) == 4


@pytest.mark.parametrize("count", [0, 1, 31, 32, 500])
@pytest.mark.parametrize("length", [0, 8, 64, 65])
def test_at_most_counts_each_string(count: int, length: int) -> None:
    """Many short strings are counted at once; a string that stands there twice counts twice."""
    values = _texts(*[b"%d" % n + bytes(length + n) for n in range(count)])
    assert bytes_at_most(values) == bytes_of(values)
    twice = np.concatenate([values, values]).reshape(2, count)
    assert bytes_at_most(twice) == 2 * bytes_of(values)
