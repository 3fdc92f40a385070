"""The coordinates of what is not zero."""

from __future__ import annotations

from typing import Final

import numpy as np

from tests.oprecords.record import MOVED, OpRecord, sample

RECORDS: Final = [
    OpRecord(
        "Where",
        [sample([[1.0, 0.0], [0.0, -2.0]]), sample(np.zeros((0, 2)))],
        np.argwhere,
        dtypes={"T": MOVED},
        partial=True,
    ),
]
