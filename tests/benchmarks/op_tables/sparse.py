"""Sparse tensors, and linear algebra beyond products."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.benchmarks.op_tables.bench import Bench, One, called, kept, matrix, named, small_matrix


def _sparse(b: Bench, n: int) -> tuple[Any, ...]:
    """A square matrix of which a sixteenth is there: its indices in order, values and shape."""
    side = matrix(n)
    places = np.flatnonzero(b.random.random(side * side) < 1 / 16)
    indices = np.stack([places // side, places % side], 1).astype(np.int64)
    return b.variable(indices), b.floats(len(indices)), b.graph.constant(np.array([side, side], np.int64))


def _shuffled(b: Bench, n: int) -> tuple[Any, ...]:
    side = matrix(n)
    places = b.random.permutation(side * side)[: max(side * side // 16, 1)]
    indices = np.stack([places // side, places % side], 1).astype(np.int64)
    return b.variable(indices), b.floats(len(indices)), b.graph.constant(np.array([side, side], np.int64))


def _definite(b: Bench, n: int) -> Any:
    """A symmetric matrix whose eigenvalues are well above 0."""
    side = small_matrix(n)
    half = b.random.random((side, side), np.float32)
    return b.variable(half @ half.T / side + np.eye(side, dtype=np.float32))


def _solved(b: Bench, n: int) -> tuple[Any, Any]:
    return _definite(b, n), b.floats(small_matrix(n), 4)


def _general(b: Bench, n: int) -> tuple[Any]:
    return (b.floats(small_matrix(n), small_matrix(n)),)


OPS: Final[dict[str, One]] = {
    "SparseToDense": kept(_sparse, lambda b, i, v, s: b.ops.SparseToDense(i, s, v, 0.0)),
    "SparseTensorDenseMatMul": kept(
        lambda b, n: (*_sparse(b, n), b.floats(matrix(n), 16)), called("SparseTensorDenseMatMul")
    ),
    "SparseReorder": kept(_shuffled, called("SparseReorder")),
    "SparseReshape": kept(_sparse, lambda b, i, v, s: b.ops.SparseReshape(i, s, np.array([-1], np.int64))),
    "SparseFillEmptyRows": kept(_sparse, lambda b, i, v, s: b.ops.SparseFillEmptyRows(i, v, s, 0.0)),
    "SparseReduceSum": kept(_sparse, lambda b, i, v, s: b.ops.SparseReduceSum(i, v, s, [1])),
    "SparseSoftmax": kept(_sparse, called("SparseSoftmax")),
    "SparseConcat": kept(
        _sparse, lambda b, i, v, s: b.ops.SparseConcat([i, i], [v, v], [s, s], concat_dim=1)
    ),
    "SparseSlice": kept(
        _sparse,
        lambda b, i, v, s: b.ops.SparseSlice(i, v, s, np.array([1, 1], np.int64), np.array([8, 8], np.int64)),
    ),
    "SparseAdd": kept(_sparse, lambda b, i, v, s: b.ops.SparseAdd(i, v, s, i, v, s, 0.0)),
    "Cholesky": kept(lambda b, n: (_definite(b, n),), called("Cholesky")),
    "SelfAdjointEigV2": kept(lambda b, n: (_definite(b, n),), called("SelfAdjointEigV2")),
    **named(lambda op: kept(_general, called(op)), "MatrixInverse MatrixDeterminant Qr Svd"),
    **named(lambda op: kept(_solved, called(op)), "MatrixSolve MatrixTriangularSolve"),
    "Einsum": kept(
        lambda b, n: (
            b.floats(4, small_matrix(n), small_matrix(n)),
            b.floats(4, small_matrix(n), small_matrix(n)),
        ),
        lambda b, x, y: b.ops.Einsum([x, y], equation="bij,bjk->bik"),
    ),
}
