"""Fingerprints of many strings are those of each."""

from __future__ import annotations

import numpy as np
import pytest

from flowengine.core.checksums.hashing import fingerprint64
from flowengine.kernels.common.fingerprints import MANY, fingerprints64


def _strings(seed: int, count: int, longest: int) -> list[bytes]:
    random = np.random.default_rng(seed)
    return [random.bytes(int(size)) for size in random.integers(0, longest + 1, count)]


@pytest.mark.parametrize("longest", [0, 3, 7, 16, 32, 64, 200])
def test_of_many_strings_at_once(longest: int) -> None:
    strings = _strings(longest, 500, longest)
    assert fingerprints64(strings).tolist() == [fingerprint64(string) for string in strings]


def test_of_every_length() -> None:
    strings = [bytes((7 * i + size) % 256 for i in range(size)) for size in range(200)]
    assert fingerprints64(strings).tolist() == [fingerprint64(string) for string in strings]


def test_bytes_of_zero_count_at_either_end() -> None:
    strings = [b"\0" * before + b"ab" + b"\0" * after for before in range(12) for after in range(12)]
    assert len(strings) > MANY
    found = fingerprints64(strings)
    assert found.tolist() == [fingerprint64(string) for string in strings]
    assert len(np.unique(found)) == len(strings)


def test_of_more_than_are_taken_at_a_time() -> None:
    strings = _strings(1, 40_000, 20)
    found = fingerprints64(strings)
    for place in (0, 16_383, 16_384, 39_999):
        assert found[place] == fingerprint64(strings[place])
    assert fingerprints64(strings[::-1]).tolist() == found[::-1].tolist()


def test_of_few_and_of_none() -> None:
    assert fingerprints64([]).tolist() == []
    assert fingerprints64([b"hello"]).tolist() == [13009744463427800296]
