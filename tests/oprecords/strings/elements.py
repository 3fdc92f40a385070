"""Strings element by element, and their hashes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, Sample, bad, strings

# Strings element by element: length, parts, case, base64, numbers.

#: {why they have no record: ops}


# Strings into buckets by hash.

_LETTERS: Final = strings(b"a", b"b")


def _bytes(*rows: list[int]) -> Any:
    return np.array(rows, np.uint8)


_OF_LETTERS: Final = _bytes([227, 117, 223, 182, 101, 66, 69, 179], [22, 241, 200, 94, 33, 96, 178, 163])

_OF_HASHING: Final = [
    OpRecord(
        "StringToHashBucketFast", [Sample((strings(b"a", b"b", b""),), {"num_buckets": 1}, [[0, 0, 0]])]
    ),
    OpRecord("StringToHashBucket", [Sample((strings(b"a", b"b", b""),), {"num_buckets": 1}, [[0, 0, 0]])]),
    OpRecord(
        "StringToHashBucketStrong",
        [Sample((strings(b"a", b"b"),), {"num_buckets": 1, "key": [1, 2]}, [[0, 0]])],
    ),
    OpRecord(
        "Fingerprint",
        [
            Sample((_LETTERS, b"farmhash64"), {"T": "string"}, [_OF_LETTERS]),
            Sample((_LETTERS.reshape(2, 1), b"farmhash64"), {"T": "string"}, [_OF_LETTERS]),
            Sample(
                (strings(b"a", b"b", b"c", b"d").reshape(2, 2), b"farmhash64"),
                {"T": "string"},
                [_bytes([122, 64, 59, 169, 136, 60, 55, 83], [52, 252, 224, 38, 64, 226, 155, 60])],
            ),
            Sample(
                ([[1, 2], [3, 4]], b"farmhash64"),
                {"T": "int32"},
                [_bytes([76, 18, 253, 133, 168, 204, 240, 10], [254, 162, 60, 240, 103, 244, 53, 255])],
            ),
            Sample(
                ([True, False], b"farmhash64"),
                {"T": "bool"},
                [_bytes([62, 88, 126, 177, 19, 76, 162, 71], [84, 75, 233, 245, 237, 86, 96, 190])],
            ),
            Sample((np.zeros((0, 3)), b"farmhash64"), {"T": "double"}, [np.zeros((0, 8), np.uint8)]),
        ],
        bad=[
            bad("InvalidArgumentError", "crc32c", [1, 2], b"crc32c", T="int32"),
            bad("InvalidArgumentError", "scalar", 1, b"farmhash64", T="int32"),
        ],
        dtypes={"T": ["int32"]},
    ),
]


RECORDS: Final = [*_OF_HASHING]

EXCUSED: Final = {
    "values of strings, told by recorded ones: tests/kernels, tests/conformance": """
        DecodeBase64 EncodeBase64 StringLength StringLower StringStrip StringToNumber StringUpper
        Substr
    """,
}
