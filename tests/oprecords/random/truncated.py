"""Normal numbers between bounds of their own."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample


def _inside(outputs: Any, inputs: Any) -> None:
    (drawn,) = (np.asarray(o, np.float64) for o in outputs)
    shape, _, _, low, high = (np.asarray(i, np.float64) for i in inputs)
    assert drawn.shape == tuple(shape.astype(int))
    rows = drawn.reshape(len(drawn), drawn.size // max(len(drawn), 1)).T
    assert ((rows >= low - 0.01) & (rows <= high + 0.01)).all()


_ROWS: Final = [[0.0, 1.0, 5.0, 3.0], [1.0, 2.0, 0.5, 1.0], [-np.inf, -5.0, 1.0, 7.0], [-2.0, 5.0, 4.5, 7.25]]

RECORDS: Final = [
    OpRecord(
        "ParameterizedTruncatedNormal",
        [
            sample([4, 300], *_ROWS, seed=7, seed2=9),
            sample([10, 25], 0.0, 1.0, -9.0, 0.5, seed=7, seed2=9),
            sample([4, 0], *_ROWS, seed=7),
            sample([0, 3], 0.0, 1.0, -9.0, 0.5, seed=7),
        ],
        bad=[
            bad("InvalidArgumentError", "deviation -1.0", [3], 0.0, -1.0, -9.0, 0.5),
            bad("InvalidArgumentError", "bounds 9.0 and 0.5", [3], 0.0, 1.0, 9.0, 0.5),
            bad("InvalidArgumentError", "means", [3], [1.0, 2.0], 1.0, 0.0, 0.5),
            bad("InvalidArgumentError", "", [3], [[1.0]], 1.0, 0.0, 0.5),
            bad("InvalidArgumentError", "empty", np.zeros((0,)), 1.0, 1.0, 0.0, 0.5),
        ],
        check=_inside,
        random=True,
    ),
]
