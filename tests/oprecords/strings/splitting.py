"""Strings split and joined, runs of neighbours, regular expressions."""

from __future__ import annotations

from typing import Final

import numpy as np

from tests.oprecords.record import OpRecord, Sample, bad, strings

# Strings into parts, and parts into strings.

#: {why they have no record: ops}


# Runs of neighbouring strings, and strings of one segment, joined.

_LETTERS: Final = strings(b"a", b"b", b"c", b"d")
_MATRIX: Final = _LETTERS.reshape(2, 2)
_NGRAMS: Final = {
    "separator": "|",
    "ngram_widths": [2],
    "left_pad": "L",
    "right_pad": "R",
    "pad_width": -1,
    "preserve_short_sequences": False,
}
_INVALID_NGRAMS: Final = "InvalidArgumentError"

_OF_NGRAMS: Final = [
    OpRecord(
        "StringNGrams",
        [
            Sample(
                (_LETTERS, [0, 2, 4]),
                _NGRAMS,
                [strings(b"L|a", b"a|b", b"b|R", b"L|c", b"c|d", b"d|R"), np.array([0, 3, 6])],
            ),
            Sample(
                (_LETTERS, [0, 2, 2, 4]),
                {**_NGRAMS, "ngram_widths": [3, 1], "pad_width": 0},
                [_LETTERS, np.array([0, 2, 2, 4])],
            ),
            Sample(
                (_LETTERS, [0, 3, 4]),
                {**_NGRAMS, "ngram_widths": [5], "pad_width": 1, "preserve_short_sequences": True},
                [strings(b"L|a|b|c|R", b"L|d|R"), np.array([0, 1, 2])],
            ),
            Sample((strings(), [0]), _NGRAMS, [strings(), np.array([0])]),
        ],
        bad=[
            bad(_INVALID_NGRAMS, "got 1", _LETTERS, [1, 4], **_NGRAMS),
            bad(_INVALID_NGRAMS, "Expected 4, got 3", _LETTERS, [0, 3], **_NGRAMS),
            bad(_INVALID_NGRAMS, "[0, 5]", _LETTERS, [0, 5], **_NGRAMS),
            bad(_INVALID_NGRAMS, "[0]", _LETTERS, [0, 4], **{**_NGRAMS, "ngram_widths": [0]}),
            bad(_INVALID_NGRAMS, "2147483648", _LETTERS, [0, 4], **{**_NGRAMS, "ngram_widths": [2**31]}),
            bad(_INVALID_NGRAMS, "overflow", _LETTERS, [0, 4], **{**_NGRAMS, "ngram_widths": [2**31 - 1]}),
            bad("ResourceExhaustedError", "tokens", _LETTERS, [0, 4], **{**_NGRAMS, "ngram_widths": [2**28]}),
        ],
        partial=True,
    ),
    OpRecord(
        "UnsortedSegmentJoin",
        [
            Sample((_LETTERS, [0, 1, 0, 3], 4), {"separator": ":"}, [strings(b"a:c", b"b", b"", b"d")]),
            Sample((_MATRIX, [1, 1], 2), {}, [strings(b"", b"", b"ac", b"bd").reshape(2, 2)]),
            Sample((_MATRIX, [[1, 0], [0, 1]], 2), {}, [strings(b"bc", b"ad")]),
            Sample((strings(), [], 2), {}, [strings(b"", b"")]),
        ],
        bad=[
            bad(_INVALID_NGRAMS, "got 4", _LETTERS, [0, 1, 0, 4], 4),
            bad(_INVALID_NGRAMS, "got -1", _LETTERS, [0, 1, 0, -1], 4),
            bad(_INVALID_NGRAMS, "[4]", _LETTERS, [0, 1], 4),
            bad(_INVALID_NGRAMS, "got 0", _LETTERS, [0, 0, 0, 0], 0),
        ],
    ),
]


# Regular expressions over strings.

_TEXTS: Final = strings(b"aab", b"", "\u00e9a".encode(), b"\xffa")
_NO_PATTERN: Final = "Invalid pattern: (a"
_INVALID_REGEX: Final = "InvalidArgumentError"

_OF_REGEX: Final = [
    OpRecord(
        "RegexFullMatch",
        [
            Sample((_TEXTS, b"a+b?"), {}, [np.array([True, False, False, False])]),
            Sample((_TEXTS.reshape(2, 2), b".a"), {}, [np.array([[False, False], [True, False]])]),
            Sample((b"ab\n", b"ab$"), {}, [np.array(False)]),
        ],
        bad=[
            bad(_INVALID_REGEX, _NO_PATTERN, _TEXTS, b"(a"),
            bad(_INVALID_REGEX, "[1]", _TEXTS, strings(b"a")),
        ],
    ),
    OpRecord(
        "StaticRegexFullMatch",
        [Sample((_TEXTS,), {"pattern": ".*a.*"}, [np.array([True, False, True, False])])],
        bad=[bad(_INVALID_REGEX, _NO_PATTERN, _TEXTS, pattern="(a")],
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
            bad(_INVALID_REGEX, _NO_PATTERN, _TEXTS, b"(a", b""),
            bad(_INVALID_REGEX, "pattern must be scalar", _TEXTS, strings(b"a"), b""),
            bad(_INVALID_REGEX, "rewrite must be scalar", _TEXTS, b"a", strings(b"a")),
        ],
    ),
    OpRecord(
        "StaticRegexReplace",
        [
            Sample(
                (_TEXTS,), {"pattern": "[ab]", "rewrite": "x"}, [strings(b"xxx", b"", b"\xc3\xa9x", b"\xffx")]
            )
        ],
        bad=[bad(_INVALID_REGEX, _NO_PATTERN, _TEXTS, pattern="(a", rewrite="")],
    ),
]


RECORDS: Final = [*_OF_NGRAMS, *_OF_REGEX]

EXCUSED: Final = {
    "values of strings, told by recorded ones: tests/kernels, tests/conformance": """
        ReduceJoin StringSplit StringSplitV2
    """,
}
