"""Sparse matrices by rows as nodes: made of tensors, taken apart, turned, and softmax of their rows."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, Value
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.common.array_args import brackets, integers
from flowengine.kernels.registry import kernel
from flowengine.kernels.sparse.csr_value import (
    SparseMatrix,
    checked_sizes,
    gathered,
    made,
    matrix_in,
    rows_of,
)

HOST: Final = "SciPy's matrices of a variant, which has no form in a device's memory"


@kernel("SparseTensorToCSRSparseMatrix")
def sparse_tensor_to_csr(indices: Array, values: Array, dense_shape: Array) -> SparseMatrix:
    """The matrix, or batch of matrices, with the entries of a sparse tensor."""
    dims = integers(dense_shape, "dense_shape")
    if indices.ndim != 2 or values.ndim != 1 or indices.shape != (len(values), len(dims)):
        raise InvalidArgumentError(
            f"indices of {brackets(indices.shape)} and values of {brackets(values.shape)} do not fit "
            f"a shape of {len(dims)} dimensions"
        )
    return gathered(dims, indices, values)


@kernel("DenseToCSRSparseMatrix")
def dense_to_csr(dense_input: Array, indices: Array) -> SparseMatrix:
    """The matrix, or batch of matrices, with those elements of a tensor to which the indices point."""
    if dense_input.ndim not in (2, 3):
        raise InvalidArgumentError(f"dense must have rank 2 or 3, not {brackets(dense_input.shape)}")
    if indices.ndim != 2 or indices.shape[1] != dense_input.ndim:
        raise InvalidArgumentError(
            f"indices must be (n, {dense_input.ndim}) for a tensor of {brackets(dense_input.shape)}, not "
            f"{brackets(indices.shape)}"
        )
    outside = (indices < 0) | (indices >= np.array(dense_input.shape))
    if outside.any():
        wrong = indices[outside.any(1)][0].tolist()
        raise InvalidArgumentError(f"index {wrong} is not in a tensor of shape {brackets(dense_input.shape)}")
    return gathered(dense_input.shape, indices, dense_input[tuple(indices.T)])


@kernel("SparseMatrixZeros")
def sparse_matrix_zeros(dense_shape: Array, *, node: Node) -> SparseMatrix:
    """A matrix, or a batch of them, without any entry."""
    dims = integers(dense_shape, "dense_shape")
    checked_sizes(dims, 0)
    return gathered(dims, np.zeros((0, len(dims)), np.int64), np.zeros(0, node.attrs["type"].as_numpy_dtype))


@kernel("CSRSparseMatrixToSparseTensor", fresh=True)
def csr_to_sparse_tensor(sparse_matrix: Value, *, node: Node) -> tuple[Array, Array, Array]:
    """Indices (int64 [entries, rank]), values, and the shape."""
    matrix = matrix_in(sparse_matrix, node.attrs["type"])
    places = []
    for which, part in enumerate(matrix.parts):
        columns = [rows_of(part), part.indices.astype(np.int64)]
        if matrix.is_batch:
            columns.insert(0, np.full(part.indices.size, which, np.int64))
        places.append(np.stack(columns, axis=1))
    rank = len(matrix.shape)
    return (
        np.concatenate([np.zeros((0, rank), np.int64), *places]),
        np.concatenate([np.zeros(0, matrix.dtype), *[part.data for part in matrix.parts]]),
        np.array(matrix.shape, np.int64),
    )


@kernel("CSRSparseMatrixToDense", fresh=True)
def csr_to_dense(sparse_input: Value, *, node: Node) -> Array:
    """All elements, zeros included; of an entry that is there twice the last one."""
    matrix = matrix_in(sparse_input, node.attrs["type"])
    out = np.zeros((len(matrix.parts), *matrix.shape[-2:]), matrix.dtype)
    for part, place in zip(matrix.parts, out, strict=True):
        place[rows_of(part), part.indices] = part.data
    return out.reshape(matrix.shape)


@kernel("CSRSparseMatrixComponents", fresh=True)
def csr_components(csr_sparse_matrix: Value, index: Any, *, node: Node) -> tuple[Array, Array, Array]:
    """Of one matrix of a batch: where rows begin (int32), columns (int32), and values."""
    matrix = matrix_in(csr_sparse_matrix, node.attrs["type"])
    if not 0 <= int(index) < len(matrix.parts):
        raise InvalidArgumentError(f"index ({int(index)}) not in [0, {len(matrix.parts)})")
    part = matrix.parts[int(index)]
    return part.indptr.astype(np.int32), part.indices.astype(np.int32), part.data.copy()


@kernel("SparseMatrixNNZ", fresh=True)
def sparse_matrix_nnz(sparse_matrix: Value) -> Any:
    """How many entries there are (int32): a number, or one for each matrix of a batch."""
    matrix = matrix_in(sparse_matrix)
    counts = np.array([part.indices.size for part in matrix.parts], np.int32)
    return counts if matrix.is_batch else counts[0]


def turned(part: Any, conjugate: bool) -> Any:
    """The transpose of a matrix by rows, its entries in order."""
    order = np.lexsort((rows_of(part), part.indices))
    values = part.data[order]
    starts = np.searchsorted(part.indices[order], np.arange(part.shape[1] + 1))
    return made(
        np.conj(values) if conjugate else values, rows_of(part)[order], starts, (part.shape[1], part.shape[0])
    )


@kernel("SparseMatrixTranspose")
def sparse_matrix_transpose(given: Value, *, conjugate: bool, node: Node) -> SparseMatrix:
    """The last two dimensions exchanged."""
    matrix = matrix_in(given, node.attrs["type"])
    shape = (*matrix.shape[:-2], matrix.shape[-1], matrix.shape[-2])
    return SparseMatrix(shape, [turned(part, conjugate) for part in matrix.parts], matrix.dtype)


def _by_rows(ufunc: np.ufunc, part: Any, values: Array, start: Any) -> Array:
    """Reduce each row's values with a ufunc, and return the result for each entry."""
    rows = rows_of(part)
    result = np.full(part.shape[0], start, values.dtype)
    ufunc.at(result, rows, values)
    spread: Array = result[rows]
    return spread


