"""Strings into buckets by hash. The hashes are TensorFlow's own: models depend on the very numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from flowengine.core.arrays import to_array
from flowengine.core.checksums.hashing import fingerprint64, murmur64, siphash24
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.fingerprints import fingerprints64
from flowengine.kernels.registry import kernel


def _cost(strings: Any) -> float:
    """Microseconds: about 3 a short string. It holds the interpreter, but lets the loop breathe."""
    return 3.0 * float(getattr(strings, "size", 1))


def _check_buckets(num_buckets: int) -> None:
    if num_buckets <= 0:
        raise InvalidArgumentError(f"num_buckets must be at least 1, but is {num_buckets}")


def _buckets(strings: Any, num_buckets: int, hashed: Callable[[bytes], int]) -> Any:
    array = to_array(strings)
    _check_buckets(num_buckets)
    numbers = [hashed(string) % num_buckets for string in array.reshape(-1).tolist()]
    return np.array(numbers, dtype=np.int64).reshape(array.shape)


@kernel("StringToHashBucketFast", fresh=True, heavy=_cost)
def string_to_hash_bucket_fast(strings: Any, *, num_buckets: int) -> Any:
    """FarmHash's fingerprint modulo `num_buckets` (int64, of the input's shape)."""
    array = to_array(strings)
    _check_buckets(num_buckets)
    hashes = fingerprints64(array.reshape(-1).tolist())
    return (hashes % np.uint64(num_buckets)).astype(np.int64).reshape(array.shape)


@kernel("StringToHashBucketStrong", fresh=True, heavy=_cost)
def string_to_hash_bucket_strong(strings: Any, *, num_buckets: int, key: tuple[int, ...]) -> Any:
    """SipHash under a key of two integers, modulo `num_buckets` (int64, of the input's shape)."""
    if len(key) != 2:
        raise InvalidArgumentError(f"Key must have 2 elements, but has {len(key)}")
    halves = (key[0] % 2**64, key[1] % 2**64)
    return _buckets(strings, num_buckets, lambda string: siphash24(halves, string))


@kernel("StringToHashBucket", fresh=True, heavy=_cost)
def string_to_hash_bucket(strings: Any, *, num_buckets: int) -> Any:
    """The Murmur hash modulo `num_buckets` (int64, of the input's shape)."""
    return _buckets(strings, num_buckets, murmur64)


@kernel("Fingerprint", fresh=True, heavy=_cost)
def fingerprint(data: Any, method: Any) -> Any:
    """FarmHash's fingerprint of each row of the data (uint8 (rows, 8), the lowest byte first).

    A row of one string has the string's fingerprint; one of more, that of their fingerprints' bytes.
    """
    array, name = to_array(data), to_array(method)
    if name.ndim or name.item() != b"farmhash64":
        raise InvalidArgumentError(f"`method` must be the scalar 'farmhash64', got {name.tolist()!r}")
    if not array.ndim:
        raise InvalidArgumentError("`data` should have at least one dimension, got a scalar")
    rows = len(array)
    width = math.prod(array.shape[1:])
    if array.dtype.kind == "O":
        array = fingerprints64(array.reshape(-1).tolist())
        if width == 1:
            return array.astype("<u8").view(np.uint8).reshape(rows, 8)
        array = array.astype("<u8")
    raw, size = array.tobytes(), width * array.dtype.itemsize
    hashes = [fingerprint64(raw[i * size : (i + 1) * size]) for i in range(rows)]
    return np.array(hashes, "<u8").view(np.uint8).reshape(rows, 8)
