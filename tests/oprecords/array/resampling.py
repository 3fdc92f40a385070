"""Elements moved from one axis to the others.

The values of `told` were recorded from TensorFlow 1.15.5's contrib packages.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from flowengine.core.shapes import TensorShape
from tests.oprecords.record import OpRecord, bad, told

_INVALID: Final = "InvalidArgumentError"


def _counted(*shape: int) -> np.ndarray:
    return np.arange(1.0, np.prod(shape) + 1).reshape(shape)


#: (shape of the values, the shape asked for, the result's shape, the result, its gradient by 1, 2, ...)
_CASES: Final = [
    ((6,), (None,), (6,), "1 2 3 4 5 6", "1 2 3 4 5 6"),
    ((2, 6), (5, None), (5, 2), "1 2 3 4 5 6 7 8 9 10", "1 2 3 4 5 6 7 8 9 10 0 0"),
    (
        (3, 7),
        (4, None),
        (4, 5),
        "1 2 3 4 5 6 7 8 9 10 8 9 10 11 12 13 14 15 16 17",
        "1 2 3 4 5 6 7 11 12 13 14 15 16 17 18 19 20 0 0 0 0",
    ),
    ((2, 2, 4), (3, 3, None), (3, 3, 1), "1 3 5 2 4 6 9 11 13", "1 4 2 5 3 6 0 0 7 0 8 0 9 0 0 0"),
    (
        (4, 2, 3),
        (None, 4, 3),
        (2, 4, 3),
        "1 2 3 13 14 15 4 5 6 16 17 18 7 8 9 19 20 21 10 11 12 22 23 24",
        "1 2 3 7 8 9 13 14 15 19 20 21 4 5 6 10 11 12 16 17 18 22 23 24",
    ),
    (
        (1, 2, 3, 4),
        (2, 2, 3, None),
        (2, 2, 3, 2),
        "1 2 5 6 9 10 13 14 17 18 21 22 3 4 7 8 11 12 15 16 19 20 23 24",
        "1 2 13 14 3 4 15 16 5 6 17 18 7 8 19 20 9 10 21 22 11 12 23 24",
    ),
]


def _numbers(text: str, shape: tuple[int, ...]) -> np.ndarray:
    return np.array(text.split(), float).reshape(shape)


_TYPES: Final = {"T": ["float32", "float64", "int32"]}

RECORDS: Final = [
    OpRecord(
        "PeriodicResample",
        [
            told([_counted(*given)], [_numbers(result, shape)], {"shape": TensorShape(wanted)})
            for given, wanted, shape, result, _ in _CASES
        ],
        None,
        [
            bad(_INVALID, "only one index", _counted(2, 3), shape=TensorShape([None, None])),
            bad(_INVALID, "at least one index", _counted(2, 3), shape=TensorShape([2, 3])),
            bad(_INVALID, "rank of the input tensor, 3", _counted(2, 2, 4), shape=TensorShape([4, None])),
            bad(_INVALID, "input tensor has size 3", _counted(3, 4), shape=TensorShape([2, None])),
            bad(_INVALID, "isn't greater than zero", _counted(2, 1), shape=TensorShape([4, None])),
        ],
        dtypes=_TYPES,
        differentiable=True,
    ),
    OpRecord(
        "PeriodicResampleOpGrad",
        [
            told(
                [_counted(*shape)],
                [_numbers(back, given)],
                {"original_shape": TensorShape(given), "desired_shape": TensorShape(wanted)},
            )
            for given, wanted, shape, _, back in _CASES
        ],
        None,
        [
            bad(
                _INVALID,
                "[2,2]",
                _counted(2, 2),
                original_shape=TensorShape([2, 6]),
                desired_shape=TensorShape([4, None]),
            ),
        ],
        dtypes=_TYPES,
        differentiable=True,
    ),
]
