"""Runs of neighbouring strings, and strings of one segment, joined."""

from __future__ import annotations

from typing import Final

import numpy as np

from tests.oprecords.record import OpRecord, Sample, bad, strings

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
_INVALID: Final = "InvalidArgumentError"

RECORDS: Final = [
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
            bad(_INVALID, "got 1", _LETTERS, [1, 4], **_NGRAMS),
            bad(_INVALID, "Expected 4, got 3", _LETTERS, [0, 3], **_NGRAMS),
            bad(_INVALID, "[0, 5]", _LETTERS, [0, 5], **_NGRAMS),
            bad(_INVALID, "[0]", _LETTERS, [0, 4], **{**_NGRAMS, "ngram_widths": [0]}),
            bad(_INVALID, "2147483648", _LETTERS, [0, 4], **{**_NGRAMS, "ngram_widths": [2**31]}),
            bad(_INVALID, "overflow", _LETTERS, [0, 4], **{**_NGRAMS, "ngram_widths": [2**31 - 1]}),
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
            bad(_INVALID, "got 4", _LETTERS, [0, 1, 0, 4], 4),
            bad(_INVALID, "got -1", _LETTERS, [0, 1, 0, -1], 4),
            bad(_INVALID, "[4]", _LETTERS, [0, 1], 4),
            bad(_INVALID, "got 0", _LETTERS, [0, 0, 0, 0], 0),
        ],
    ),
]
