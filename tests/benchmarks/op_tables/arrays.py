"""Ops that move elements, and those that tell shapes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.benchmarks.op_tables.bench import Bench, One, called, images, kept, matrix, named, rows, unary


def _square(b: Bench, n: int) -> Any:
    return b.floats(matrix(n), matrix(n))


def _permutation(b: Bench, n: int) -> Any:
    return b.variable(b.random.permutation(n).astype(np.int32))


def _parts(b: Bench, n: int) -> tuple[Any, Any]:
    """Rows, and for each which of two parts it goes to."""
    return b.floats(n // 4, 4), b.variable(np.arange(n // 4, dtype=np.int32) % 2)


def _stitched(b: Bench, n: int) -> tuple[Any, ...]:
    """Return the destination indices of the rows of two parts, and the parts."""
    places = b.random.permutation(n // 4).astype(np.int32)
    half = len(places) // 2
    parts = [b.floats(half, 4), b.floats(len(places) - half, 4)]
    return b.variable(places[:half]), b.variable(places[half:]), *parts


OPS: Final[dict[str, One]] = {
    "Reshape": kept(lambda b, n: (b.floats(n), b.graph.constant([-1, 4])), called("Reshape")),
    "NoOp": lambda b, n: b.ops.NoOp(),
    "Range": kept(lambda b, n: (b.variable(np.int32(n)),), lambda b, n: b.ops.Range(0, b.ops.Identity(n), 1)),
    "Shape": unary("Shape"),
    "ShapeN": kept(lambda b, n: (b.floats(n), b.floats(n)), lambda b, x, y: b.ops.ShapeN([x, y])),
    "Size": unary("Size"),
    "Rank": unary("Rank"),
    "Fill": kept(lambda b, n: (b.variable(np.array([n], np.int32)),), lambda b, s: b.ops.Fill(s, 1.0)),
    "ConcatV2": kept(
        lambda b, n: (b.floats(n // 4, 2), b.floats(n // 4, 2)), lambda b, x, y: b.ops.ConcatV2([x, y], 1)
    ),
    "ConcatOffset": kept(
        lambda b, n: tuple(b.variable(np.array([n, size], np.int32)) for size in (2, 3)),
        lambda b, x, y: b.ops.ConcatOffset(1, [x, y]),
    ),
    "BroadcastGradientArgs": kept(
        lambda b, n: (b.variable(np.array([n, 1, 3], np.int32)), b.variable(np.array([7, 3], np.int32))),
        called("BroadcastGradientArgs"),
    ),
    "StridedSlice": kept(lambda b, n: (b.floats(n),), lambda b, x: b.ops.StridedSlice(x, [1], [-1], [2])),
    "StridedSliceGrad": kept(
        lambda b, n: (b.floats(n // 2),),
        lambda b, dy: b.ops.StridedSliceGrad([2 * dy.shape.dims[0]], [0], [2 * dy.shape.dims[0]], [2], dy),
    ),
    "Slice": kept(lambda b, n: (b.floats(n),), lambda b, x: b.ops.Slice(x, [1], [-1])),
    "Split": kept(lambda b, n: (b.floats(n),), lambda b, x: b.ops.Split(0, x, num_split=2)),
    "Unpack": kept(lambda b, n: (b.floats(4, n // 4),), lambda b, x: b.ops.Unpack(x, num=4)),
    "Pack": kept(lambda b, n: (b.floats(n), b.floats(n)), lambda b, x, y: b.ops.Pack([x, y])),
    "ExpandDims": kept(lambda b, n: (b.floats(n),), lambda b, x: b.ops.ExpandDims(x, 0)),
    "Squeeze": kept(lambda b, n: (b.floats(1, n),), lambda b, x: b.ops.Squeeze(x)),
    "Tile": kept(lambda b, n: (b.floats(n // 4, 2),), lambda b, x: b.ops.Tile(x, [1, 2])),
    "Transpose": kept(lambda b, n: (_square(b, n),), lambda b, x: b.ops.Transpose(x, [1, 0])),
    "Pad": kept(lambda b, n: (_square(b, n),), lambda b, x: b.ops.Pad(x, [[1, 1], [2, 2]])),
    "ReverseV2": kept(lambda b, n: (_square(b, n),), lambda b, x: b.ops.ReverseV2(x, [1])),
    "ReverseSequence": kept(
        lambda b, n: (_square(b, n), b.integers(matrix(n), below=matrix(n))),
        called("ReverseSequence", seq_dim=1),
    ),
    "InvertPermutation": kept(lambda b, n: (_permutation(b, n),), called("InvertPermutation")),
    "Unique": kept(lambda b, n: (b.integers(n, below=max(n // 4, 2)),), called("Unique")),
    "Where": kept(lambda b, n: (b.truths(n),), called("Where")),
    "OneHot": kept(
        lambda b, n: (b.integers(n // 16, below=16, least=0),), lambda b, x: b.ops.OneHot(x, 16, 1.0, 0.0)
    ),
    "DynamicPartition": kept(_parts, lambda b, x, p: b.ops.DynamicPartition(x, p, num_partitions=2)),
    "DynamicStitch": kept(_stitched, lambda b, i, j, x, y: b.ops.DynamicStitch([i, j], [x, y])),
    "Gather": kept(rows, called("Gather")),
    "GatherV2": kept(rows, lambda b, x, i: b.ops.GatherV2(x, i, 0)),
    "GatherNd": kept(
        lambda b, n: (_square(b, n), b.integers(n // 16, 2, below=matrix(n), least=0)), called("GatherNd")
    ),
    "ScatterNd": kept(
        lambda b, n: (b.integers(n // 16, 1, below=max(n // 16, 1), least=0), b.floats(n // 16, 16)),
        lambda b, i, x: b.ops.ScatterNd(i, x, [max(x.shape.dims[0], 1), 16]),
    ),
    "MatrixBandPart": kept(lambda b, n: (_square(b, n),), lambda b, x: b.ops.MatrixBandPart(x, 1, 1)),
    "SpaceToBatchND": kept(
        lambda b, n: (images(b, n),), lambda b, x: b.ops.SpaceToBatchND(x, [2, 2], [[0, 0], [0, 0]])
    ),
    "BatchToSpaceND": kept(
        lambda b, n: (images(b, n),), lambda b, x: b.ops.BatchToSpaceND(x, [2, 2], [[0, 0], [0, 0]])
    ),
    **named(lambda op: kept(lambda b, n: (b.floats(n),), called(op)), "StopGradient PreventGradient"),
}
