"""Strings into buckets by hash."""

from __future__ import annotations

from typing import Final

from tests.oprecords.record import OpRecord, Sample, strings

RECORDS: Final = [
    OpRecord(
        "StringToHashBucketFast", [Sample((strings(b"a", b"b", b""),), {"num_buckets": 1}, [[0, 0, 0]])]
    ),
    OpRecord("StringToHashBucket", [Sample((strings(b"a", b"b", b""),), {"num_buckets": 1}, [[0, 0, 0]])]),
    OpRecord(
        "StringToHashBucketStrong",
        [Sample((strings(b"a", b"b"),), {"num_buckets": 1, "key": [1, 2]}, [[0, 0]])],
    ),
]
