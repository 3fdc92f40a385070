"""The shape of a tensor as a value, and the same elements under another shape."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.oprecords.record import MOVED, OpRecord, Sample, bad, sample, told

_M = np.arange(12.0).reshape(3, 4) - 3
_CUBE = np.arange(24.0).reshape(2, 3, 4)
_NOTHING = np.zeros((0, 4))
_T = {"T": MOVED}
_WORDS = np.array([[b"a", b"bc"], [b"", b"d\0"]], object)


def _squeezed(x: Any, *, squeeze_dims: Any) -> Any:
    return np.squeeze(x, tuple(squeeze_dims) or None)


def _shape_of(x: Any) -> Any:
    return np.array(x.shape, np.int64)


RECORDS: Final = [
    OpRecord("Shape", [sample(_CUBE), sample(1.0), sample(_NOTHING)], _shape_of, dtypes=_T),
    OpRecord(
        "ShapeN", [sample([_CUBE, 1.0]), sample([_NOTHING])], lambda xs: [_shape_of(x) for x in xs], dtypes=_T
    ),
    OpRecord("Size", [sample(_CUBE), sample(1.0), sample(_NOTHING)], np.size, dtypes=_T),
    OpRecord("Rank", [sample(_CUBE), sample(1.0)], np.ndim, dtypes=_T),
    OpRecord(
        "Reshape",
        [
            sample(_M, [2, 6]),
            sample(_M, [-1, 2]),
            sample(_NOTHING, [0, 7]),
            sample([5.0], np.zeros((0,))),
            Sample((_WORDS, [4]), {"T": "string"}),
        ],
        lambda x, shape: x.reshape(tuple(shape)),
        [bad("InvalidArgumentError", "5", _M, [5, 2]), bad("InvalidArgumentError", "-1", _M, [-1, -1])],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "ExpandDims",
        [sample(_M, 0), sample(_M, -1), sample(2.0, 0)],
        lambda x, d: np.expand_dims(x, int(d)),
        [bad("InvalidArgumentError", "4", _M, 4)],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "Squeeze",
        [sample(_M[:1, :1]), sample(_M[:1], squeeze_dims=[0]), sample([[[1.0]]], squeeze_dims=[-1, 0])],
        _squeezed,
        [bad("InvalidArgumentError", "3", _M, squeeze_dims=[0])],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "Tile",
        [sample(_M, [2, 1]), sample(_M, [0, 2]), sample(_NOTHING, [3, 1]), sample(1.0, np.zeros((0,)))],
        lambda x, m: np.tile(x, tuple(m)),
        [bad("InvalidArgumentError", "-1", _M, [1, -1]), bad("InvalidArgumentError", "", _M, [1])],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "TileGrad",
        [sample(np.arange(24.0).reshape(4, 6), [2, 3])],
        lambda g, m: g.reshape(2, 2, 3, 2).sum((0, 2)),
        dtypes={"T": ("float32", "float64", "int32")},
        partial=True,
        differentiable=True,
    ),
    OpRecord(
        "BroadcastTo",
        [sample([1.0, 2.0], [3, 2]), sample(1.0, [2]), sample(1.0, [0, 2])],
        lambda x, shape: np.broadcast_to(x, tuple(shape)),
        [bad("InvalidArgumentError", "3", _M, [3, 3])],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "BroadcastArgs",
        [sample([2, 1], [3]), sample(np.zeros((0,)), [2, 3]), told([[2, 1], [-4]], [[2, -4]], {})],
        lambda a, b: (
            np.broadcast_shapes(tuple(a), tuple(b)) and [np.array(np.broadcast_shapes(tuple(a), tuple(b)))]
        ),
        [bad("InvalidArgumentError", "", [2], [3])],
    ),
]

#: {why they have no record: ops}
EXCUSED: Final = {
    "not yet; tests/kernels and tests/conformance compare them with recorded values": """
        QuantizedReshape
    """,
}
