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

_INDEX_TYPES: dict[str, Sequence[str]] = {"T": ("int32", "int64")}
_SEGMENT_TYPES: dict[str, dict[str, Sequence[str]]] = {
    "Mean": {"T": ("float32", "float64")},
    "Max": {"T": ("float32", "float64", "int32")},
    "Min": {"T": ("float32", "float64", "int32")},
}


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


_SEGMENTS = [sample(_M, [0, 0, 2, 2]), sample(_M[:, 0], [0, 1, 1, 3])]
_UNSORTED = [
    sample(_M, [2, -1, 0, 2], 3),
    sample(_M[:, 0], [0, 1, 1, 0], 2),
    sample(np.zeros((0, 2)), np.zeros((0,)), 2, T="int32"),
]
_SORTED_BAD = [bad("InvalidArgumentError", "", _M, [0, 2, 1, 3]), bad("InvalidArgumentError", "", _M, [0, 1])]


def _segment(reduce: Callable[..., Any], gap: float) -> Callable[..., Any]:
    def reference(x: Any, ids: Any) -> Any:
        rows = [
            reduce(x[ids == i], 0) if (ids == i).any() else np.full(x.shape[1:], gap)
            for i in range(int(ids[-1]) + 1)
        ]
        return np.stack(rows).astype(x.dtype)

    return reference


def _unsorted(reduce: Callable[..., Any], gap: Callable[[Any], Any]) -> Callable[..., Any]:
    def reference(x: Any, ids: Any, count: Any) -> Any:
        rows = [
            reduce(x[ids == i], 0) if (ids == i).any() else np.full(x.shape[1:], gap(x.dtype))
            for i in range(int(count))
        ]
        return np.stack(rows)

    return reference


def _segment_records() -> list[OpRecord]:
    found = []
    for name, reduce, gap in (
        ("Sum", np.sum, 0),
        ("Mean", np.mean, 0),
        ("Prod", np.prod, 1),
        ("Max", np.max, 0),
        ("Min", np.min, 0),
    ):
        dtypes = _SEGMENT_TYPES.get(name, _SUMS)
        found.append(
            OpRecord(
                f"Segment{name}", _SEGMENTS, _segment(reduce, gap), _SORTED_BAD, dtypes, loose=2, partial=True
            )
        )
    for name, reduce, gap_of in (
        ("Sum", np.sum, lambda _: 0),
        ("Prod", np.prod, lambda _: 1),
        ("Max", np.max, lambda d: np.iinfo(d).min),
        ("Min", np.min, lambda d: np.iinfo(d).max),
    ):
        dtypes = _INDEX_TYPES if name in ("Max", "Min") else _SUMS
        wrong = [
            bad("InvalidArgumentError", "7", _M, [0, 1, 7, 2], 3),
            bad("InvalidArgumentError", "-1", _M, [0, 1, 1, 2], -1),
        ]
        found.append(OpRecord(f"UnsortedSegment{name}", _UNSORTED, _unsorted(reduce, gap_of), wrong, dtypes))
    return found


def _sparse_segment(scale: Callable[[int], float]) -> Callable[..., Any]:
    def reference(x: Any, indices: Any, ids: Any, count: Any = None) -> Any:
        rows = int(ids[-1]) + 1 if count is None else int(count)
        result = np.zeros((rows, *x.shape[1:]), x.dtype)
        for i in range(rows):
            picked = x[indices[ids == i]]
            result[i] = picked.sum(0) * scale(len(picked)) if len(picked) else 0
        return result

    return reference


def _sparse_segment_grad(scale: Callable[[int], float]) -> Callable[..., Any]:
    def reference(g: Any, indices: Any, ids: Any, rows: Any) -> Any:
        result = np.zeros((int(rows), *g.shape[1:]), g.dtype)
        for row, segment in zip(indices, ids, strict=True):
            result[row] += g[segment] * scale(int((ids == segment).sum()))
        return result

    return reference


_SCALES = {"Sum": lambda n: 1.0, "Mean": lambda n: 1 / n, "SqrtN": lambda n: 1 / np.sqrt(n)}


def _sparse_segment_records() -> list[OpRecord]:
    picks = [sample(_M, [3, 0, 0, 1], [0, 0, 1, 3])]
    counted = [sample(_M, [3, 0, 0, 1], [0, 0, 1, 3], 6)]
    grads = [sample(_M, [2, 0, 0, 1], [0, 0, 1, 3], 5)]
    dtypes, two = {"T": ("float32", "float64")}, 2.0
    found = []
    for name, scale in _SCALES.items():
        wrong = [
            bad("InvalidArgumentError", "9", _M, [9], [0]),
            bad("InvalidArgumentError", "", _M, [0, 1], [0]),
        ]
        found.append(
            OpRecord(
                f"SparseSegment{name}", picks, _sparse_segment(scale), wrong, dtypes, loose=two, partial=True
            )
        )
        found.append(
            OpRecord(
                f"SparseSegment{name}WithNumSegments",
                counted,
                _sparse_segment(scale),
                dtypes=dtypes,
                loose=two,
            )
        )
        if name != "Sum":
            wrong = [bad("InvalidArgumentError", "9", _M, [9], [0], 5)]
            found.append(
                OpRecord(
                    f"SparseSegment{name}Grad", grads, _sparse_segment_grad(scale), wrong, dtypes, loose=two
                )
            )
    return found


