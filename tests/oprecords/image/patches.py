"""Patches of images and volumes, laid out as depth."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import FLOATS, OpRecord, sample
from tests.oprecords.windows import windows


def _patches(x: Any, *, ksizes: Any, strides: Any, rates: Any, padding: bytes) -> Any:
    outs, pairs = windows(x.shape[1:-1], ksizes[1:-1], strides[1:-1], rates[1:-1], padding)
    y = np.zeros((x.shape[0], *outs, *ksizes[1:-1], x.shape[-1]), x.dtype)
    for o, i, k in pairs:
        here: Any = (slice(None), *o, *k)
        y[here] = x[(slice(None), *i)]
    return y.reshape(x.shape[0], *outs, -1)


def _volume_patches(x: Any, *, ksizes: Any, strides: Any, padding: bytes) -> Any:
    return _patches(x, ksizes=ksizes, strides=strides, rates=[1] * x.ndim, padding=padding)


_P = np.random.RandomState(3).permutation(2 * 5 * 4 * 2).reshape(2, 5, 4, 2) / 8.0 - 3
_P5 = np.random.RandomState(4).permutation(4 * 3 * 4 * 2).reshape(1, 4, 3, 4, 2) / 8.0
_PATCH = {"ksizes": [1, 2, 3, 1], "strides": [1, 1, 2, 1], "rates": [1, 2, 1, 1]}

RECORDS: Final = [
    OpRecord(
        "ExtractImagePatches",
        [sample(_P, **_PATCH, padding=p) for p in ("SAME", "VALID")],
        _patches,
        dtypes={"T": (*FLOATS, "int32", "uint8")},
        differentiable=True,
    ),
    OpRecord(
        "ExtractVolumePatches",
        [sample(_P5, ksizes=[1, 2, 1, 2, 1], strides=[1, 1, 2, 2, 1], padding=p) for p in ("SAME", "VALID")],
        _volume_patches,
        dtypes={"T": ("float32", "float64", "int32")},
        differentiable=True,
    ),
]
