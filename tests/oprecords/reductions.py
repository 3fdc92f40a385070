"""Reductions, running sums, matrix products, sequences of numbers, counting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.oprecords.record import FLOATS, REALS, OpRecord, Sample, bad, sample

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


def _mat_mul(a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> Any:
    return (a.T if transpose_a else a) @ (b.T if transpose_b else b)


def _sparse_mat_mul(a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> Any:
    return _mat_mul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)


def _batch_mat_mul(x: Any, y: Any, *, adj_x: bool, adj_y: bool) -> Any:
    x = np.conj(np.swapaxes(x, -1, -2)) if adj_x else x
    return x @ (np.conj(np.swapaxes(y, -1, -2)) if adj_y else y)


_A = np.arange(6).reshape(2, 3) - 2.0
_B = np.arange(12).reshape(3, 4) / 2 - 2.0
_PRODUCTS = [
    sample(_A, _B),
    sample(_A.T, _B, transpose_a=True),
    sample(_A, _B.T, transpose_b=True),
    sample(_A.T, _B.T, transpose_a=True, transpose_b=True),
]
_EMPTY_PRODUCTS = [sample(np.zeros((2, 0)), np.zeros((0, 3))), sample(np.zeros((0, 3)), _B)]
_STACKS = [
    sample(_CUBE, np.swapaxes(_CUBE, 1, 2)),
    sample(_CUBE, _CUBE, adj_x=True),
    sample(_CUBE, _CUBE, adj_y=True),
    sample(np.zeros((0, 2, 3)), np.zeros((0, 3, 1))),
]


def _bincount(values: Any, size: Any, weights: Any) -> Any:
    keep = values < size
    scale = weights[keep] if weights.size else np.ones(keep.sum())
    return np.bincount(values[keep], scale, int(size)).astype(weights.dtype)


def _histogram(values: Any, value_range: Any, nbins: Any) -> Any:
    low, high = value_range
    bins = np.floor((np.ravel(values) - low) / (high - low) * nbins)
    return np.bincount(np.clip(bins, 0, nbins - 1).astype(int), minlength=int(nbins))


def _range(start: Any, limit: Any, delta: Any) -> Any:
    return start + delta * np.arange(int(np.ceil((float(limit) - float(start)) / float(delta))))


def _gradient_args(a: Any, b: Any) -> tuple[Any, Any]:
    rank = max(len(a), len(b))
    a, b = [np.concatenate([np.ones(rank - len(s), s.dtype), s]) for s in (a, b)]
    either = (a == 1) & (b == 1)
    return np.flatnonzero((a == 1) & (b != 1) | either), np.flatnonzero((b == 1) & (a != 1) | either)


RECORDS = [
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
    OpRecord(
        "MatMul",
        [*_PRODUCTS, *_EMPTY_PRODUCTS],
        _mat_mul,
        [bad("InvalidArgumentError", "3", _A, _A), bad("InvalidArgumentError", "1", [1.0], _A)],
        loose=4,
        differentiable=True,
    ),
    OpRecord(
        "SparseMatMul",
        [*_PRODUCTS, sample(_A, _B, a_is_sparse=True, b_is_sparse=True)],
        _sparse_mat_mul,
        [bad("InvalidArgumentError", "3", _A, _A)],
        dtypes={"Ta": ("float32", "bfloat16"), "Tb": ("float32", "bfloat16")},
        loose=4,
        differentiable=True,
    ),
    OpRecord(
        "BatchMatMul",
        _STACKS,
        _batch_mat_mul,
        [bad("InvalidArgumentError", "", _CUBE, _CUBE)],
        loose=4,
        differentiable=True,
    ),
    OpRecord(
        "BatchMatMulV2",
        [*_STACKS, sample(_A, np.swapaxes(_CUBE, 1, 2)[:, :3, :])],
        _batch_mat_mul,
        [bad("InvalidArgumentError", "", _CUBE, _CUBE)],
        loose=4,
        differentiable=True,
    ),
    OpRecord(
        "Cross",
        [sample([[1.0, 2.0, 3.0]], [[-2.0, 0.5, 4.0]]), sample(np.zeros((0, 3)), np.zeros((0, 3)))],
        np.cross,
        [bad("InvalidArgumentError", "2", [1.0, 2.0], [1.0, 2.0])],
        {"T": (*FLOATS, "int32", "int64")},
        differentiable=True,
    ),
    OpRecord(
        "Range",
        [
            sample(3.0, 18.0, 3.0),
            sample(0.0, 5.0, 2.0),
            sample(4.0, 4.0, 1.0),
            sample(5.0, 1.0, -2.0, Tidx="int32"),
        ],
        _range,
        [
            bad("InvalidArgumentError", "0", 1, 5, 0, Tidx="int32"),
            bad("InvalidArgumentError", "5", 5, 1, 1, Tidx="int32"),
        ],
    ),
    OpRecord(
        "LinSpace",
        [sample(10.0, 12.0, 5), sample(1.0, 9.0, 1)],
        lambda start, stop, num: np.linspace(start, stop, int(num)),
        [bad("InvalidArgumentError", "0", 1.0, 2.0, 0)],
    ),
    OpRecord(
        "BroadcastGradientArgs",
        [sample([2, 3], [3]), sample([2, 1], [1, 5]), sample([4], [4]), sample(np.zeros((0,)), [2])],
        _gradient_args,
        [bad("InvalidArgumentError", "", [2], [3])],
        partial=True,
    ),
    OpRecord(
        "BroadcastArgs",
        [sample([2, 1], [3]), sample(np.zeros((0,)), [2, 3])],
        lambda a, b: (
            np.broadcast_shapes(tuple(a), tuple(b)) and [np.array(np.broadcast_shapes(tuple(a), tuple(b)))]
        ),
        [bad("InvalidArgumentError", "", [2], [3])],
    ),
    OpRecord(
        "Bincount",
        [sample([1, 1, 0, 7], 3, [1.0, 2.0, 4.0, 8.0]), sample([[0, 2], [2, 2]], 4, np.zeros((0,)))],
        _bincount,
        [bad("InvalidArgumentError", "-1", [1], -1, np.zeros((0,)))],
    ),
    OpRecord(
        "HistogramFixedWidth",
        [sample([-1.0, 0.0, 1.5, 2.0, 5.0, 15.0], [0.0, 5.0], 5)],
        _histogram,
        [bad("InvalidArgumentError", "-2", [1.0], [0.0, 5.0], -2)],
        {"T": ("float32", "float64", "int32", "int64")},
    ),
    OpRecord(
        "Bucketize",
        [sample([[-5.0, 10000.0], [150.0, 10.0], [5.0, 100.0]], boundaries=[0.0, 10.0, 100.0])],
        lambda x, *, boundaries: np.digitize(x, boundaries),
        [bad("InvalidArgumentError", "", [1.0], boundaries=[2.0, 1.0])],
    ),
    OpRecord(
        "LowerBound",
        [sample([[0.0, 3.0, 9.0], [1.0, 2.0, 3.0]], [[2.0, 9.0], [0.0, 3.0]])],
        lambda s, v: np.stack([np.searchsorted(a, b) for a, b in zip(s, v, strict=True)]),
        dtypes={"T": REALS},
    ),
    OpRecord(
        "UpperBound",
        [sample([[0.0, 3.0, 9.0], [1.0, 2.0, 3.0]], [[2.0, 9.0], [0.0, 3.0]])],
        lambda s, v: np.stack([np.searchsorted(a, b, "right") for a, b in zip(s, v, strict=True)]),
        dtypes={"T": REALS},
    ),
    OpRecord(
        "UnravelIndex",
        [sample([22, 3, 7], [5, 6]), sample(3, [2, 2])],
        lambda i, dims: np.array(np.unravel_index(i, tuple(dims))),
        [bad("InvalidArgumentError", "", [30], [5, 6])],
    ),
    OpRecord(
        "AsString",
        [
            Sample(([[1, -2]],), {"T": "int32"}, [np.array([[b"1", b"-2"]], object)]),
            Sample(([True, False],), {"T": "bool"}, [np.array([b"true", b"false"], object)]),
            Sample(([1.5],), {"T": "float32", "precision": 2}, [np.array([b"1.50"], object)]),
        ],
    ),
]
