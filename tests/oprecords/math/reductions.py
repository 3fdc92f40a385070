"""Reductions along axes, places of extremes, running sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, Sample, bad, sample

_CUBE = (np.arange(24).reshape(2, 3, 4) % 7) - 2.5
_REDUCED = [
    sample(_CUBE, [0]),
    sample(_CUBE, [0, -1], keep_dims=True),
    sample(_CUBE, 1),
    sample(_CUBE, np.zeros((0,), np.int32)),
    sample(3.0, np.zeros((0,), np.int32)),
    sample([1.0, 2.0, 4.0], 0, keep_dims=True),
]
_NO_AXIS = bad("InvalidArgumentError", "3", _CUBE, [3])
_TRUTHS = [
    sample([[True, False], [True, True]], [1]),
    sample(np.zeros((0, 2)), [0]),
    sample(True, np.zeros((0,))),
]


def _axes(indices: Any) -> tuple[int, ...]:
    return tuple(int(i) for i in np.ravel(indices))


def _reduction(
    op: str, reference: Callable[..., Any], empty: Sequence[Sample] = (), *, loose: float = 1.0
) -> OpRecord:
    def reduced(x: Any, indices: Any, *, keep_dims: bool) -> Any:
        kind = {"dtype": x.dtype} if op in ("Sum", "Prod") else {}
        return reference(x, axis=_axes(indices), keepdims=keep_dims, **kind)

    return OpRecord(op, [*_REDUCED, *empty], reduced, [_NO_AXIS], loose=loose, differentiable=True)


def _mean(x: Any, axis: Any, keepdims: bool) -> Any:
    if x.dtype.kind not in "iu":
        return np.mean(x, axis=axis, keepdims=keepdims)
    total = np.sum(x, axis=axis, keepdims=keepdims, dtype=x.dtype)
    count = x.size // max(total.size, 1)
    # C++ divides towards zero.
    return np.trunc(total.astype(np.float64) / count)


def _norm(x: Any, axis: Any, keepdims: bool) -> Any:
    if not axis:  # nothing to reduce is the value itself, sign and all
        return x
    norm = np.sqrt(np.sum(np.abs(x.astype(complex)) ** 2, axis=axis, keepdims=keepdims))
    return np.trunc(norm) if x.dtype.kind in "iu" else norm


def _truths(op: str, reference: Callable[..., Any]) -> OpRecord:
    return OpRecord(op, _TRUTHS, lambda x, i, *, keep_dims: reference(x, axis=_axes(i), keepdims=keep_dims))


def _extreme(op: str, reference: Callable[..., Any]) -> OpRecord:
    return OpRecord(
        op,
        [sample(_CUBE, 0), sample(_CUBE, -1), sample([1.0, 3.0, 3.0], 0), sample(np.ones((0, 2)), 1)],
        lambda x, i: reference(x, axis=int(i)),
        [bad("InvalidArgumentError", "3", _CUBE, 3), bad("InvalidArgumentError", "-4", _CUBE, -4)],
    )


def _running(op: str, function: Callable[..., Any], start: float, *, loose: float = 1.0) -> OpRecord:
    # The start of a sum of exponentials is the type's lowest number.
    only = {"T": "float32"} if np.isfinite(start) and start < -1e38 else {}

    def reference(x: Any, axis: Any, *, exclusive: bool, reverse: bool) -> Any:
        x = np.moveaxis(x, int(axis), 0)
        x = x[::-1] if reverse else x
        result = function(x, axis=0, dtype=x.dtype) if x.size else x
        if exclusive and x.shape[0]:
            result = np.concatenate([np.full_like(result[:1], start), result[:-1]])
        return np.moveaxis(result[::-1] if reverse else result, 0, int(axis))

    samples = [
        sample(_CUBE, 1),
        sample(_CUBE, -1, exclusive=True, **only),
        sample([1.0, 2.0, 3.0], 0, reverse=True),
        sample([[1.0, 2.0, 3.0]], 1, reverse=True, exclusive=True, **only),
        sample(np.zeros((0, 2)), 0),
    ]
    return OpRecord(
        op,
        samples,
        reference,
        [bad("InvalidArgumentError", "2", [1.0, 2.0], 2)],
        loose=loose,
        differentiable=True,
    )


def _log_sum_exp(x: Any, axis: int, dtype: Any) -> Any:
    return np.logaddexp.accumulate(x, axis=axis)


RECORDS: Final = [
    _reduction("Sum", np.sum, [sample(np.zeros((0, 2)), [0])], loose=3),
    _reduction("Prod", np.prod, [sample(np.zeros((0, 2)), [0])], loose=3),
    _reduction("Max", np.max),
    _reduction("Min", np.min),
    _reduction("Mean", _mean, loose=2),
    _reduction("EuclideanNorm", _norm, [sample(np.zeros((0, 2)), [0])], loose=3),
    _truths("All", np.all),
    _truths("Any", np.any),
    _extreme("ArgMax", np.argmax),
    _extreme("ArgMin", np.argmin),
    _running("Cumsum", np.cumsum, 0.0, loose=4),
    _running("Cumprod", np.cumprod, 1.0, loose=4),
    _running("CumulativeLogsumexp", _log_sum_exp, float(np.finfo(np.float32).min), loose=4),
]
