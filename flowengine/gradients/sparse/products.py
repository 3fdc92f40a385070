"""Gradients of products and sums of sparse matrices, by entries or by rows."""

from __future__ import annotations

import numpy as np

from flowengine.gradients.backward import Backward
from flowengine.gradients.matrices import adjoint, turned
from flowengine.gradients.registry import gradient
from flowengine.gradients.sparse.csr_matrices import entries, taken
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor

# Products and sums of a sparse matrix and a dense one.


@gradient("SparseTensorDenseAdd")
def sparse_dense_add(b: Backward, op: Operation, grad: Tensor) -> Results:
    return [None, b.ops.GatherNd(grad, op.inputs[0]), None, grad]


@gradient("SparseTensorDenseMatMul")
def sparse_mat_mul(b: Backward, op: Operation, grad: Tensor) -> Results:
    """The dense matrix gets A^H G. The entry (i, j) of A gets row i of G times row j of B, conjugated.

    Of the adjoint of A it is row j of G, conjugated, times row i of B.
    """
    indices, values, shape, dense = op.inputs
    is_adjoint_a, is_adjoint_b = op.get_attr("adjoint_a"), op.get_attr("adjoint_b")
    of_dense = b.ops.SparseTensorDenseMatMul(indices, values, shape, grad, adjoint_a=not is_adjoint_a)
    places = [
        b.ops.StridedSlice(indices, [0, i], [0, i + 1], [1, 1], begin_mask=1, end_mask=1, shrink_axis_mask=2)
        for i in (0, 1)
    ]
    if is_adjoint_a:
        places.reverse()
    outer, inner = places
    rows = adjoint(b, dense) if is_adjoint_b else dense
    ours = b.ops.GatherV2(grad, outer, np.int32(0))
    theirs = b.ops.GatherV2(rows, inner, np.int32(0))
    if is_adjoint_a:
        ours = b.real_or_conj(ours)
    else:
        theirs = b.real_or_conj(theirs)
    of_values = b.ops.Sum(b.ops.Mul(ours, theirs), np.int32(1))
    return [None, of_values, None, adjoint(b, of_dense) if is_adjoint_b else of_dense]


# Products and sums of sparse matrices by rows.
#
# The gradient of a sparse matrix has its entries, and no other: only these are computed.


@gradient("SparseMatrixAdd")
def add(b: Backward, op: Operation, grad: Tensor) -> Results:
    """alpha a + beta b: each matrix gets its factor times G, each factor the product of its matrix and G."""
    dtype = op.get_attr("T")
    matrices: list[Tensor] = []
    factors: list[Tensor] = []
    for matrix, factor in zip(op.inputs[:2], op.inputs[2:], strict=True):
        indices, values, shape = entries(b, matrix, dtype)
        found = taken(b, grad, dtype, indices)
        scaled = b.ops.Mul(found, b.real_or_conj(factor))
        matrices.append(b.ops.SparseTensorToCSRSparseMatrix(indices, scaled, shape))
        factors.append(b.ops.Sum(b.ops.Mul(found, b.real_or_conj(values)), np.int32(0)))
    return [*matrices, *factors]


@gradient("SparseMatrixMul")
def mul(b: Backward, op: Operation, grad: Tensor) -> Results:
    """A number, or one for each matrix of a batch: its gradient is the sum of the products in its matrix."""
    (matrix, factor), dtype = op.inputs, op.get_attr("T")
    indices, values, _ = entries(b, matrix, dtype)
    _, found, _ = entries(b, grad, dtype)
    count = b.ops.Size(factor, out_type="int64")
    first = b.ops.StridedSlice(indices, [0, 0], [0, 1], [1, 1], begin_mask=1, end_mask=1, shrink_axis_mask=2)
    # One number goes with all there is.
    which = b.ops.Minimum(first, b.ops.Sub(count, np.int64(1)))
    sums = b.ops.UnsortedSegmentSum(b.ops.Mul(found, b.real_or_conj(values)), which, count)
    return [b.ops.SparseMatrixMul(grad, b.real_or_conj(factor)), b.ops.Reshape(sums, b.shape(factor))]


