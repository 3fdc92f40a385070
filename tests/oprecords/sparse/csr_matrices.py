"""Sparse matrices by rows: made of tensors, and taken apart."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "a variant is what another op makes or reads: tests/kernels/test_sparse_matrices.py": """
        CSRSparseMatrixComponents CSRSparseMatrixToDense CSRSparseMatrixToSparseTensor DenseToCSRSparseMatrix
        SparseMatrixNNZ SparseMatrixSoftmax SparseMatrixSoftmaxGrad SparseMatrixTranspose SparseMatrixZeros
        SparseTensorToCSRSparseMatrix
    """,
}
