"""Diagonals and bands of matrices."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import MOVED, OpRecord, bad, sample

_M = np.arange(12.0).reshape(4, 3) - 3
_CUBE = np.arange(24.0).reshape(2, 3, 4)
_T = {"T": MOVED}


def _matrix_diag(x: Any) -> Any:
    result = np.zeros((*x.shape, x.shape[-1]), x.dtype)
    i = np.arange(x.shape[-1])
    result[..., i, i] = x
    return result


def _diag(x: Any) -> Any:
    return np.diag(x.ravel()).reshape(x.shape * 2)


def _diag_part(x: Any) -> Any:
    shape = x.shape[: x.ndim // 2]
    return np.diag(x.reshape(int(np.prod(shape)), -1)).reshape(shape)


def _set_diag(x: Any, d: Any) -> Any:
    i = np.arange(d.shape[-1])
    x[..., i, i] = d
    return x


def _band(x: Any, lower: Any, upper: Any) -> Any:
    i, j = np.ogrid[: x.shape[-2], : x.shape[-1]]
    keep = ((lower < 0) | (i - j <= lower)) & ((upper < 0) | (j - i <= upper))
    return np.where(keep, x, 0).astype(x.dtype)


_BANDS = [sample(_M, 0, 1), sample(_CUBE, -1, 0), sample(_CUBE, 1, -1)]

RECORDS: Final = [
    OpRecord(
        "Diag",
        [sample([1.0, 2.0]), sample(_M[:2, :2])],
        _diag,
        [bad("InvalidArgumentError", "", 1.0)],
        {"T": ("float32", "int32", "complex64")},
        differentiable=True,
    ),
    OpRecord(
        "DiagPart",
        [sample(_M[:3]), sample(np.arange(16.0).reshape(2, 2, 2, 2))],
        _diag_part,
        [bad("InvalidArgumentError", "", _M)],
        {"T": ("float32", "int32", "complex64")},
        differentiable=True,
    ),
    *[
        OpRecord(
            p + "MatrixDiag",
            [sample([1.0, 2.0]), sample(_M), sample(np.zeros((0, 2)))],
            _matrix_diag,
            [bad("InvalidArgumentError", "", 1.0)],
            _T,
            differentiable=True,
        )
        for p in ("", "Batch")
    ],
    *[
        OpRecord(
            p + "MatrixDiagPart",
            [sample(_M), sample(_CUBE)],
            lambda x: np.diagonal(x, axis1=-2, axis2=-1),
            [bad("InvalidArgumentError", "", [1.0])],
            _T,
            differentiable=True,
        )
        for p in ("", "Batch")
    ],
    *[
        OpRecord(
            p + "MatrixSetDiag",
            [sample(_M, [1.0, 2.0, 3.0])],
            _set_diag,
            [bad("InvalidArgumentError", "", _M, [1.0])],
            _T,
            differentiable=True,
        )
        for p in ("", "Batch")
    ],
    *[
        OpRecord(
            p + "MatrixBandPart",
            _BANDS,
            _band,
            [bad("InvalidArgumentError", "", [1.0], 0, 0)],
            _T,
            differentiable=True,
        )
        for p in ("", "Batch")
    ],
]

#: {why they have no record: ops}
EXCUSED: Final = {
    "not yet; tests/kernels and tests/conformance compare them with recorded values": """
        MatrixDiagPartV2 MatrixDiagV2 MatrixSetDiagV2
    """,
}
