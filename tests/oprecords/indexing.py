"""Ops that pick, spread, sort into groups, turn around and rearrange elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.oprecords.record import MOVED, REALS, OpRecord, Sample, bad, sample

_M = np.arange(12.0).reshape(4, 3) - 3
_CUBE = np.arange(24.0).reshape(2, 3, 4)
_T = {"T": MOVED}
_P = {"Tparams": MOVED}
_SUMS: dict[str, Sequence[str]] = {"T": ("float32", "float64", "int32", "float16", "complex64")}


def _gather(p: Any, i: Any, axis: Any = 0, *, batch_dims: int = 0) -> Any:
    if batch_dims:
        return np.stack(
            [_gather(a, b, int(axis) - 1, batch_dims=batch_dims - 1) for a, b in zip(p, i, strict=True)]
        )
    return np.take(p, i, int(axis))


def _at(indices: Any) -> tuple[Any, ...]:
    return tuple(np.moveaxis(indices, -1, 0))


def _scattered(ufunc: Any) -> Callable[..., Any]:
    def reference(x: Any, indices: Any, updates: Any) -> Any:
        if ufunc is None:
            x[indices] = updates
        else:
            ufunc.at(x, indices, np.broadcast_to(updates, np.shape(indices) + x.shape[1:]))
        return x

    return reference


def _scattered_nd(ufunc: Any) -> Callable[..., Any]:
    def reference(x: Any, indices: Any, updates: Any) -> Any:
        if ufunc is None:
            x[_at(indices)] = updates
        else:
            ufunc.at(x, _at(indices), updates)
        return x

    return reference


def _scatter_nd(indices: Any, updates: Any, shape: Any) -> Any:
    result = np.zeros(tuple(shape), updates.dtype)
    np.add.at(result, _at(indices), updates)
    return result


_ROWS = [
    sample(_M, [2, 0, 2], np.ones((3, 3)) * 2),
    sample(_M, [[1], [3]], np.ones((2, 1, 3)) * 3),
    sample(_M, 1, 2.0),
]
_ND = [sample(_M, [[2, 1], [0, 0]], [5.0, 7.0]), sample(_M, [[3]], [[4.0, 5.0, 6.0]])]
_BAD_ROWS = [
    bad("InvalidArgumentError", "4", _M, [4], np.ones((1, 3))),
    bad("InvalidArgumentError", "", _M, [1], np.ones((2, 3))),
]
_BAD_ND = [bad("InvalidArgumentError", "4", _M, [[4, 0]], [1.0])]
_UFUNCS = {
    "Update": None,
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Min": np.minimum,
    "Max": np.maximum,
}
_WIDE = ("float32", "float64", "float16")


def _scatters() -> list[OpRecord]:
    found = []
    for name, ufunc in _UFUNCS.items():
        found.append(
            OpRecord(f"Scatter{name}", _ROWS, _scattered(ufunc), _BAD_ROWS, {"T": _WIDE}, updates=True)
        )
        found.append(
            OpRecord(
                f"ResourceScatter{name}",
                _ROWS,
                _scattered(ufunc),
                _BAD_ROWS[:1],
                {"dtype": _WIDE},
                updates=True,
            )
        )
    for name in ("Update", "Add", "Sub"):
        reference = _scattered_nd(_UFUNCS[name])
        found += [
            OpRecord(prefix + name, _ND, reference, _BAD_ND, {"T": _WIDE}, updates=True)
            for prefix in ("ScatterNd", "ResourceScatterNd")
        ]
        found.append(OpRecord(f"TensorScatter{name}", _ND, reference, _BAD_ND, {"T": (*_WIDE, "int32")}))
    return found


def _one_hot(i: Any, depth: Any, on: Any, off: Any, *, axis: int) -> Any:
    hit = np.expand_dims(i, axis) == np.arange(depth).reshape([-1] + [1] * (i.ndim if axis == 0 else 0))
    return np.where(hit, on, off)


def _sparse_to_dense(indices: Any, shape: Any, values: Any, default: Any) -> Any:
    result = np.full(tuple(np.atleast_1d(shape)), default)
    result[_at(indices) if np.ndim(indices) == 2 else indices] = values
    return result


def _unique(x: Any) -> tuple[Any, Any, Any]:
    seen: dict[Any, int] = {}
    index = [seen.setdefault(v, len(seen)) for v in x.tolist()]
    return (
        np.array(list(seen), x.dtype),
        np.array(index, int),
        np.bincount(np.array(index, int), minlength=len(seen)),
    )


def _list_diff(x: Any, y: Any) -> tuple[Any, Any]:
    keep = [i for i, v in enumerate(x.tolist()) if v not in set(y.tolist())]
    return x[keep], np.array(keep, int)


def _reverse_sequence(x: Any, lengths: Any, *, seq_dim: int, batch_dim: int) -> Any:
    result = x.copy()
    for i, n in enumerate(lengths):
        take = [slice(None)] * x.ndim
        take[batch_dim], take[seq_dim] = slice(i, i + 1), slice(0, int(n))
        result[tuple(take)] = np.flip(x[tuple(take)], seq_dim)
    return result


def _stitch(indices: Any, data: Any) -> Any:
    rest = data[0].shape[indices[0].ndim :]
    result = np.zeros((max(int(i.max()) for i in indices if i.size) + 1, *rest), data[0].dtype)
    for i, d in zip(indices, data, strict=True):
        result[i] = d
    return result


_GATHERS = [sample(_M, [2, 0, 2]), sample(_M, [[1], [3]]), sample(_M, 1), sample(_M, np.zeros((0,)))]
_REVERSED = [sample(_CUBE, [0, -1]), sample(_M, np.zeros((0,))), sample(np.zeros((0, 2)), [1])]


def _gather_tree(steps: Any, parents: Any, lengths: Any, end: Any) -> Any:
    """Follow each beam back from its last step; what comes after the first end is the end."""
    times, batches, beams = steps.shape
    result = np.full_like(steps, end)
    for batch, beam in np.ndindex(batches, beams):
        at = beam
        for time in reversed(range(min(int(lengths[batch]), times))):
            result[time, batch, beam] = steps[time, batch, at]
            at = parents[time, batch, at]
        ended = np.flatnonzero(result[:, batch, beam] == end)
        if ended.size:
            result[ended[0] :, batch, beam] = end
    return result


_STEPS = np.array([[[1, 2, 3]], [[4, 5, 6]], [[7, 8, 9]], [[-1, -1, -1]]])
_PARENTS = np.array([[[0, 0, 0]], [[0, 1, 1]], [[2, 1, 2]], [[-1, -1, -1]]])

RECORDS = [
    OpRecord(
        "GatherTree",
        [sample(_STEPS, _PARENTS, [3], 10)],
        _gather_tree,
        [bad("InvalidArgumentError", "", _STEPS, _PARENTS[:2], [3], 10)],
    ),
    OpRecord(
        "Gather",
        _GATHERS,
        lambda p, i: p[i],
        [bad("InvalidArgumentError", "4", _M, [4])],
        _P,
        differentiable=True,
    ),
    OpRecord(
        "GatherV2",
        [
            *[Sample((*each.inputs, 0)) for each in _GATHERS],
            sample(_CUBE, [2, 0], 1),
            sample(_CUBE, [3], -1),
            sample(_CUBE, [[2, 0], [1, 1]], 1, batch_dims=1),
        ],
        _gather,
        [bad("InvalidArgumentError", "-1", _M, [-1], 0), bad("InvalidArgumentError", "2", _M, [0], 2)],
        _P,
        differentiable=True,
    ),
    OpRecord(
        "GatherNd",
        [
            sample(_CUBE, [[1, 2], [0, 0]]),
            sample(_CUBE, [[1, 2, 3]]),
            sample(_CUBE, np.zeros((0, 2))),
            sample(_M, [2]),
        ],
        lambda p, i: p[_at(i)],
        [bad("InvalidArgumentError", "2", _CUBE, [[2, 0]])],
        _P,
        differentiable=True,
    ),
    OpRecord(
        "ResourceGather",
        [sample(_M, [2, 0])],
        lambda p, i: p[i],
        [bad("InvalidArgumentError", "4", _M, [4])],
        {"dtype": MOVED},
    ),
    OpRecord(
        "ResourceGatherNd",
        [sample(_M, [[2, 0], [1, 1]])],
        lambda p, i: p[_at(i)],
        [bad("InvalidArgumentError", "4", _M, [[4, 0]])],
        {"dtype": MOVED},
    ),
    *_scatters(),
    OpRecord(
        "ScatterNd",
        [
            sample([[1], [3], [1]], [1.0, 2.0, 4.0], [5]),
            sample([[0, 1]], [7.0], [2, 2]),
            sample(np.zeros((0, 1)), np.zeros((0,)), [2]),
        ],
        _scatter_nd,
        [bad("InvalidArgumentError", "5", [[5]], [1.0], [5])],
        _SUMS,
        differentiable=True,
    ),
    OpRecord(
        "ScatterNdNonAliasingAdd", _ND, _scattered_nd(np.add), _BAD_ND, {"T": _WIDE}, differentiable=True
    ),
    OpRecord(
        "OneHot",
        [
            sample([0, 2, -1, 5], 3, 1.0, 0.0),
            sample([[0, 2]], 3, 5.0, -1.0, axis=0),
            sample(np.zeros((0,)), 3, 1.0, 0.0),
        ],
        _one_hot,
        [bad("InvalidArgumentError", "-1", [0], -1, 1.0, 0.0)],
        {"T": MOVED, "TI": ("int32", "int64", "uint8")},
    ),
    OpRecord(
        "SparseToDense",
        [sample([1, 3], [5], [5.0, 6.0], 0.0), sample([[0, 1], [1, 0]], [2, 2], 9.0, -1.0)],
        _sparse_to_dense,
        [
            bad("InvalidArgumentError", "7", [7], [5], [1.0], 0.0),
            bad("InvalidArgumentError", "", [3, 1], [5], [1.0, 2.0], 0.0),
        ],
        _T,
    ),
    OpRecord(
        "Unique",
        [sample([1.0, 1.0, 2.0, 4.0, 1.0]), sample(np.zeros((0,)))],
        lambda x: _unique(x)[:2],
        [bad("InvalidArgumentError", "", [[1.0]])],
        {"T": REALS},
        partial=True,
    ),
    OpRecord(
        "UniqueWithCounts",
        [sample([1.0, 1.0, 2.0, 4.0, 1.0]), sample(np.zeros((0,)))],
        _unique,
        dtypes={"T": REALS},
        partial=True,
    ),
    OpRecord(
        "UniqueV2",
        [sample([1.0, 1.0, 2.0], [0]), sample([3.0, 1.0, 3.0], np.zeros((0,)))],
        lambda x, a: _unique(x)[:2],
        dtypes={"T": REALS},
        partial=True,
    ),
    OpRecord(
        "UniqueWithCountsV2",
        [sample([1.0, 1.0, 2.0], [0])],
        lambda x, a: _unique(x),
        dtypes={"T": REALS},
        partial=True,
    ),
    OpRecord(
        "ListDiff",
        [sample([1.0, 2.0, 3.0, 2.0], [1.0, 3.0]), sample(np.zeros((0,)), [1.0])],
        _list_diff,
        dtypes={"T": REALS},
        partial=True,
    ),
    OpRecord(
        "Where",
        [sample([[1.0, 0.0], [0.0, -2.0]]), sample(np.zeros((0, 2)))],
        np.argwhere,
        dtypes={"T": MOVED},
        partial=True,
    ),
    OpRecord(
        "ReverseV2",
        _REVERSED,
        lambda x, a: np.flip(x, tuple(int(i) for i in a)),
        [bad("InvalidArgumentError", "3", _M, [3]), bad("InvalidArgumentError", "", _M, [0, 0])],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "Reverse",
        [sample(_M, [True, False])],
        lambda x, d: np.flip(x, tuple(np.flatnonzero(d))),
        [bad("InvalidArgumentError", "", _M, [True])],
        {"T": ("float32", "int32", "bool", "complex64")},
        differentiable=True,
    ),
    OpRecord(
        "ReverseSequence",
        [sample(_M, [1, 3, 0, 2], seq_dim=1), sample(_M, [4, 2, 0], seq_dim=0, batch_dim=1)],
        _reverse_sequence,
        [bad("InvalidArgumentError", "5", _M, [5, 1, 1, 1], seq_dim=1)],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "Roll",
        [sample(_M, [1, -2], [0, 1]), sample(_M, 5, 1), sample(np.zeros((0,)), 1, 0)],
        lambda x, s, a: np.roll(x, tuple(np.atleast_1d(s)), tuple(np.atleast_1d(a))),
        [bad("InvalidArgumentError", "2", _M, 1, 2)],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "DynamicPartition",
        [sample(_M, [1, 0, 1, 3], num_partitions=4), sample(_M, np.zeros((4, 3)), num_partitions=1)],
        lambda x, p, *, num_partitions: [x[p == i] for i in range(num_partitions)],
        [bad("InvalidArgumentError", "4", _M, [0, 4, 1, 1], num_partitions=2)],
        _T,
        partial=True,
        differentiable=True,
    ),
    *[
        OpRecord(
            op,
            [sample([[0, 3], [[1], [2]]], [_M[:2], _M[2:].reshape(2, 1, 3)]), sample([1, [0]], [1.0, [2.0]])],
            _stitch,
            [*wrong],
            _T,
            partial=op.startswith("P"),
            differentiable=True,
        )
        for op, wrong in (
            ("DynamicStitch", [bad("InvalidArgumentError", "", [[0, 1]], [[1.0]])]),
            ("ParallelDynamicStitch", []),
        )
    ],
    *[
        OpRecord(
            f"Inplace{name}",
            [sample(_M, [2, 0], np.ones((2, 3)))],
            _scattered(ufunc),
            dtypes={"T": ("float32", "int32")},
        )
        for name, ufunc in (("Update", None), ("Add", np.add), ("Sub", np.subtract))
    ],
]
