"""Products and sums of a sparse matrix and a dense one."""

from __future__ import annotations

import numpy as np

from flowengine.gradients.matrices import adjoint
from flowengine.gradients.registry import gradient
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor


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
