"""Strings from numbers, and from other strings."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import to_array
from flowengine.core.dtypes import as_dtype
from tests.oprecords.record import OpRecord, Sample, bad, strings


def _formatted(text: bytes, *values: Any, t: str = "%", summarize: int = 3) -> Sample:
    arrays = [to_array(value) for value in values]
    types = [as_dtype("string" if a.dtype.kind == "O" else a.dtype) for a in arrays]
    attrs = {"template": t, "placeholder": "%", "summarize": summarize, "T": types}
    return Sample((arrays,), attrs, [to_array(text)])


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
    OpRecord(
        "StringFormat",
        [
            _formatted(
                b"abc 1 and [1.5 0.1 1e+10]",
                np.int32(1),
                np.array([1.5, 0.1, 1e10], np.float32),
                t="abc % and %",
            ),
            _formatted(b"[0 1 2 ... 7 8 9]", np.arange(10)),
            _formatted(b"[[0 ... 2]\n ...\n [9 ... 11]]", np.arange(12).reshape(4, 3), summarize=1),
            _formatted(b"[[[1]\n  [2]]\n\n [[3]\n  [4]]]", np.arange(1, 5).reshape(2, 2, 1), summarize=-1),
            _formatted(b'["a" "\\"\\n\\377"] 1', strings(b"a", b'"\n\xff'), np.bool_(True), t="% %"),
            _formatted(
                b"0.33333333333333331 0.0999755859 ?", np.float64(1 / 3), np.float16(0.1), 1j, t="% % %"
            ),
            _formatted(b"[] [\n ...]", np.zeros((0, 3)), np.zeros((3, 0)), t="% %"),
        ],
        bad=[
            bad("InvalidArgumentError", "2 vs. 1", [np.int32(1)], template="%%", placeholder="%", T=["int32"])
        ],
    ),
]
