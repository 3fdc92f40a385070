"""Lines of LIBSVM's text format. The values were recorded from TensorFlow 1.15.5's contrib packages."""

from __future__ import annotations

from typing import Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, strings, told

_INVALID: Final = "InvalidArgumentError"
_SIX: Final = {"num_features": 6, "dtype": "float32", "label_dtype": "int64"}

RECORDS: Final = [
    OpRecord(
        "DecodeLibsvm",
        [
            told(
                [strings(b"1 1:3.4 2:0.5 4:0.231", b"1 2:2.5 3:inf 5:0.503", b"2 3:2.5 2:nan 1:0.105")],
                [
                    [1, 1, 2],
                    [[0, 1], [0, 2], [0, 4], [1, 2], [1, 3], [1, 5], [2, 3], [2, 2], [2, 1]],
                    np.array([3.4, 0.5, 0.231, 2.5, np.inf, 0.503, 2.5, np.nan, 0.105], np.float32),
                    [3, 6],
                ],
                _SIX,
            ),
            told(
                [strings(b"1 1:3.5", b"3", b"-2\n", b" 4\t0:1  ").reshape(2, 2)],
                [[[1, 3], [-2, 4]], [[0, 0, 1], [1, 1, 0]], [3.5, 1], [2, 2, 6]],
                _SIX,
            ),
            told([strings(b"1 7:2 7:3")], [[1], [[0, 7], [0, 7]], [2, 3], [1, 6]], _SIX),
            told([strings(b"1 1:1e400")], [[1], [[0, 1]], [np.inf], [1, 6]], _SIX),
            told([strings()], [np.zeros(0), np.zeros((0, 2)), [], [0, 6]], _SIX),
            told([strings(b"1.5 1:2")], [[1.5], [[0, 1]], [2], [1, 6]], {**_SIX, "label_dtype": "float32"}),
        ],
        None,
        [
            bad(_INVALID, "No label found for input[1]: ''", strings(b"1", b""), **_SIX),
            bad(_INVALID, "Invalid feature '1'", strings(b"1 1"), **_SIX),
            *(
                bad(_INVALID, f"Feature format incorrect: {text!r}", strings(f"1 {text}".encode()), **_SIX)
                for text in ("a:2", "1:2:3", "1:x", ":2", "1:", "qid:3", "1:2,", "99999999999999999999:1")
            ),
            bad(_INVALID, "Feature index should be >= 0, got -1", strings(b"1 -1:2"), **_SIX),
            *(
                bad(_INVALID, f"Label format incorrect: {text!r}", strings(f"{text} 1:2".encode()), **_SIX)
                for text in ("1.5", "x", "+1", "0x10")
            ),
        ],
        partial=True,
    ),
]
