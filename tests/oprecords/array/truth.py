"""Whether a tensor counts as true."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, sample


def _truth(x: Any) -> Any:
    if x.ndim:
        return x.size > 0
    return len(x.item()) > 0 if x.dtype == object else x.item() != 0


RECORDS: Final = [
    OpRecord(
        "ToBool",
        [
            *(sample(value) for value in (0.0, 2.0, [0.0], np.zeros((0, 3)), [[1.0]])),
            sample(np.nan, T="float32"),
            sample(b"", T="string"),
            sample(b"0", T="string"),
            sample([b""], T="string"),
        ],
        _truth,
        dtypes={"T": ("float32", "int32", "uint8", "bool", "bfloat16", "complex64", "float64")},
    ),
]
