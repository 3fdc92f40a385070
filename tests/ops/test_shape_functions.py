"""Shape functions of each family: full and partial shapes, constant inputs, contradictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flowengine.core.errors import InvalidArgumentError

Infer = Callable[..., Any]


def ints(*values: int) -> Any:
    return np.array(values, np.int32)


def one(value: int) -> Any:
    return np.int32(value)


CASES: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    # array
    ("Placeholder", (), {"dtype": "int32", "shape": [None, 2]}, [None, 2]),
    ("Shape", ([2, None],), {}, [2]),
    ("Shape", (None,), {}, [None]),
    ("Size", (None,), {}, []),
    ("Reshape", ([2, 6], ints(3, -1)), {}, [3, 4]),
    ("Reshape", ([None, 6], ints(3, -1)), {}, [3, None]),
    ("Reshape", (None, ints(3, 4)), {}, [3, 4]),
    ("Reshape", ([0, 6], ints(0, -1)), {}, [0, None]),
    ("ExpandDims", ([2, 3], one(1)), {}, [2, 1, 3]),
    ("ExpandDims", ([2, 3], one(-1)), {}, [2, 3, 1]),
    ("Squeeze", ([1, 2, 1],), {}, [2]),
    ("Squeeze", ([1, 2, None],), {}, None),
    ("Squeeze", ([1, 2, None],), {"squeeze_dims": [-1]}, [1, 2]),
    ("Fill", (ints(2, 3), np.float32(1)), {}, [2, 3]),
    ("EnsureShape", ([None, 3],), {"shape": [2, None]}, [2, 3]),
    ("Bitcast", ([2, 3],), {"type": "uint8"}, [2, 3, 4]),
    ("Bitcast", ([2, 2],), {"type": "float64"}, [2]),
    ("IdentityN", ([[2], [None, 3]],), {}, [[2], [None, 3]]),
    # layout
    ("Transpose", ([2, 3, 4], ints(2, 0, 1)), {}, [4, 2, 3]),
    ("Transpose", (None, ints(1, 0)), {}, [None, None]),
    ("ConcatV2", ([[2, 3], [None, 3]], one(0)), {}, [None, 3]),
    ("ConcatV2", ([[2, 3], [2, 4], [None, None]], one(-1)), {}, [2, None]),
    ("ConcatV2", ([[2, 3], [5, None]], one(0)), {}, [7, 3]),
    ("Pack", ([[2, None], [None, 3]],), {"axis": 1}, [2, 2, 3]),
    ("Pack", ([[2], [2]],), {"axis": -1}, [2, 2]),
    ("Unpack", ([3, 2],), {"num": 3}, [[2], [2], [2]]),
    ("Unpack", ([3, 2],), {"num": 2, "axis": -1}, [[3], [3]]),
    ("Split", (one(1), [2, 6]), {"num_split": 3}, [[2, 2]] * 3),
    ("SplitV", ([2, 6], ints(1, -1), one(1)), {"num_split": 2}, [[2, 1], [2, 5]]),
    ("Tile", ([2, None], ints(3, 2)), {}, [6, None]),
    ("Pad", ([2, None], np.array([[1, 2], [0, 0]], np.int32)), {}, [5, None]),
    ("MirrorPad", ([2, 3], np.array([[1, 1], [0, 2]], np.int32)), {"mode": "REFLECT"}, [4, 5]),
    ("BroadcastTo", ([1, 3], ints(2, 3)), {}, [2, 3]),
    ("SpaceToDepth", ([1, 4, 6, 3],), {"block_size": 2}, [1, 2, 3, 12]),
    ("DepthToSpace", ([1, 2, 3, 12],), {"block_size": 2}, [1, 4, 6, 3]),
    ("DepthToSpace", ([1, 12, 2, 3],), {"block_size": 2, "data_format": "NCHW"}, [1, 3, 4, 6]),
    (
        "SpaceToBatchND",
        ([1, 4, 5, 3], ints(2, 3), np.array([[0, 0], [1, 0]], np.int32)),
        {},
        [6, 2, 2, 3],
    ),
    (
        "BatchToSpaceND",
        ([6, 2, 2, 3], ints(2, 3), np.array([[0, 0], [1, 0]], np.int32)),
        {},
        [1, 4, 5, 3],
    ),
    # slicing and indexing
    ("Slice", ([4, 5], ints(1, 2), ints(2, -1)), {}, [2, 3]),
    ("Slice", ([4, None], ints(1, 2), ints(2, -1)), {}, [2, None]),
    ("StridedSlice", ([4, 5, 6], ints(1), ints(3), ints(1)), {}, [2, 5, 6]),
    (
        "StridedSlice",
        ([4, 5], ints(0, 1), ints(0, 2), ints(1, 1)),
        {"shrink_axis_mask": 2, "end_mask": 1},
        [4],
    ),
    ("StridedSlice", ([4, 5], ints(0, 0), ints(0, 1), ints(1, 1)), {"new_axis_mask": 1}, [1, 1, 5]),
    (
        "StridedSlice",
        ([4, 5, 6], ints(0, 2), ints(0, 4), ints(1, 1)),
        {"ellipsis_mask": 1},
        [4, 5, 2],
    ),
    ("StridedSlice", ([10], ints(-1), ints(0), ints(-3)), {"end_mask": 1}, [4]),
    ("Gather", ([5, 3], ints(0, 1)), {}, [2, 3]),
    ("GatherV2", ([2, 5, 3], np.zeros((4, 6), np.int32), one(1)), {}, [2, 4, 6, 3]),
    ("GatherV2", ([2, 5, 3], np.zeros((2, 6), np.int32), one(1)), {"batch_dims": 1}, [2, 6, 3]),
    ("GatherNd", ([2, 5, 3], np.zeros((7, 2), np.int32)), {}, [7, 3]),
    ("ScatterNd", (np.zeros((4, 1), np.int32), [4, 3], ints(8, 3)), {}, [8, 3]),
    ("OneHot", (np.zeros((2, 3), np.int32), one(5), np.float32(1), np.float32(0)), {}, [2, 3, 5]),
    ("OneHot", (np.zeros((2, 3), np.int32), one(5), np.float32(1), np.float32(0)), {"axis": 0}, [5, 2, 3]),
    ("Unique", ([7],), {}, [[None], [7]]),
    ("Where", ([2, 3],), {}, [None, 2]),
    # mathematics
    ("Add", ([2, 1], [3]), {}, [2, 3]),
    ("Add", ([None, 1], [5, 3]), {}, [5, 3]),
    ("Add", ([None], [None]), {}, [None]),
    ("Add", ([None], [1]), {}, [None]),
    ("Add", (None, [2]), {}, None),
    ("AddN", ([[2, None], [None, 3]],), {}, [2, 3]),
    ("Range", (one(3), one(18), one(4)), {}, [4]),
    ("Range", (one(5), one(0), one(-2)), {}, [3]),
    ("LinSpace", (np.float32(0), np.float32(1), one(5)), {}, [5]),
    ("SelectV2", (np.array([[True], [False]]), [3], []), {}, [2, 3]),
    ("Select", (np.array([True, False]), [None, 3], [None, None]), {}, [2, 3]),
    ("Sum", ([2, 3, 4], ints(0, -1)), {}, [3]),
    ("Sum", ([2, 3, 4], ints(0, -1)), {"keep_dims": True}, [1, 3, 1]),
    ("Max", ([2, 3, 4], ints()), {}, [2, 3, 4]),
    ("ArgMax", ([2, 3, 4], one(1)), {}, [2, 4]),
    ("UnsortedSegmentSum", ([4, 3], ints(0, 1, 0, 2), one(5)), {}, [5, 3]),
    ("SegmentSum", ([4, 3], ints(0, 0, 1, 2)), {}, [None, 3]),
    ("MatMul", ([2, 3], [3, None]), {}, [2, None]),
    ("MatMul", ([3, 2], [4, 3]), {"transpose_a": True, "transpose_b": True}, [2, 4]),
    ("BatchMatMulV2", ([5, 1, 2, 3], [4, 3, 6]), {}, [5, 4, 2, 6]),
    ("Diag", ([2, 3],), {}, [2, 3, 2, 3]),
    ("MatrixDiag", ([2, 3],), {}, [2, 3, 3]),
    ("MatrixDiagPart", ([2, 3, 4],), {}, [2, 3]),
    ("DynamicPartition", ([4, 3], ints(0, 1, 0, 1)), {"num_partitions": 2}, [[None, 3], [None, 3]]),
    ("DynamicStitch", ([ints(0, 2), ints(1)], [[2, 3], [1, 3]]), {}, [3, 3]),
    # networks
    (
        "Conv2D",
        ([8, 28, 28, 1], [5, 5, 1, 32]),
        {"strides": [1, 1, 1, 1], "padding": "SAME"},
        [8, 28, 28, 32],
    ),
    (
        "Conv2D",
        ([None, 28, 28, 1], [5, 5, 1, 32]),
        {"strides": [1, 2, 2, 1], "padding": "VALID"},
        [None, 12, 12, 32],
    ),
    (
        "Conv2D",
        ([8, 3, 10, 10], [3, 3, 3, 4]),
        {"strides": [1, 1, 1, 1], "padding": "VALID", "data_format": "NCHW", "dilations": [1, 1, 2, 2]},
        [8, 4, 6, 6],
    ),
    (
        "Conv2D",
        ([1, 5, 5, 1], [3, 3, 1, 1]),
        {"strides": [1, 1, 1, 1], "padding": "EXPLICIT", "explicit_paddings": [0, 0, 1, 2, 0, 1, 0, 0]},
        [1, 6, 4, 1],
    ),
    (
        "DepthwiseConv2dNative",
        ([1, 5, 5, 3], [3, 3, 3, 2]),
        {"strides": [1, 1, 1, 1], "padding": "VALID"},
        [1, 3, 3, 6],
    ),
    (
        "MaxPool",
        ([8, 13, 13, 4],),
        {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"},
        [8, 7, 7, 4],
    ),
    (
        "AvgPool",
        ([8, 4, 13, 13],),
        {"ksize": [1, 1, 2, 2], "strides": [1, 1, 2, 2], "padding": "VALID", "data_format": "NCHW"},
        [8, 4, 6, 6],
    ),
    ("BiasAdd", ([None, 3], [3]), {}, [None, 3]),
    ("BiasAddGrad", ([2, 5, 3],), {}, [3]),
    ("BiasAddGrad", ([2, 5, 3, 3],), {"data_format": "NCHW"}, [5]),
    ("SoftmaxCrossEntropyWithLogits", ([None, 10], [4, 10]), {}, [[4], [4, 10]]),
    ("SparseSoftmaxCrossEntropyWithLogits", ([None, 10], ints(1, 2, 3)), {}, [[3], [3, 10]]),
    ("TopKV2", ([4, 10], one(3)), {}, [[4, 3], [4, 3]]),
    ("L2Loss", ([4, 10],), {}, []),
    ("FusedBatchNorm", ([2, 4, 4, 3], [3], [3], [0], [0]), {}, [[2, 4, 4, 3], [3], [3], [3], [3]]),
    ("ResizeBilinear", ([2, 4, 4, 3], ints(8, 9)), {}, [2, 8, 9, 3]),
    ("RandomUniform", (ints(2, 3),), {"dtype": "float32"}, [2, 3]),
    ("Multinomial", ([4, 10], one(6)), {}, [4, 6]),
    # linear algebra, sparse, strings
    ("Svd", ([2, 3, 5],), {}, [[2, 3], [2, 3, 3], [2, 5, 3]]),
    ("Qr", ([5, 3],), {"full_matrices": True}, [[5, 5], [5, 3]]),
    ("SelfAdjointEigV2", ([4, 4],), {"compute_v": False}, [[4], None]),
    ("MatrixSolve", ([4, 4], [4, 2]), {}, [4, 2]),
    ("Einsum", ([[2, 3], [3, None]],), {"equation": "ij,jk->ki"}, [None, 2]),
    ("Einsum", ([[7, 2, 3], [1, 3, 4]],), {"equation": "...ij,...jk->...ik"}, [7, 2, 4]),
]


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "expected"), CASES, ids=[f"{c[0]}{i}" for i, c in enumerate(CASES)]
)
def test_inferred_shape(
    infer: Infer, op: str, inputs: tuple[Any, ...], attrs: dict[str, Any], expected: Any
) -> None:
    shapes = infer(op, *inputs, **attrs)
    assert (shapes if len(shapes) > 1 else shapes[0]) == expected


FAULTS: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("Add", ([2], [3]), {}, r"Incompatible shapes: \[2\] vs. \[3\]"),
    ("MatMul", ([2, 3], [4, 5]), {}, "must be equal, but are 3 and 4"),
    ("MatMul", ([2, 3, 4], [4, 5]), {}, "must be rank 2 but is rank 3"),
    ("Reshape", ([2, 3], ints(4, 2)), {}, "6 elements to shape"),
    ("Reshape", ([2, 3], ints(4, -1)), {}, "not a multiple of 4"),
    ("Squeeze", ([2, 3],), {"squeeze_dims": [0]}, "Can not squeeze dim"),
    ("Squeeze", ([2, 3],), {"squeeze_dims": [2]}, "squeeze_dims must be in the range"),
    ("ExpandDims", ([2], one(3)), {}, r"dim must be in the range \[-2, 2\), but is 3"),
    ("ConcatV2", ([[2, 3], [2, 4]], one(0)), {}, "match in all but axis 0"),
    ("ConcatV2", ([[2, 3], [2, 4]], one(2)), {}, "concat dimension must be in the range"),
    ("Pack", ([[2], [3]],), {}, "must be equal"),
    ("Unpack", ([3],), {"num": 2}, "3 and 2"),
    ("Split", (one(0), [5]), {"num_split": 2}, "5 is not a multiple of 2"),
    ("SplitV", ([6], ints(1, 2), one(0)), {"num_split": 2}, "do not add up to 6"),
    ("Slice", ([4], ints(3), ints(2)), {}, "do not lie within the dimension of 4"),
    ("StridedSlice", ([4], ints(0), ints(1), ints(0)), {}, "must be non-zero"),
    ("StridedSlice", ([4], ints(5), ints(6), ints(1)), {"shrink_axis_mask": 1}, "out of bounds"),
    ("StridedSlice", ([4], ints(0, 0), ints(1, 1), ints(1, 1)), {}, "Index out of range using input dim 1"),
    ("Transpose", ([2, 3], ints(0, 0)), {}, "no permutation"),
    ("Sum", ([2, 3], ints(2)), {}, "reduction axis must be in the range"),
    ("Range", (one(0), one(5), one(0)), {}, "delta != 0"),
    ("Range", (one(5), one(0), one(1)), {}, "start <= limit"),
    ("Fill", (np.zeros((1, 2), np.int32), np.float32(0)), {}, "must be rank 1"),
    ("GatherNd", ([2, 3], np.zeros((4, 3), np.int32)), {}, "must be <= params.rank"),
    ("BiasAdd", ([2, 3], [4]), {}, "3 and 4"),
    ("SparseSoftmaxCrossEntropyWithLogits", ([2, 3], ints(1)), {}, "must be equal, but are 2 and 1"),
    (
        "Conv2D",
        ([1, 2, 2, 1], [5, 5, 1, 1]),
        {"strides": [1, 1, 1, 1], "padding": "VALID"},
        "Computed output size would be negative: -2 .input_size: 2, effective_filter_size: 5, stride: 1.",
    ),
    ("Conv2D", ([1, 4, 4, 3], [2, 2, 2, 1]), {"strides": [1] * 4, "padding": "SAME"}, "not a multiple"),
    ("TopKV2", ([4], one(5)), {}, ">= k = 5 but is 4"),
    ("EnsureShape", ([2],), {"shape": [3]}, "not compatible"),
    ("Cholesky", ([2, 3],), {}, "must be equal, but are 3 and 2"),
]


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "message"), FAULTS, ids=[f"{c[0]}{i}" for i, c in enumerate(FAULTS)]
)
def test_contradiction_is_an_error_with_the_values(
    infer: Infer, op: str, inputs: tuple[Any, ...], attrs: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        infer(op, *inputs, **attrs)
    assert caught.value.op_type == op
    assert caught.value.creation_site is not None


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "expected"), CASES, ids=[f"{c[0]}{i}" for i, c in enumerate(CASES)]
)
def test_knowing_less_of_the_inputs_never_says_something_else(
    infer: Infer, op: str, inputs: tuple[Any, ...], attrs: dict[str, Any], expected: Any
) -> None:
    """With unknown inputs the answer is one that the more precise answer is an instance of."""
    precise = infer(op, *inputs, **attrs)
    for forgotten, given in enumerate(inputs):
        dtypes: list[Any] = []
        if isinstance(given, np.ndarray | np.generic):
            # Not constant any more, but of the same type and shape.
            vaguer: Any = list(given.shape)
            dtypes = ["float32"] * forgotten + [given.dtype]
        elif any(isinstance(g, list | np.ndarray) for g in given or ()):
            continue
        else:
            vaguer = None
        replaced = (*inputs[:forgotten], vaguer, *inputs[forgotten + 1 :])
        vague = infer(op, *replaced, dtypes=dtypes, **attrs)
        for less, more in zip(vague, precise, strict=True):
            assert _generalises(less, more), (forgotten, less, more)


def _generalises(less: Any, more: Any) -> bool:
    if less is None:
        return True
    if more is None or len(less) != len(more):
        return False
    return all(a is None or a == b for a, b in zip(less, more, strict=True))