def _space_to_batch(x: Any, block: Any, paddings: Any) -> Any:
    rank = len(block)
    x = np.pad(x, [(0, 0), *map(tuple, paddings), *[(0, 0)] * (x.ndim - rank - 1)])
    return np.concatenate(
        [
            x[(slice(None), *(slice(o, None, int(b)) for o, b in zip(offset, block, strict=True)))]
            for offset in np.ndindex(*map(int, block))
        ]
    )


def _batch_to_space(x: Any, block: Any, crops: Any) -> Any:
    count = int(np.prod(block))
    batch = x.shape[0] // count
    spatial = [n * int(b) for n, b in zip(x.shape[1:], block, strict=False)]
    result = np.zeros((batch, *spatial, *x.shape[1 + len(block) :]), x.dtype)
    for i, offset in enumerate(np.ndindex(*map(int, block))):
        place = (slice(None), *(slice(o, None, int(b)) for o, b in zip(offset, block, strict=True)))
        result[place] = x[i * batch : (i + 1) * batch]
    return result[
        (slice(None), *(slice(int(a), n - int(b)) for (a, b), n in zip(crops, spatial, strict=True)))
    ]


def _space_to_depth(x: Any, *, block_size: int) -> Any:
    n, h, w, c = x.shape
    b = block_size
    return (
        x.reshape(n, h // b, b, w // b, b, c)
        .transpose(0, 1, 3, 2, 4, 5)
        .reshape(n, h // b, w // b, b * b * c)
    )


def _depth_to_space(x: Any, *, block_size: int) -> Any:
    n, h, w, c = x.shape
    b = block_size
    return (
        x.reshape(n, h, w, b, b, c // b // b)
        .transpose(0, 1, 3, 2, 4, 5)
        .reshape(n, h * b, w * b, c // b // b)
    )


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


_IMAGE = np.arange(32.0).reshape(1, 4, 4, 2)
_BLOCKS = [sample(_IMAGE, [2, 2], [[0, 0], [0, 0]]), sample(_IMAGE[:, :3], [2, 2], [[1, 0], [0, 2]])]
_UNBLOCKS = [
    sample(np.arange(32.0).reshape(4, 2, 2, 2), [2, 2], crops)
    for crops in ([[0, 0], [0, 0]], [[1, 0], [0, 1]])
]
_GATHERS = [sample(_M, [2, 0, 2]), sample(_M, [[1], [3]]), sample(_M, 1), sample(_M, np.zeros((0,)))]
_BANDS = [sample(_M, 0, 1), sample(_CUBE, -1, 0), sample(_CUBE, 1, -1)]
_REVERSED = [sample(_CUBE, [0, -1]), sample(_M, np.zeros((0,))), sample(np.zeros((0, 2)), [1])]

RECORDS = [
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
    *_segment_records(),
    *_sparse_segment_records(),
    OpRecord(
        "SpaceToBatchND",
        _BLOCKS,
        _space_to_batch,
        [bad("InvalidArgumentError", "3", _IMAGE, [3, 2], [[0, 0], [0, 0]])],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "BatchToSpaceND",
        _UNBLOCKS,
        _batch_to_space,
        [bad("InvalidArgumentError", "", _IMAGE, [2, 2], [[0, 0], [0, 0]])],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "SpaceToBatch",
        [sample(_IMAGE, [[0, 0], [2, 0]], block_size=2)],
        lambda x, p, *, block_size: _space_to_batch(x, [block_size] * 2, p),
        [bad("InvalidArgumentError", "", _IMAGE, [[1, 0], [0, 0]], block_size=2)],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "BatchToSpace",
        [sample(*_UNBLOCKS[0].inputs[::2], block_size=2)],
        lambda x, c, *, block_size: _batch_to_space(x, [block_size] * 2, c),
        [bad("InvalidArgumentError", "", _IMAGE, [[0, 0], [0, 0]], block_size=2)],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "SpaceToDepth",
        [sample(_IMAGE, block_size=2)],
        _space_to_depth,
        [bad("InvalidArgumentError", "", _IMAGE, block_size=3)],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "DepthToSpace",
        [sample(np.arange(32.0).reshape(1, 2, 2, 8), block_size=2)],
        _depth_to_space,
        [bad("InvalidArgumentError", "", _IMAGE, block_size=2)],
        _T,
        differentiable=True,
    ),
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
