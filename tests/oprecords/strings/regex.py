"""Regular expressions over strings."""

from __future__ import annotations

from typing import Final

import numpy as np

from tests.oprecords.record import OpRecord, Sample, bad, strings

_TEXTS: Final = strings(b"aab", b"", "\u00e9a".encode(), b"\xffa")
_NO_PATTERN: Final = "Invalid pattern: (a"
_INVALID: Final = "InvalidArgumentError"

RECORDS: Final = [
    OpRecord(
        "RegexFullMatch",
        [
            Sample((_TEXTS, b"a+b?"), {}, [np.array([True, False, False, False])]),
            Sample((_TEXTS.reshape(2, 2), b".a"), {}, [np.array([[False, False], [True, False]])]),
            Sample((b"ab\n", b"ab$"), {}, [np.array(False)]),
        ],
        bad=[bad(_INVALID, _NO_PATTERN, _TEXTS, b"(a"), bad(_INVALID, "[1]", _TEXTS, strings(b"a"))],
    ),
    OpRecord(
        "StaticRegexFullMatch",
        [Sample((_TEXTS,), {"pattern": ".*a.*"}, [np.array([True, False, True, False])])],
        bad=[bad(_INVALID, _NO_PATTERN, _TEXTS, pattern="(a")],
    ),
    OpRecord(
        "RegexReplace",
        [
            Sample((_TEXTS, b"a", b"<\\0>"), {}, [strings(b"<a><a>b", b"", b"\xc3\xa9<a>", b"\xff<a>")]),
            Sample(
                (_TEXTS, b"(a)(b)?", b"\\2"),
                {"replace_global": False},
                [strings(b"ab", b"", b"\xc3\xa9", b"\xff")],
            ),
            Sample((_TEXTS, b"b*", b"-"), {}, [strings(b"-a-a-", b"-", b"-\xc3\xa9-a-", b"-\xff-a-")]),
        ],
        bad=[
            bad(_INVALID, _NO_PATTERN, _TEXTS, b"(a", b""),
            bad(_INVALID, "pattern must be scalar", _TEXTS, strings(b"a"), b""),
            bad(_INVALID, "rewrite must be scalar", _TEXTS, b"a", strings(b"a")),
        ],
    ),
    OpRecord(
        "StaticRegexReplace",
        [
            Sample(
                (_TEXTS,), {"pattern": "[ab]", "rewrite": "x"}, [strings(b"xxx", b"", b"\xc3\xa9x", b"\xffx")]
            )
        ],
        bad=[bad(_INVALID, _NO_PATTERN, _TEXTS, pattern="(a", rewrite="")],
    ),
]
