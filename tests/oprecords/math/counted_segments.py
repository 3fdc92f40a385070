"""Reductions over segments whose number is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample

_DATA: Final = np.arange(10.0).reshape(5, 2) * 3 % 7 - 2


def _reduced(reduce: Callable[..., Any], empty: float | None) -> Callable[..., Any]:
    def reference(data: Any, ids: Any, count: Any) -> Any:
        least = np.iinfo(data.dtype).min if data.dtype.kind in "iu" else None
        rows = []
        for segment in range(int(count)):
            inside = data[ids == segment]
            if len(inside) or empty is not None:
                rows.append(reduce(inside, axis=0) if len(inside) else np.full(data.shape[1:], empty))
            else:
                rows.append(np.full(data.shape[1:], least))
        return np.array(rows).reshape(int(count), *data.shape[1:])

    return reference


_SAMPLES: Final = [
    sample(_DATA, [0, 0, 1, 1, 2], 3),
    sample(_DATA, [0, 1, 1, 2, 2], 3, Tindices="int64", Tnumsegments="int64"),
]
_GAPS: Final = [sample(_DATA, [0, 0, 2, 2, 2], 4), sample(_DATA[:0], np.zeros(0), 2)]
_BAD: Final = [
    bad("InvalidArgumentError", "3", _DATA, [0, 0, 1, 1, 3], 3),
    bad("InvalidArgumentError", "-1", _DATA, [0, 0, 1, 1, 2], -1),
]

RECORDS: Final = [
    OpRecord("SegmentSumV2", [*_SAMPLES, *_GAPS], _reduced(np.sum, 0), _BAD, differentiable=True),
    OpRecord("SegmentProdV2", [*_SAMPLES, *_GAPS], _reduced(np.prod, 1), _BAD, differentiable=True),
    OpRecord("SegmentMaxV2", _SAMPLES, _reduced(np.max, None), _BAD, differentiable=True),
    OpRecord("SegmentMinV2", _SAMPLES, _reduced(np.min, None), _BAD, differentiable=True),
]
