"""Sparse matrices by rows: products, sums, orders and factors."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "a variant is what another op makes or reads: tests/kernels/test_sparse_matrices.py": """
        SparseMatrixAdd SparseMatrixMatMul SparseMatrixMul SparseMatrixOrderingAMD SparseMatrixSparseCholesky
        SparseMatrixSparseMatMul
    """,
}
