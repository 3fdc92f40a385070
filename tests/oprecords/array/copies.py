"""Copies of a tensor, which TensorFlow's debugger puts between a node and who watches it."""

from __future__ import annotations

from typing import Final

import numpy as np

from tests.oprecords.record import MOVED, OpRecord, sample

_SAMPLES: Final = [sample([1.0, 0.0]), sample(3.0), sample(np.zeros((0, 2)))]

RECORDS: Final = [
    OpRecord("Copy", _SAMPLES, lambda x: x, dtypes={"T": MOVED}, loose=0),
    OpRecord("CopyHost", _SAMPLES, lambda x: x, dtypes={"T": MOVED}, loose=0),
]
