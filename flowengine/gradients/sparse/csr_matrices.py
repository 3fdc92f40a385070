"""Sparse matrices by rows: the gradient of one is another one with the same entries."""

from __future__ import annotations

import numpy as np

from flowengine.core.dtypes import DType
from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor


def entries(b: Backward, matrix: Tensor, dtype: DType) -> tuple[Tensor, Tensor, Tensor]:
    """Return the indices of a matrix's entries (int64 (entries, rank)), their values, and its shape."""
    indices, values, shape = b.ops.CSRSparseMatrixToSparseTensor(matrix, type=dtype)
    return indices, values, shape


def taken(b: Backward, matrix: Tensor, dtype: DType, places: Tensor) -> Tensor:
    """The elements of a sparse matrix at places, zero where it has no entry: (places,)."""
    found: Tensor = b.ops.GatherNd(b.ops.CSRSparseMatrixToDense(matrix, type=dtype), places)
    return found


@gradient("DenseToCSRSparseMatrix")
def of_dense(b: Backward, op: Operation, grad: Tensor) -> Results:
    """Each entry's gradient where it came from: added up where one element became two entries."""
    dense, dtype = op.inputs[0], op.get_attr("T")
    indices, values, _ = entries(b, grad, dtype)
    return [b.ops.ScatterNd(indices, values, b.shape(dense, "int64")), None]


@gradient("CSRSparseMatrixToDense")
def to_dense(b: Backward, op: Operation, grad: Tensor) -> Results:
    indices, _, shape = entries(b, op.inputs[0], op.get_attr("type"))
    return [b.ops.SparseTensorToCSRSparseMatrix(indices, b.ops.GatherNd(grad, indices), shape)]


@gradient("SparseTensorToCSRSparseMatrix")
def of_sparse_tensor(b: Backward, op: Operation, grad: Tensor) -> Results:
    """Each entry's gradient goes back to its place, for the matrix orders what it is given by rows.

    A matrix of the entries' numbers, made alike, tells which came from where.
    """
    indices, values, shape = op.inputs
    count = b.shape(values)
    numbers = b.ops.Range(np.int32(0), b.ops.Reshape(count, np.array([], np.int32)), np.int32(1))
    numbered = b.ops.SparseTensorToCSRSparseMatrix(indices, b.ops.Cast(numbers, DstT="float64"), shape)
    _, order, _ = b.ops.CSRSparseMatrixToSparseTensor(numbered, type="float64")
    places = b.ops.ExpandDims(b.ops.Cast(order, DstT="int32"), np.int32(1))
    _, found, _ = entries(b, grad, op.get_attr("T"))
    return [None, b.ops.ScatterNd(places, found, count), None]


@gradient("CSRSparseMatrixToSparseTensor", lazy=True)
def to_sparse_tensor(
    b: Backward, op: Operation, _: Tensor | None, values: Tensor | None, __: Tensor | None
) -> Results:
    if values is None:
        return [None]
    indices, _values, shape = op.outputs
    return [b.ops.SparseTensorToCSRSparseMatrix(indices, values, shape)]


@gradient("SparseMatrixTranspose")
def transposed(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [b.ops.SparseMatrixTranspose(grad, conjugate=op.get_attr("conjugate"), type=op.get_attr("type"))]


@gradient("SparseMatrixSoftmax")
def softmax(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [b.ops.SparseMatrixSoftmaxGrad(op.outputs[0], grad, type=op.get_attr("type"))]


@gradient("SparseMatrixSoftmaxGrad")
def softmax_grad(b: Backward, op: Operation, grad: Tensor) -> Results:
    """Of s (g - sum of s g), rows alone: s gets G (g - sum of s g) - g sum of s G; g gets what s gave it."""
    (output, inner), dtype = op.inputs, op.get_attr("type")
    indices, s, shape = entries(b, output, dtype)
    g, outer = taken(b, inner, dtype, indices), taken(b, grad, dtype, indices)
    # Rows of all matrices of a batch, counted on.
    sizes = b.ops.StridedSlice(shape, [0], [-1], [1], begin_mask=1)
    strides = b.ops.Cumprod(sizes, np.int32(0), exclusive=True, reverse=True)
    place = b.ops.StridedSlice(indices, [0, 0], [0, -1], [1, 1], begin_mask=3, end_mask=1)
    row = b.ops.Sum(b.ops.Mul(place, strides), np.int32(1))
    count = b.ops.Prod(sizes, np.int32(0))

    def by_rows(values: Tensor) -> Tensor:
        found: Tensor = b.ops.GatherV2(b.ops.UnsortedSegmentSum(values, row, count), row, np.int32(0))
        return found

    apart = b.ops.Sub(g, by_rows(b.ops.Mul(s, g)))
    values = b.ops.Sub(b.ops.Mul(outer, apart), b.ops.Mul(g, by_rows(b.ops.Mul(s, outer))))
    of_output = b.ops.SparseTensorToCSRSparseMatrix(indices, values, shape)

    back = b.ops.SparseMatrixSoftmaxGrad(output, grad, type=dtype)
    places, _, _ = entries(b, inner, dtype)
    of_inner = b.ops.SparseTensorToCSRSparseMatrix(places, taken(b, back, dtype, places), shape)
    return [of_output, of_inner]
