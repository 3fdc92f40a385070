"""Arithmetic and reductions of sparse tensors."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import FLOATS, NUMBERS, REALS, OpRecord, bad, sample

# Arithmetic of sparse tensors, beside what the dense tensors give.

_INDICES: Final = [[0, 1], [1, 0], [1, 3], [3, 2]]
_VALUES: Final = [1.0, 2.0, 3.0, -4.0]
_SHAPE: Final = [4, 5]
_A: Final = (_INDICES, _VALUES, _SHAPE)
_B: Final = ([[0, 0], [1, 0], [3, 2]], [5.0, -6.0, 4.0], _SHAPE)
_NOTHING: Final = (np.zeros((0, 2)), np.zeros(0), _SHAPE)
_DENSE: Final = np.arange(20.0).reshape(4, 5) + 1


def _dict(indices: Any, values: Any) -> dict[tuple[int, ...], Any]:
    return {tuple(place): value for place, value in zip(indices.tolist(), values, strict=True)}


def _entries(entries: dict[tuple[int, ...], Any], rank: int, dtype: Any) -> tuple[Any, Any]:
    places = sorted(entries)
    return np.array(places, np.int64).reshape(-1, rank), np.array([entries[p] for p in places], dtype)


def _add(ai: Any, av: Any, shape: Any, bi: Any, bv: Any, b_shape: Any, thresh: Any) -> Any:
    a, b = _dict(ai, av), _dict(bi, bv)
    total = a | b | {place: a[place] + b[place] for place in a.keys() & b.keys()}
    kept = {p: v for p, v in total.items() if p not in a or p not in b or abs(v) >= thresh}
    return (*_entries(kept, len(shape), av.dtype), shape)


def _add_grad(grad: Any, a: Any, b: Any, total: Any) -> Any:
    rows = _dict(total, grad)
    return [np.array([rows.get(tuple(p), 0) for p in places.tolist()], grad.dtype) for places in (a, b)]


def _extreme(choose: Any) -> Any:
    def reference(ai: Any, av: Any, shape: Any, bi: Any, bv: Any, b_shape: Any) -> Any:
        a, b = _dict(ai, av), _dict(bi, bv)
        chosen = {p: choose(a.get(p, 0), b.get(p, 0)) for p in a.keys() | b.keys()}
        return _entries(chosen, len(shape), av.dtype)

    return reference


def _with_dense(operate: Any) -> Any:
    def reference(indices: Any, values: Any, shape: Any, dense: Any) -> Any:
        return operate(values, np.broadcast_to(dense, shape)[tuple(indices.T)])

    return reference


def _divided(x: Any, y: Any) -> Any:
    return x / y if x.dtype.kind == "f" else np.trunc(x / y).astype(x.dtype)


def _softmax(indices: Any, values: Any, shape: Any) -> Any:
    out = values.copy()
    for row in np.unique(indices[:, :-1], axis=0):
        here = (indices[:, :-1] == row).all(1)
        powers = np.exp(values[here] - values[here].max())
        out[here] = powers / powers.sum()
    return out


_OTHER_SHAPE: Final = [
    bad("InvalidArgumentError", "shapes", *_A, _B[0], _B[1], [4, 6]),
    bad("InvalidArgumentError", "rank", *_A, [[0]], [1.0], [4]),
    bad("InvalidArgumentError", "matrix", [0, 1], [1.0, 2.0], _SHAPE, *_B),
]
_CWISE: Final = [
    sample(*_A, _DENSE),
    sample(*_A, _DENSE[0]),
    sample(*_A, _DENSE[:, :1]),
    sample(*_A, 2.0),
    sample(*_NOTHING, _DENSE),
]
_BAD_CWISE: Final = [
    bad("InvalidArgumentError", "[4,5] vs. [4]", *_A, np.ones(4)),
    bad("InvalidArgumentError", "[1,4,5]", *_A, _DENSE[None]),
    bad("InvalidArgumentError", "out of bounds", [[0, 5]], [1.0], _SHAPE, _DENSE),
]

_OF_ARITHMETIC: Final = [
    OpRecord(
        "SparseAdd",
        [
            sample(*_A, *_B, 0.0),
            sample(*_A, *_B, 1.0),
            sample(*_NOTHING, *_B, 2.0),
            sample(*_NOTHING, *_NOTHING, 2.0),
        ],
        _add,
        [
            *(bad(each.error, each.message, *each.inputs, 0.0) for each in _OTHER_SHAPE),
            bad("InvalidArgumentError", "scalar", *_A, *_B, [0.0]),
        ],
        only=[
            {"T": t, "Treal": t if t[0] != "c" else f"float{int(t[7:]) // 2}"}
            for t in ("float32", "float64", "int32", "int64", "int8", "int16", "complex64", "complex128")
        ],
        partial=True,
        differentiable=("a_values", "b_values"),
    ),
    OpRecord(
        "SparseAddGrad",
        [
            sample([1.0, 2.0], _INDICES, [[0, 0], [1, 0]], [[0, 0], [1, 0]]),
            sample(np.zeros(0), _INDICES, np.zeros((0, 2)), np.zeros((0, 2))),
        ],
        _add_grad,
        [
            bad("InvalidArgumentError", "1 and 2", [1.0], _INDICES, _INDICES, [[0, 0], [1, 0]]),
            bad("InvalidArgumentError", "ndims", [1.0, 2.0], _INDICES, _INDICES, [[0], [1]]),
        ],
        differentiable=True,
    ),
    OpRecord(
        "SparseSparseMaximum",
        [sample(*_A, *_B), sample(*_NOTHING, *_B)],
        _extreme(max),
        _OTHER_SHAPE,
        {"T": REALS},
        partial=True,
        differentiable=True,
    ),
    OpRecord(
        "SparseSparseMinimum",
        [sample(*_A, *_B), sample(*_A, *_NOTHING)],
        _extreme(min),
        _OTHER_SHAPE,
        {"T": REALS},
        partial=True,
        differentiable=True,
    ),
    OpRecord(
        "SparseDenseCwiseAdd", _CWISE, _with_dense(np.add), _BAD_CWISE, {"T": REALS}, differentiable=True
    ),
    OpRecord(
        "SparseDenseCwiseMul", _CWISE, _with_dense(np.multiply), _BAD_CWISE, {"T": REALS}, differentiable=True
    ),
    OpRecord(
        "SparseDenseCwiseDiv", _CWISE, _with_dense(_divided), _BAD_CWISE, {"T": REALS}, differentiable=True
    ),
    OpRecord(
        "SparseSoftmax",
        [sample(*_A), sample(*_NOTHING), sample([[0, 0, 1], [0, 0, 2]], [1000.0, 1001.0], [1, 1, 3])],
        _softmax,
        [bad("InvalidArgumentError", "rank", [[0]], [1.0], [3])],
        {"T": [name for name in FLOATS if name in ("float32", "float64")]},
        differentiable=True,
    ),
]


# Reductions of sparse tensors, beside those of dense ones.

_A_REDUCTIONS: Final = ([[0, 0, 1], [0, 1, 0], [1, 1, 0], [1, 1, 2]], [1.0, 2.0, -3.0, 4.0], [2, 3, 4])
_NOTHING_REDUCTIONS: Final = (np.zeros((0, 2)), np.zeros(0), [4, 5])


def _groups(indices: Any, values: Any, shape: Any, axes: Any) -> tuple[dict[tuple[int, ...], Any], list[int]]:
    """({place with reduced axes at zero: its values}, reduced axes)"""
    gone = [int(a) % len(shape) for a in axes.reshape(-1)]
    found: dict[tuple[int, ...], Any] = {}
    for place, value in zip(indices.tolist(), values, strict=True):
        found.setdefault(tuple(0 if i in gone else p for i, p in enumerate(place)), []).append(value)
    return found, gone


def _dense(reduce: Any) -> Any:
    def reference(indices: Any, values: Any, shape: Any, axes: Any, *, keep_dims: bool) -> Any:
        found, gone = _groups(indices, values, shape, axes)
        out = np.zeros([1 if i in gone else d for i, d in enumerate(shape)], values.dtype)
        for place, group in found.items():
            out[place] = reduce(group)
        return out if keep_dims else out.squeeze(tuple(set(gone)))

    return reference


def _sparse(reduce: Any) -> Any:
    def reference(indices: Any, values: Any, shape: Any, axes: Any, *, keep_dims: bool) -> Any:
        found, gone = _groups(indices, values, shape, axes)
        places = np.array(sorted(found), np.int64).reshape(-1, len(shape))
        dims = np.array([1 if i in gone else d for i, d in enumerate(shape)])
        kept = [i for i in range(len(shape)) if keep_dims or i not in gone]
        return places[:, kept], np.array([reduce(found[p]) for p in sorted(found)], values.dtype), dims[kept]

    return reference


_SAMPLES: Final = [
    sample(*_A_REDUCTIONS, [1]),
    sample(*_A_REDUCTIONS, [-1, 0], keep_dims=True),
    sample(*_A_REDUCTIONS, [0, 1, 2]),
    sample(*_A_REDUCTIONS, np.zeros(0)),
    sample(*_A_REDUCTIONS, 2),
    sample(*_NOTHING_REDUCTIONS, [0]),
]
_BAD: Final = [
    bad("InvalidArgumentError", "Invalid reduction dimension 3", *_A_REDUCTIONS, [3]),
    bad("InvalidArgumentError", "matrix", [0, 1], [1.0, 2.0], [2], [0]),
]
_OUTSIDE: Final = bad("InternalError", "[4]", [[4, 0]], [1.0], [4, 5], [1])

_OF_REDUCTIONS: Final = [
    OpRecord(
        "SparseReduceSum",
        _SAMPLES,
        _dense(sum),
        [*_BAD, _OUTSIDE],
        {"T": NUMBERS},
        partial=True,
        differentiable=True,
    ),
    OpRecord(
        "SparseReduceMax",
        _SAMPLES,
        _dense(max),
        [*_BAD, _OUTSIDE],
        {"T": REALS},
        partial=True,
        differentiable=True,
    ),
    OpRecord(
        "SparseReduceSumSparse",
        _SAMPLES,
        _sparse(sum),
        _BAD,
        {"T": NUMBERS},
        partial=True,
        differentiable=True,
    ),
    OpRecord(
        "SparseReduceMaxSparse", _SAMPLES, _sparse(max), _BAD, {"T": REALS}, partial=True, differentiable=True
    ),
]


RECORDS: Final = [*_OF_ARITHMETIC, *_OF_REDUCTIONS]
