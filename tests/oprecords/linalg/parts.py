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


def _diagonals(shape: Any, k: Any, align: bytes) -> Any:
    """For each diagonal from the uppermost down, where it stands in its row and in the matrix."""
    low, high = int(np.ravel(k)[0]), int(np.ravel(k)[-1])
    rows, columns = shape
    lengths = {n: min(rows + min(n, 0), columns - max(n, 0)) for n in range(low, high + 1)}
    longest = max(lengths.values())
    places = []
    for at, n in enumerate(range(high, low - 1, -1)):
        above, below = align.split(b"_")
        left = (n >= 0 and above == b"LEFT") or (n <= 0 and below == b"LEFT")
        shift = 0 if left else longest - lengths[n]
        places += [(at, shift + i, i + max(-n, 0), i + max(n, 0)) for i in range(lengths[n])]
    return places, (high - low + 1, longest)


def _part(x: Any, k: Any, padding: Any, *, align: bytes) -> Any:
    places, size = _diagonals(x.shape[-2:], k, align)
    out = np.full((*x.shape[:-2], *size), padding, x.dtype)
    for row, column, i, j in places:
        out[..., row, column] = x[..., i, j]
    return out if size[0] > 1 else out[..., 0, :]


def _into(values: Any, out: Any, k: Any, align: bytes) -> Any:
    places, size = _diagonals(out.shape[-2:], k, align)
    values = values if size[0] > 1 else values[..., None, :]
    for row, column, i, j in places:
        out[..., i, j] = values[..., row, column]
    return out


def _set(x: Any, values: Any, k: Any, *, align: bytes) -> Any:
    return _into(values, x.copy(), k, align)


def _whole(values: Any, k: Any, rows: Any, columns: Any, padding: Any, *, align: bytes) -> Any:
    low, high = int(np.ravel(k)[0]), int(np.ravel(k)[-1])
    longest = values.shape[-1]
    size = [
        longest - min(high, 0) if rows == -1 else int(rows),
        longest + max(low, 0) if columns == -1 else int(columns),
    ]
    if rows == -1 and columns == -1:
        size = [max(size)] * 2
    batch = values.shape[:-2] if high > low else values.shape[:-1]
    return _into(values, np.full((*batch, *size), padding, values.dtype), k, align)


_STACK: Final = np.arange(1.0, 25.0).reshape(2, 4, 3)
_ALIGNED: Final = [{"align": a} for a in (b"LEFT_RIGHT", b"RIGHT_LEFT", b"LEFT_LEFT", b"RIGHT_RIGHT")]
_OUT_OF_BOUND: Final = "out of bound"


def _unaligned(reference: Any) -> Any:
    """Of an op without the attribute."""
    return lambda *inputs: reference(*inputs, align=b"LEFT_LEFT")


def _of_diagonals(version: str, attrs: list[dict[str, Any]]) -> list[OpRecord]:
    part, put, whole = (_part, _set, _whole) if version == "V3" else map(_unaligned, (_part, _set, _whole))
    return [
        OpRecord(
            f"MatrixDiagPart{version}",
            [
                *(sample(_STACK, k, 9.0, **each) for k in ([-1, 1], [-3, 2], [0, 1]) for each in attrs),
                sample(_STACK, -2, 9.0),
            ],
            part,
            [bad("InvalidArgumentError", _OUT_OF_BOUND, _STACK, 3, 9.0)],
            {"T": MOVED},
            partial=True,
            differentiable=("input",),
        ),
        OpRecord(
            f"MatrixSetDiag{version}",
            [
                *(sample(_STACK, -_STACK[:, :3], [-1, 1], **each) for each in attrs),
                sample(_STACK, -_STACK[:, 0, :2], 1),
            ],
            put,
            [bad("InvalidArgumentError", "expected [2,3]", _STACK, _STACK[:, 0, :2], 0)],
            {"T": MOVED},
            differentiable=True,
        ),
        OpRecord(
            f"MatrixDiag{version}",
            [
                *(sample(_STACK[:, :3], [-1, 1], -1, -1, 9.0, **each) for each in attrs),
                *(sample(_STACK[:, :2], [0, 1], 3, 4, 9.0, **each) for each in attrs),
                sample(_STACK[0], -1, -1, -1, 9.0),
            ],
            whole,
            [bad("InvalidArgumentError", "does not have diagonals", _STACK[0], 0, 2, 2, 9.0)],
            {"T": MOVED},
            partial=True,
            differentiable=("diagonal",),
        ),
    ]


RECORDS: Final = [
    *_of_diagonals("V2", [{}]),
    *_of_diagonals("V3", _ALIGNED),
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
