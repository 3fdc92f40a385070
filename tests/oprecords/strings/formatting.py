"""Strings from numbers, and from other strings."""

from __future__ import annotations

from typing import Final

import numpy as np

from tests.oprecords.record import OpRecord, Sample, bad, strings

RECORDS: Final = [
    OpRecord(
        "AsString",
        [
            Sample(([[1, -2]],), {"T": "int32"}, [np.array([[b"1", b"-2"]], object)]),
            Sample(([True, False],), {"T": "bool"}, [np.array([b"true", b"false"], object)]),
            Sample(([1.5],), {"T": "float32", "precision": 2}, [np.array([b"1.50"], object)]),
        ],
    ),
    OpRecord(
        "StringJoin",
        [Sample(([strings(b"a", b"b"), strings(b"x", b"")],), {"separator": "-"}, [strings(b"a-x", b"b-")])],
        bad=[bad("InvalidArgumentError", "", [strings(b"a", b"b"), strings(b"x")])],
    ),
]
