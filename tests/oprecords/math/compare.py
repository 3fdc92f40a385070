"""Comparisons and logic of two tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tests.oprecords.elementwise import binary
from tests.oprecords.record import OpRecord, bad, sample


def _compare(op: str, reference: Callable[..., Any]) -> OpRecord:
    return binary(op, reference, differentiable=False)


def _near(x: Any, y: Any, *, tolerance: float) -> Any:
    # As recorded from TensorFlow 1.15: the bound itself is near for floats, not for integers.
    distance = np.abs(x - y)
    return distance < int(tolerance) if x.dtype.kind == "i" else distance <= tolerance


_TRUTHS = [sample([True, False, True], [[True], [False]]), sample(True, False), sample(np.zeros((0,)), True)]


def _packed(x: Any, threshold: Any) -> Any:
    bits = np.asarray(x if x.dtype == bool else x > threshold).reshape(*x.shape[:-1], x.shape[-1] // 8, 8)
    return (bits * 2 ** np.arange(8)[::-1]).sum(axis=-1).astype(np.uint8)


RECORDS: Final = [
    _compare("Equal", np.equal),
    _compare("NotEqual", np.not_equal),
    _compare("Less", np.less),
    _compare("LessEqual", np.less_equal),
    _compare("Greater", np.greater),
    _compare("GreaterEqual", np.greater_equal),
    OpRecord("LogicalAnd", _TRUTHS, np.logical_and),
    OpRecord("LogicalOr", _TRUTHS, np.logical_or),
    OpRecord(
        "ApproximateEqual",
        [
            sample([1.0, 2.0, 3.0], [1.0, 2.5, 3.25], tolerance=0.375),
            sample([1.0, 1.0], [1.0, 2.0], tolerance=1.0),
        ],
        _near,
        [bad("InvalidArgumentError", "", [1.0, 2.0], [1.0, 2.0, 3.0])],
        {"T": ("float32", "float64", "int32")},
    ),
    OpRecord(
        "CompareAndBitpack",
        [
            sample(np.arange(32.0).reshape(2, 16) % 7, 3),
            sample([1.0, 0.0, -1.0, 2.0, 0.0, 0.0, 0.0, 5.0], 0),
            sample(np.zeros((0, 8)), 1),
            sample(np.zeros((2, 0)), 1),
        ],
        _packed,
        [
            bad("InvalidArgumentError", "7", np.zeros((2, 7)), 1),
            bad("InvalidArgumentError", "", 1.0, 1),
            bad("InvalidArgumentError", "", np.zeros((2, 8)), [1]),
        ],
    ),
]
