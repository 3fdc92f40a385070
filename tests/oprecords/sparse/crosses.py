"""Crosses of features, beside Python's products, with hashes that TensorFlow has made."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample, strings

_A: Final = ([[0, 0], [1, 0], [1, 1]], strings(b"a", b"b", b"c"), [2, 2])
_B: Final = ([[0, 0], [1, 0]], strings(b"d", b"e"), [2, 1])
_C: Final = strings(b"f", b"g").reshape(2, 1)
_D: Final = np.array([[5, 7], [0, -1]], np.int64)
_PLACES: Final = np.array([[0, 0], [1, 0], [1, 1]])
_TEXT: Final = {"hashed_output": False, "out_type": "string", "internal_type": "string"}
_NUMBERS_TOO: Final = {**_TEXT, "internal_type": "int64"}
_HASH: Final = {"hashed_output": True, "out_type": "int64", "internal_type": "int64"}


def _lists(*parts: Any) -> list[list[Any]]:
    return [list(each) for each in zip(*parts, strict=True)] if parts else [[], [], []]


def _texts(indices: Any, values: Any, shapes: Any, dense: Any, sep: Any) -> Any:
    """Crosses by Python, one row after another."""
    count = len(dense[0]) if dense else int(shapes[0][0])
    columns = [[v[i[:, 0] == row] for row in range(count)] for i, v in zip(indices, values, strict=True)]
    columns += [list(tensor) for tensor in dense]
    rows = [
        [sep.join(v if isinstance(v, bytes) else b"%d" % v for v in each) for each in itertools.product(*row)]
        for row in zip(*columns, strict=True)
    ]
    places = np.array([(i, j) for i, row in enumerate(rows) for j in range(len(row))]).reshape(-1, 2)
    return places, strings(*(text for row in rows for text in row)), np.array([count, max(map(len, rows))])


def _ragged(values: Any, splits: Any, indices: Any, sparse: Any, shapes: Any, dense: Any) -> Any:
    """Of one ragged column and one dense one, in this order."""
    rows = [values[0][a:b] for a, b in itertools.pairwise(splits[0])]
    crossed = [
        [b"_X_".join(each) for each in itertools.product(*row)] for row in zip(rows, dense[0], strict=True)
    ]
    return strings(*(text for row in crossed for text in row)), np.cumsum([0, *map(len, crossed)])


#: An index that names a row before the first.
_BAD: Final = [
    bad(
        "InvalidArgumentError",
        "2D",
        *_lists(([[0]], strings(b"a"), [2])),
        [],
        hash_key=0,
        num_buckets=0,
        **_TEXT,
    ),
    bad("InvalidArgumentError", "rows", *_lists(_A), [_C[:1]], hash_key=0, num_buckets=0, **_TEXT),
    bad("InvalidArgumentError", "internal_type", *_lists(_A), [_D], hash_key=0, num_buckets=0, **_TEXT),
]

RECORDS: Final = [
    OpRecord(
        "SparseCross",
        [
            sample(*_lists(_A, _B), [_C], hash_key=0, num_buckets=0, **_TEXT),
            sample(*_lists(_A), [_D], hash_key=0, num_buckets=0, **_NUMBERS_TOO),
        ],
        lambda indices, values, shapes, dense: _texts(indices, values, shapes, dense, b"_X_"),
        _BAD,
        only=[{"out_type": "string", "internal_type": "string"}],
        partial=True,
    ),
    OpRecord(
        "SparseCrossV2",
        [sample(*_lists(_A, _B), [_C, _D], b"-"), sample(*_lists(), [_D], b"-")],
        lambda indices, values, shapes, dense, sep: _texts(indices, values, shapes, dense, sep.item()),
        [bad("InvalidArgumentError", "[1]", *_lists(_A), [], strings(b"-"))],
        partial=True,
    ),
    OpRecord(
        "SparseCrossHashed",
        [
            *(
                sample(*_lists(), [strings(b"a").reshape(1, 1), strings(b"b").reshape(1, 1)], 0, strong, salt)
                for strong, salt in ((False, [1, 2]), (True, [0, 0]), (True, [1, 2]))
            ),
        ],
        lambda i, v, s, dense, buckets, strong, salt: (
            np.array([[0, 0]]),
            np.array(
                [
                    {0: 4666779373751662504, 1: 4533870536146636328}[int(salt[0])]
                    if strong
                    else 9083183682105049815
                ]
            ),
            np.array([1, 1]),
        ),
        [bad("InvalidArgumentError", "two elements", *_lists(_A), [], 0, True, [1])],
        partial=True,
    ),
    OpRecord(
        "RaggedCross",
        [
            sample(
                [strings(b"a", b"b", b"c")],
                [np.array([0, 1, 3])],
                *_lists(),
                [strings(b"f", b"g", b"h", b"i").reshape(2, 2)],
                input_order=b"RD",
                hashed_output=False,
                num_buckets=0,
                hash_key=0,
                out_values_type="string",
                out_row_splits_type="int64",
            )
        ],
        _ragged,
        [
            bad(
                "InvalidArgumentError",
                "input_order 'R'",
                [],
                [],
                *_lists(),
                [_C],
                input_order=b"R",
                hashed_output=False,
                num_buckets=0,
                hash_key=0,
                out_values_type="string",
                out_row_splits_type="int64",
            )
        ],
        only=[{"out_values_type": "string", "out_row_splits_type": "int64"}],
        partial=True,
    ),
]
