"""Grayscale dilation and its gradients."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, bad, sample
from tests.oprecords.windows import windows

_TYPES = {"T": ("float32", "float64", "float16")}


class _Dilation:
    """Largest sum of input and filter in a window, or its gradient; the first of equals wins."""

    attr_names = ("strides", "rates", "padding")

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, x: Any, w: Any, g: Any = None, *, strides: Any, rates: Any, padding: bytes) -> Any:
        outs, pairs = windows(x.shape[1:-1], w.shape[:2], strides[1:-1], rates[1:-1], padding)
        y, dx, dw = np.zeros((x.shape[0], *outs, x.shape[-1])), np.zeros(x.shape), np.zeros(w.shape)
        for o, group in itertools.groupby(pairs, lambda p: p[0]):
            members = [(i, k) for _, i, k in group]
            sums = np.stack([x[(slice(None), *i)] + w[k] for i, k in members])
            at: Any = (slice(None), *o)
            y[at] = sums.max(0)
            if g is None:
                continue
            best = sums.argmax(0)
            for n, c in np.ndindex(*best.shape):
                i, k = members[best[n, c]]
                dx[(n, *i, c)] += g[(n, *o, c)]
                dw[(*k, c)] += g[(n, *o, c)]
        return {"forward": y, "input": dx, "filter": dw}[self.kind]


_P = np.random.RandomState(3).permutation(2 * 5 * 4 * 2).reshape(2, 5, 4, 2) / 8.0 - 3
_SPREAD = {"strides": [1, 2, 1, 1], "rates": [1, 1, 2, 1], "padding": "SAME"}
_SHARP = np.random.RandomState(5).permutation(3 * 2 * 2).reshape(3, 2, 2) / 16.0
_DILATED = _Dilation("forward")(_P, _SHARP, strides=(1, 2, 1, 1), rates=(1, 1, 2, 1), padding=b"SAME")
_BACK = np.arange(_DILATED.size).reshape(_DILATED.shape) % 5.0

RECORDS: Final = [
    OpRecord(
        "Dilation2D",
        [sample(_P, _SHARP, **_SPREAD)],
        _Dilation("forward"),
        [
            *(
                bad(
                    "InvalidArgumentError",
                    f"{name} must have 4 entries",
                    _P,
                    _SHARP,
                    **{**_SPREAD, name: wrong},
                )
                for name in ("strides", "rates")
                for wrong in ([1, 1, 1, 1, 1], [2, 1, 1, 1], [1, 1, 1, 2])
            ),
            bad("InvalidArgumentError", "input must be 4-dimensional", _P[0], _SHARP, **_SPREAD),
            bad("InvalidArgumentError", "filter must be 3-dimensional", _P, _SHARP[0], **_SPREAD),
            bad("InvalidArgumentError", "the same depth: 2 vs 1", _P, _SHARP[..., :1], **_SPREAD),
        ],
        dtypes=_TYPES,
        differentiable=True,
    ),
    OpRecord(
        "Dilation2DBackpropInput",
        [sample(_P, _SHARP, _BACK, **_SPREAD)],
        _Dilation("input"),
        dtypes=_TYPES,
        differentiable=True,
    ),
    OpRecord(
        "Dilation2DBackpropFilter",
        [sample(_P, _SHARP, _BACK, **_SPREAD)],
        _Dilation("filter"),
        dtypes=_TYPES,
        differentiable=True,
    ),
]
