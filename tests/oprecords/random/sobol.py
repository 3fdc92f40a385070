"""Sequences that fill a cube evenly."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample, told


def _van_der_corput(dim: Any, num_results: Any, skip: Any) -> Any:
    """The first dimension: bits of the numbers in Gray's code, from behind."""
    numbers = np.arange(skip + 1, skip + 1 + num_results, dtype=np.int64)
    gray = numbers ^ (numbers >> 1)
    found = sum(((gray >> bit) & 1) / 2.0 ** (bit + 1) for bit in range(31))
    return np.asarray(found)[:, None]


RECORDS: Final = [
    OpRecord(
        "SobolSample",
        [
            sample(1, 20, 0),
            sample(1, 9, 1000),
            told(
                (3, 5, 0),
                [
                    [
                        [0.5, 0.5, 0.5],
                        [0.75, 0.25, 0.25],
                        [0.25, 0.75, 0.75],
                        [0.375, 0.375, 0.625],
                        [0.875, 0.875, 0.125],
                    ]
                ],
                {},
            ),
            told((2, 4, 3), [[[0.375, 0.375], [0.875, 0.875], [0.625, 0.125], [0.125, 0.625]]], {}),
        ],
        _van_der_corput,
        [
            bad("InvalidArgumentError", "dim must be at least 1, but is 0", 0, 1, 0),
            bad("InvalidArgumentError", "num_results", 1, 0, 0),
            bad("InvalidArgumentError", "skip must be at least 0, but is -1", 1, 1, -1),
            bad("InvalidArgumentError", "at most 21201", 30000, 1, 0),
        ],
        loose=0,
    ),
]
