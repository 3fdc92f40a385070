"""Ops that make, reshape, join, cut and pad tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.oprecords.record import MOVED, OpRecord, Sample, bad, sample, strings

_M = np.arange(12.0).reshape(3, 4) - 3
_CUBE = np.arange(24.0).reshape(2, 3, 4)
_NOTHING = np.zeros((0, 4))
_T = {"T": MOVED}
_WORDS = np.array([[b"a", b"bc"], [b"", b"d\0"]], object)


def _squeezed(x: Any, *, squeeze_dims: Any) -> Any:
    return np.squeeze(x, tuple(squeeze_dims) or None)


def _strided(x: Any, begin: Any, end: Any, strides: Any, **masks: int) -> Any:
    return x[_index(begin, end, strides, masks)]


def _index(begin: Any, end: Any, strides: Any, masks: Any) -> tuple[Any, ...]:
    index: list[Any] = []
    for i, (b, e, s) in enumerate(zip(begin, end, strides, strict=True)):
        bit = 1 << i
        if masks["ellipsis_mask"] & bit:
            index.append(Ellipsis)
        elif masks["new_axis_mask"] & bit:
            index.append(None)
        elif masks["shrink_axis_mask"] & bit:
            index.append(int(b))
        else:
            start = None if masks["begin_mask"] & bit else int(b)
            stop = None if masks["end_mask"] & bit else int(e)
            index.append(slice(start, stop, int(s)))
    return tuple(index)


_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


class _WithMasks:
    """A reference that is told the masks of a strided slice."""

    attr_names = _MASKS

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *inputs: Any, **masks: int) -> Any:
        return self.function(*inputs, **masks)


def _strided_grad(shape: Any, begin: Any, end: Any, strides: Any, dy: Any, **masks: int) -> Any:
    result = np.zeros(tuple(shape), dy.dtype)
    result[_index(begin, end, strides, masks)] = dy
    return result


def _strided_update(x: Any, begin: Any, end: Any, strides: Any, value: Any, **masks: int) -> Any:
    x[_index(begin, end, strides, masks)] = value
    return x


def _offsets(axis: Any, shapes: Any) -> list[Any]:
    at, result = 0, []
    for shape in shapes:
        offset = np.zeros_like(shape)
        offset[int(axis)] = at
        at += shape[int(axis)]
        result.append(offset)
    return result


def _mirror(x: Any, paddings: Any, *, mode: bytes) -> Any:
    return np.pad(x, [tuple(p) for p in paddings], "reflect" if mode == b"REFLECT" else "symmetric")


def _mirror_grad(g: Any, paddings: Any, *, mode: bytes) -> Any:
    """Each element of the padded gradient goes back to the element of which it was a copy."""
    inner = tuple(n - int(p.sum()) for n, p in zip(g.shape, paddings, strict=True))
    source = _mirror(np.arange(int(np.prod(inner))).reshape(inner), paddings, mode=mode)
    result = np.zeros(int(np.prod(inner)), g.dtype)
    np.add.at(result, source.ravel(), g.ravel())
    return result.reshape(inner)


def _shape_of(x: Any) -> Any:
    return np.array(x.shape, np.int64)


def _split(count: int, axis: Any, x: Any) -> Any:
    return np.split(x, count, int(axis))


_ONES = [1, 1]
_SLICES = [
    sample(_M, [0, 1], [2, 3], _ONES),
    sample(_M, [2, -1], [0, 0], [-1, -2]),
    sample(_M, [1, 0], [2, 2], _ONES, shrink_axis_mask=1, begin_mask=2),
    sample(_CUBE, [0, 0, 1], [0, 0, 3], [1, 1, 1], ellipsis_mask=1, new_axis_mask=2),
    sample(_M, [2, 0], [1, 4], _ONES),
]
_STRIDE_ZERO = bad("InvalidArgumentError", "zero", _M, [0, 0], [1, 1], [1, 0])
_PADS = [sample(_M, [[1, 2], [0, 1]]), sample(_M, [[0, 0], [0, 0]]), sample(_NOTHING, [[1, 1], [0, 0]])]
_MIRRORS = [sample(_M, [[1, 2], [0, 1]], mode=mode) for mode in ("REFLECT", "SYMMETRIC")]


def _axis_places(x: Any, *, src_format: Any, dst_format: Any) -> Any:
    return np.vectorize(lambda axis: dst_format.index(src_format[int(axis)]), otypes=[x.dtype])(x)


RECORDS = [
    OpRecord(
        "Fill",
        [sample([2, 3], 7.0), sample(np.zeros((0,)), 1.0), sample([0, 2], 1.0)],
        lambda dims, value: np.full(tuple(dims), value),
        [bad("InvalidArgumentError", "-1", [-1], 1.0), bad("InvalidArgumentError", "", [[1]], 1.0)],
        _T,
    ),
    OpRecord(
        "Empty",
        [sample([2, 0], init=True, dtype="float32"), sample([3], init=True, dtype="int32")],
        lambda shape: np.zeros(tuple(shape)),
        [bad("InvalidArgumentError", "-1", [-1])],
        {"dtype": MOVED},
    ),
    OpRecord(
        "PlaceholderWithDefault",
        [sample(_M, shape=[None, 4])],
        lambda x: x,
        dtypes={"dtype": MOVED},
        partial=True,
    ),
    OpRecord(
        "EnsureShape",
        [sample(_M, shape=[None, 4]), sample(_M, shape=None)],
        lambda x: x,
        [bad("InvalidArgumentError", "[3,4]", _M, shape=[2, None])],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "CheckNumerics",
        [sample([1.0, -2.0], message="m"), sample(_NOTHING, message="m")],
        lambda x: x,
        [
            bad("InvalidArgumentError", "here : Tensor had NaN", [1.0, np.nan], message="here"),
            bad("InvalidArgumentError", "Inf", [1.0, np.inf], message="here"),
        ],
        differentiable=True,
    ),
    OpRecord("IdentityN", [sample([np.ones(1, np.float32), np.int32(2), strings(b"x")])], lambda xs: xs),
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
        "Transpose",
        [sample(_CUBE, [2, 0, 1]), sample(_M, [0, 1]), sample(1.0, np.zeros((0,)))],
        lambda x, p: np.transpose(x, tuple(p)),
        [bad("InvalidArgumentError", "", _M, [0, 0]), bad("InvalidArgumentError", "", _M, [0])],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "ConjugateTranspose",
        [sample(_CUBE, [2, 0, 1])],
        lambda x, p: np.conj(np.transpose(x, tuple(p))),
        [bad("InvalidArgumentError", "", _M, [0, 2])],
        {"T": ("float32", "complex64", "complex128")},
        differentiable=True,
    ),
    OpRecord(
        "InvertPermutation",
        [sample([3, 4, 0, 2, 1]), sample(np.zeros((0,)))],
        lambda p: np.argsort(p),
        [bad("InvalidArgumentError", "3", [0, 3]), bad("InvalidArgumentError", "", [0, 0])],
    ),
    OpRecord(
        "ConcatV2",
        [
            sample([_M, _M[:1]], 0),
            sample([_M, _M], -1),
            sample([_NOTHING, _M], 0),
        ],
        lambda xs, axis: np.concatenate(xs, int(axis)),
        [bad("InvalidArgumentError", "", [_M, _M[:, :2]], 0), bad("InvalidArgumentError", "2", [_M, _M], 2)],
        {"T": MOVED},
        differentiable=True,
    ),
    OpRecord(
        "Concat",
        [sample(0, [_M, _M[:1]])],
        lambda axis, xs: np.concatenate(xs, int(axis)),
        [bad("InvalidArgumentError", "", 0, [_M, _M[:, :2]])],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "ParallelConcat", [sample([_M[:1], _M[1:2]], shape=[2, 4])], lambda xs: np.concatenate(xs), dtypes=_T
    ),
    OpRecord(
        "ConcatOffset",
        [sample(1, [[2, 3], [2, 5], [2, 1]])],
        _offsets,
        [bad("InvalidArgumentError", "", 0, [[2, 3], [2, 5]])],
    ),
    OpRecord(
        "Pack",
        [sample([_M, _M]), sample([_M, _M], axis=-1), sample([1.0, 2.0]), sample([_NOTHING])],
        lambda xs, *, axis: np.stack(xs, axis),
        [bad("InvalidArgumentError", "", [_M, _M[:2]]), bad("InvalidArgumentError", "4", [_M, _M], axis=4)],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "Unpack",
        [sample(_M, num=3), sample(_M, num=4, axis=-1), sample(np.zeros((2, 0)), num=2)],
        lambda x, *, axis: list(np.moveaxis(x, axis, 0)),
        [bad("InvalidArgumentError", "2", _M, num=2)],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "Split",
        [sample(1, _M, num_split=2), sample(-2, _M, num_split=3)],
        lambda axis, x, *, num_split: _split(num_split, axis, x),
        [bad("InvalidArgumentError", "3", 1, _M, num_split=3)],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "SplitV",
        [sample(_M, [1, 3], 1, num_split=2), sample(_M, [2, -1, 0], 0, num_split=3)],
        lambda x, sizes, axis: np.split(
            x,
            np.cumsum(np.where(sizes < 0, x.shape[int(axis)] - sizes[sizes > 0].sum(), sizes))[:-1],
            int(axis),
        ),
        [bad("InvalidArgumentError", "", _M, [1, 1], 1, num_split=2)],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "Slice",
        [sample(_M, [1, 0], [2, 3]), sample(_M, [0, 2], [-1, -1]), sample(_M, [3, 0], [0, 4])],
        lambda x, b, s: x[
            tuple(slice(int(i), None if n < 0 else int(i + n)) for i, n in zip(b, s, strict=True))
        ],
        [
            bad("InvalidArgumentError", "5", _M, [1, 0], [2, 5]),
            bad("InvalidArgumentError", "4", _M, [4, 0], [0, 1]),
        ],
        _T,
        differentiable=True,
    ),
    OpRecord("StridedSlice", _SLICES, _WithMasks(_strided), [_STRIDE_ZERO], _T, differentiable=True),
    OpRecord(
        "StridedSliceGrad",
        [
            sample([3, 4], [0, 1], [2, 3], _ONES, np.ones((2, 2))),
            sample([3, 4], [2, 0], [0, 4], [-1, 2], np.ones((2, 2))),
        ],
        _WithMasks(_strided_grad),
        [bad("InvalidArgumentError", "", [3, 4], [0, 1], [2, 3], _ONES, np.ones((3, 2)))],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "TensorStridedSliceUpdate",
        [sample(_M, [0, 1], [2, 3], _ONES, np.ones((2, 2)))],
        _WithMasks(_strided_update),
        dtypes=_T,
    ),
    OpRecord(
        "StridedSliceAssign",
        [sample(_M, [0, 1], [2, 3], _ONES, np.ones((2, 2)))],
        _WithMasks(_strided_update),
        dtypes=_T,
        updates=True,
    ),
    OpRecord(
        "ResourceStridedSliceAssign",
        [sample(_M, [0, 1], [2, 3], _ONES, np.ones((2, 2)))],
        _WithMasks(_strided_update),
        dtypes=_T,
        updates=True,
    ),
    OpRecord(
        "Pad",
        _PADS,
        lambda x, p: np.pad(x, [tuple(i) for i in p]),
        [
            bad("InvalidArgumentError", "-1", _M, [[-1, 0], [0, 0]]),
            bad("InvalidArgumentError", "", _M, [[1, 0]]),
        ],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "PadV2",
        [Sample((*each.inputs, 9.0)) for each in _PADS],
        lambda x, p, v: np.pad(x, [tuple(i) for i in p], constant_values=v),
        [bad("InvalidArgumentError", "-1", _M, [[-1, 0], [0, 0]], 1.0)],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "MirrorPad",
        _MIRRORS,
        _mirror,
        [bad("InvalidArgumentError", "3", _M, [[3, 0], [0, 0]], mode="REFLECT")],
        _T,
        differentiable=True,
    ),
    OpRecord(
        "MirrorPadGrad",
        [sample(np.ones((6, 5)), *m.inputs[1:], **m.attrs) for m in _MIRRORS],
        _mirror_grad,
        dtypes={"T": ("float32", "int32", "float64")},
        partial=True,
    ),
    OpRecord(
        "Bitcast",
        [sample([[1.0, -2.0]], T="float32", type="int32"), sample([1.0], T="float64", type="float32")],
        lambda x: x,
        only=[{"T": "float32", "type": "int32"}],
        check=lambda outputs, inputs: np.testing.assert_equal(outputs[0].tobytes(), inputs[0].tobytes()),
        bad=[bad("InvalidArgumentError", "", [1, 2, 3], T="int32", type="float64")],
    ),
    OpRecord(
        "DataFormatDimMap",
        [
            sample([0, 1, 2, 3, -1, -4], src_format="NHWC", dst_format="NCHW"),
            sample([[2], [-2]], src_format="NCHW", dst_format="HWNC"),
            sample(np.zeros((0,)), src_format="NHWC", dst_format="NCHW"),
        ],
        _axis_places,
        [bad("InvalidArgumentError", "4", [4], src_format="NHWC", dst_format="NCHW")],
    ),
    OpRecord(
        "DataFormatVecPermute",
        [
            sample([7, 8, 9, 10], src_format="NHWC", dst_format="NCHW"),
            sample([[0, 1], [2, 3], [4, 5], [6, 7]], src_format="NCHW", dst_format="NHWC"),
        ],
        lambda x, *, src_format, dst_format: np.stack([x[src_format.index(axis)] for axis in dst_format]),
        [
            bad("InvalidArgumentError", "[3]", [7, 8, 9], src_format="NHWC", dst_format="NCHW"),
            bad("InvalidArgumentError", "NCHH", [7, 8, 9, 1], src_format="NHWC", dst_format="NCHH"),
        ],
    ),
]