@gradient("SparseMatrixMatMul")
def mat_mul(b: Backward, op: Operation, grad: Tensor) -> Results:
    """Of C = A B, B gets A^H G, and the entry (i, j) of A row i of G times row j of B, conjugated."""
    (matrix, dense), dtype = op.inputs, op.get_attr("T")
    adjoint_a, adjoint_b = op.get_attr("adjoint_a"), op.get_attr("adjoint_b")
    is_turned_a = adjoint_a or op.get_attr("transpose_a")
    is_turned_b = adjoint_b or op.get_attr("transpose_b")
    if op.get_attr("transpose_output"):
        grad = turned(b, grad)
    if op.get_attr("conjugate_output"):
        grad = b.real_or_conj(grad)
    right = turned(b, dense, conjugate=adjoint_b) if is_turned_b else dense

    indices, _, shape = entries(b, matrix, dtype)
    rows, columns = _rows(b, indices), _columns(b, indices)
    of_grad = b.ops.GatherNd(grad, columns if is_turned_a else rows)
    of_right = b.ops.GatherNd(right, rows if is_turned_a else columns)
    found = b.ops.Sum(b.ops.Mul(of_grad, b.real_or_conj(of_right)), np.int32(1))
    values = b.real_or_conj(found) if adjoint_a else found

    # The adjoint of a transpose is the conjugate: that of a product with the conjugate of G.
    is_conjugate = is_turned_a and not adjoint_a
    of_dense = b.ops.SparseMatrixMatMul(
        matrix,
        b.real_or_conj(grad) if is_conjugate else grad,
        adjoint_a=not is_turned_a,
        conjugate_output=is_conjugate != adjoint_b,
        transpose_output=is_turned_b,
    )
    return [b.ops.SparseTensorToCSRSparseMatrix(indices, values, shape), of_dense]


@gradient("SparseMatrixSparseMatMul")
def csr_sparse_mat_mul(b: Backward, op: Operation, grad: Tensor) -> Results:
    """Of C = A B, A gets G B^H and B gets A^H G, each at the entries that it has."""
    left, right = op.inputs
    return [_of_factor(b, op, grad, left, "a"), _of_factor(b, op, grad, right, "b")]


def _of_factor(b: Backward, op: Operation, grad: Tensor, matrix: Tensor, side: str) -> Tensor:
    """The gradient of one of two sparse factors: of the product with the other as that stands there."""
    dtype, other = op.get_attr("type"), "b" if side == "a" else "a"
    factor = op.inputs["ab".index(other)]
    if op.get_attr(f"transpose_{other}"):
        factor = _conjugate(b, factor, op)
    is_plain = not (op.get_attr(f"transpose_{other}") or op.get_attr(f"adjoint_{other}"))
    turned_factor = {f"adjoint_{other}": is_plain}
    operands = (grad, factor) if side == "a" else (factor, grad)
    product = b.ops.SparseMatrixSparseMatMul(*operands, type=dtype, **turned_factor)
    indices, _, shape = entries(b, matrix, dtype)
    is_adjoint = op.get_attr(f"adjoint_{side}")
    places = indices
    if is_adjoint or op.get_attr(f"transpose_{side}"):
        last = b.ops.StridedSlice(indices, [0, -1], [0, 0], [1, 1], begin_mask=1, end_mask=3)
        first = b.ops.StridedSlice(indices, [0, -2], [0, -1], [1, 1], begin_mask=1, end_mask=1)
        batch = b.ops.StridedSlice(indices, [0, 0], [0, -2], [1, 1], begin_mask=3, end_mask=1)
        places = b.ops.ConcatV2([batch, last, first], np.int32(1))
    values = taken(b, product, dtype, places)
    result: Tensor = b.ops.SparseTensorToCSRSparseMatrix(
        indices, b.real_or_conj(values) if is_adjoint else values, shape
    )
    return result


def _conjugate(b: Backward, matrix: Tensor, op: Operation) -> Tensor:
    dtype = op.get_attr("type")
    if not dtype.is_complex:
        return matrix
    indices, values, shape = entries(b, matrix, dtype)
    result: Tensor = b.ops.SparseTensorToCSRSparseMatrix(indices, b.ops.Conj(values), shape)
    return result


def _rows(b: Backward, indices: Tensor) -> Tensor:
    """Of (batch, row, column) the batch, if there is one, and the row."""
    found: Tensor = b.ops.StridedSlice(indices, [0, 0], [0, -1], [1, 1], begin_mask=3, end_mask=1)
    return found


def _columns(b: Backward, indices: Tensor) -> Tensor:
    """Of (batch, row, column) the batch, if there is one, and the column."""
    batch = b.ops.StridedSlice(indices, [0, 0], [0, -2], [1, 1], begin_mask=3, end_mask=1)
    column = b.ops.StridedSlice(indices, [0, -1], [0, 0], [1, 1], begin_mask=1, end_mask=3)
    found: Tensor = b.ops.ConcatV2([batch, column], np.int32(1))
    return found
