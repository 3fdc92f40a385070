"""Sparse matrices by rows, alone or in batches: made of tensors, and taken apart."""

from __future__ import annotations

from typing import Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import SCALAR, UNKNOWN_SHAPE
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    MATRIX,
    VECTOR,
    check_scalars,
    dims_of,
    merge_dims,
    ranked,
    ranked_at_least,
    ranked_at_most,
)

_NUMBERS: Final = "{float, double, complex64, complex128}"


def check_rank(rank: int | None) -> None:
    """InvalidArgumentError for what is neither a matrix nor a batch of them."""
    if rank is not None and rank not in (2, 3):
        raise InvalidArgumentError(f"Invalid rank: {rank}. Expected a rank of either 2 or 3.")


@define(
    "SparseTensorToCSRSparseMatrix(indices: int64, values: T, dense_shape: int64) -> sparse_matrix: variant",
    f"T: {_NUMBERS}",
)
def of_sparse_tensor(c: ShapeContext) -> Shapes:
    count, rank = dims_of(ranked(c, 0, 2), 2)
    merge_dims(count, dims_of(ranked(c, 1, 1), 1)[0], "The number of indices and of values")
    check_rank(merge_dims(rank, dims_of(ranked(c, 2, 1), 1)[0], "The rank of indices and of the shape"))
    return [SCALAR]


@define(
    "DenseToCSRSparseMatrix(dense_input: T, indices: int64) -> sparse_output: variant",
    f"T: {_NUMBERS}",
)
def of_dense(c: ShapeContext) -> Shapes:
    dense = ranked_at_most(c, 0, 3)
    ranked_at_least(c, 0, 2)
    merge_dims(dense.rank, dims_of(ranked(c, 1, 2), 2)[1], "The rank of the tensor and of indices")
    return [SCALAR]


@define(
    "SparseMatrixZeros(dense_shape: int64) -> sparse_matrix: variant",
    f"type: {_NUMBERS}",
    NotDifferentiable(),
)
def zeros(c: ShapeContext) -> Shapes:
    check_rank(dims_of(ranked(c, 0, 1), 1)[0])
    return [SCALAR]


@define(
    "CSRSparseMatrixToSparseTensor(sparse_matrix: variant) "
    "-> indices: int64, values: type, dense_shape: int64",
    f"type: {_NUMBERS}",
)
def to_sparse_tensor(c: ShapeContext) -> Shapes:
    check_scalars(c, 0)
    return [MATRIX, VECTOR, VECTOR]


@define("CSRSparseMatrixToDense(sparse_input: variant) -> dense_output: type", f"type: {_NUMBERS}")
@define("SparseMatrixNNZ(sparse_matrix: variant) -> nnz: int32", NotDifferentiable())
def of_matrix(c: ShapeContext) -> Shapes:
    check_scalars(c, 0)
    return [UNKNOWN_SHAPE]


@define(
    "CSRSparseMatrixComponents(csr_sparse_matrix: variant, index: int32) "
    "-> row_ptrs, col_inds: int32, values: type",
    f"type: {_NUMBERS}",
)
def components(c: ShapeContext) -> Shapes:
    check_scalars(c, 0, 1)
    return [VECTOR, VECTOR, VECTOR]


@define(
    "SparseMatrixTranspose(input: variant) -> output: variant",
    f"conjugate: bool = false; type: {_NUMBERS}",
)
@define("SparseMatrixSoftmax(logits: variant) -> softmax: variant", "type: {float, double}")
@define(
    "SparseMatrixSoftmaxGrad(softmax, grad_softmax: variant) -> gradient: variant", "type: {float, double}"
)
def matrix_of_matrices(c: ShapeContext) -> Shapes:
    check_scalars(c, *range(c.num_inputs))
    return [SCALAR]