@kernel("SparseMatrixSoftmax")
def sparse_matrix_softmax(logits: Value, *, node: Node) -> SparseMatrix:
    """exp(x) / sum exp(x) of each row; what has no entry counts as minus infinity."""

    def softmax(part: Any) -> Any:
        powers = np.exp(part.data - _by_rows(np.maximum, part, part.data, -np.inf))
        return made(powers / _by_rows(np.add, part, powers, 0), part.indices, part.indptr, part.shape)

    return matrix_in(logits, node.attrs["type"]).each(softmax)


@kernel("SparseMatrixSoftmaxGrad")
def sparse_matrix_softmax_grad(softmax: Value, grad_softmax: Value, *, node: Node) -> SparseMatrix:
    """The gradient of SparseMatrixSoftmax, from its result and the gradient with regard to that."""
    wanted = node.attrs["type"]
    outputs, grads = matrix_in(softmax, wanted, "softmax"), matrix_in(grad_softmax, wanted, "grad_softmax")
    if outputs.shape != grads.shape:
        raise InvalidArgumentError(
            f"softmax and grad_softmax must have one shape, not {brackets(outputs.shape)} and "
            f"{brackets(grads.shape)}"
        )
    return outputs.of([_softmax_grad(*pair) for pair in zip(outputs.parts, grads.parts, strict=True)])


def _softmax_grad(output: Any, grad: Any) -> Any:
    columns = output.shape[1]
    wanted, there = (rows_of(part) * columns + part.indices for part in (output, grad))
    order = np.argsort(there, kind="stable")
    places = np.minimum(np.searchsorted(there[order], wanted), max(there.size - 1, 0))
    near = np.zeros(wanted.size, output.dtype)
    if there.size:
        found = there[order][places] == wanted
        near[found] = grad.data[order][places][found]
    products = output.data * near
    values = output.data * (near - _by_rows(np.add, output, products, 0))
    return made(values, output.indices, output.indptr, output.shape)
